"""What the compiled program of a step sends, on meshes of virtual devices: read from its text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax

import reticent as rt
from benchmarks.scale.workers import cases
from benchmarks.scale.workers.telling import asked, say
from reticent.models.losses import classification_loss
from reticent.training.devices.mesh import Layout
from reticent.training.step import TrainState

_BYTES = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s32": 4, "u32": 4, "f32": 4, "s64": 8, "f64": 8}
_KINDS = (
    "all-reduce",
    "reduce-scatter",
    "all-gather",
    "all-to-all",
    "collective-permute",
    "collective-broadcast",
)
_INSTRUCTION = re.compile(rf"= (?P<shape>.*?) (?P<kind>{'|'.join(_KINDS)})(?:-start)?\((?P<operands>[^)]*)\)")
_ARRAY = re.compile(r"\b([a-z]+\d*)\[([\d,]*)\]")
_DEFINED = re.compile(r"^\s*(?:ROOT )?(%[\w.-]+) = (.*?) [a-z][\w-]*\(", re.MULTILINE)


def main() -> None:
    wanted = asked()
    jax.config.update("jax_num_cpu_devices", max(wanted["devices"]))
    model = cases.network(wanted["network"])
    found = []
    for devices in wanted["devices"]:
        for is_divided in (False, True):
            text = _program(model, devices, is_divided=is_divided)
            found.append({"devices": devices, "is_divided": is_divided, **_sent(text)})
    say(gradient=4 * model.size, found=found)


def _program(model: Any, devices: int, *, is_divided: bool) -> str:
    """The text of the compiled steps that `rt.train` takes; the loop over them has the body of one."""
    texts: list[str] = []
    original = Layout.compiled

    def compiled(self: Layout, function: Callable[..., Any], state: TrainState) -> Callable[..., Any]:
        program: Any = original(self, function, state)

        def called(*arguments: Any) -> Any:
            texts.append(program.lower(*arguments).compile().as_text())
            return program(*arguments)

        return called

    Layout.compiled = compiled
    try:
        rt.train(
            classification_loss(model),
            model.init(jax.random.key(0)),
            cases.examples("mlp", 256),
            cases.plan(256, 64, 1),
            optimizer=optax.sgd(0.1),
            execution=rt.Execution(
                mesh=jax.sharding.Mesh(np.array(jax.devices()[:devices]), ("records",)),
                divide_params=is_divided,
            ),
        )
    finally:
        Layout.compiled = original
    return texts[0]


def _sent(text: str) -> dict[str, Any]:
    """Bytes that go into sums and come out of gatherings, of all collective operations there are, by kind."""
    shapes = dict(_DEFINED.findall(text))
    sent: dict[str, int] = {}
    count = 0
    for line in text.splitlines():
        if match := _INSTRUCTION.search(line):
            kind = match["kind"]
            operands = re.findall(r"%[\w.-]+", match["operands"])
            into = sum(_size(shapes.get(name, "")) for name in operands) or _size(match["operands"])
            sent[kind] = sent.get(kind, 0) + (_size(match["shape"]) if kind == "all-gather" else into)
            count += 1
    return {"sent": sent, "operations": count}


def _size(shape: str) -> int:
    return sum(
        _BYTES[kind] * int(np.prod([int(side) for side in sides.split(",") if side], dtype=np.int64))
        for kind, sides in _ARRAY.findall(shape)
        if kind in _BYTES
    )


if __name__ == "__main__":
    main()
