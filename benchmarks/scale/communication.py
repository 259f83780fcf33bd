"""What a step sends: read from the compiled program, for several numbers of devices."""

from __future__ import annotations

from typing import Any

from benchmarks.scale.asking import answer_of
from benchmarks.training.tables import Check, Section

_COUNTS = 12  # bytes: the loss, who was below the norm, who was there; private, and shown only when asked for

TEXT = """The perceptron, 669,706 parameters, on virtual devices of one process. Bytes of all collective
operations in the compiled program of a step: what goes into sums (`all-reduce`, `reduce-scatter`) and what
comes out of `all-gather`. A gradient has {gradient:,} bytes; {counts} more are three numbers about the
batch. Divided parameters are gathered before the gradients and never summed whole: leaves that the devices
do not divide evenly stay with everybody."""


def measure(*, quick: bool) -> tuple[Section, dict[str, Any]]:
    answer = answer_of("collectives", {"network": "mlp", "devices": [2] if quick else [2, 4, 8]})
    gradient, rows, checks = answer["gradient"], [], []
    for found in answer["found"]:
        name = f"{found['devices']} devices, {'divided' if found['is_divided'] else 'replicated'}"
        sent = found["sent"]
        summed = sent.get("all-reduce", 0) + sent.get("reduce-scatter", 0)
        gathered = sum(sent.values()) - summed
        rows.append((name, f"{summed:,}", f"{gathered:,}", str(found["operations"])))
        checks.append(
            Check(f"{name}: bytes summed beyond one gradient", summed - gradient, "=", _COUNTS, "bytes")
        )
        if found["is_divided"]:
            checks.append(Check(f"{name}: parameters gathered / gradient", gathered / gradient, "<=", 1.0))
        else:
            checks.append(Check(f"{name}: bytes gathered", gathered, "=", 0, "bytes"))
    header = ("", "bytes summed", "bytes gathered", "operations in the text")
    text = TEXT.format(gradient=gradient, counts=_COUNTS)
    return Section("Communication", text, header, rows, checks), answer
