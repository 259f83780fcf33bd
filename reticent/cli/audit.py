"""`reticent audit`: an honest attempt to contradict a claimed epsilon."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reticent.accounting.rounding import at_least
from reticent.cli import options, output, paths
from reticent.core.errors import InvalidArgument

if TYPE_CHECKING:
    from reticent.audit import Arithmetic, Audit
    from reticent.audit.additive import AdditiveAudit
    from reticent.runs.record import RunRecord

EPILOG = "Example:  reticent audit runs/patients"


def run(
    folder: options.OptionalRunFolder = None,
    train_like: Annotated[
        Path | None, typer.Option(help="The same folder, as an option.", show_default=False)
    ] = None,
    canaries: Annotated[
        str,
        typer.Option(
            help="The number of made-up records to hide among the rows; auto takes it from the plan."
        ),
    ] = "auto",
    arithmetic: Annotated[
        bool, typer.Option("--arithmetic", help="Audit the arithmetic of one step, bit by bit, instead.")
    ] = False,
    confidence: Annotated[float, typer.Option(help="The confidence level of the audit.")] = 0.95,
    data: options.MovedData = None,
    write: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="A new JSON file for the numbers.",
            show_default="private/audit.json in the run's folder",
        ),
    ] = None,
    as_json: output.AsJson = False,
) -> None:
    """Audit a run, by training like it once more with canaries.

    Made-up records, the canaries, join the training set by independent coin
    flips, and an auditor who sees the noisy steps guesses which joined. Too
    many right guesses contradict the claimed epsilon, and the exit code is 1.
    The data are read again, so the result is for whoever holds them: it is kept
    in RUN/private, where a report looks for it.

    With --arithmetic nothing is trained: one step is replayed on two
    neighbouring batches, with records that cancel, overflow or are NaN.
    """
    from reticent.audit.from_run import audit_run, audit_run_arithmetic
    from reticent.runs import private_part
    from reticent.runs.reopen import open_again

    chosen = _require_one_run(folder, train_like)
    count = _parse_canaries(canaries, has_canaries=not arithmetic)
    paths.require_folder(chosen)
    if write is not None:
        paths.require_new(write)
    again = open_again(chosen, observer=output.observer(), data=data)
    if arithmetic:
        bits = audit_run_arithmetic(again, confidence=confidence)
        result, code, show = bits.to_json(), bits.exit_code, partial(_show_arithmetic, bits)
    else:
        found = audit_run(again, canaries=count, confidence=confidence)
        result, code, show = found.to_json(), found.verdict.exit_code, partial(_show, found, again.record)
    if write is not None:
        _write(write, result)
    else:
        with output.kept_if_possible():
            name = private_part.ARITHMETIC if arithmetic else private_part.AUDIT
            _write(private_part.make_place(chosen, name), result)
    output.print_json(result) if as_json else show()
    raise typer.Exit(code)


def _write(path: Path, result: dict[str, Any]) -> None:
    """Writes the numbers where only their owner can read them."""
    from reticent.core.files import write_whole

    write_whole(path, (json.dumps(result, indent=2, allow_nan=False) + "\n").encode(), is_private=True)
    output.note(f"Wrote {path}.")


def _require_one_run(folder: Path | None, train_like: Path | None) -> Path:
    chosen = folder or train_like
    if chosen is None or (folder and train_like):
        raise InvalidArgument(
            "Audit exactly one run.",
            remedy="Pass its folder once: reticent audit RUN, or --train-like RUN.",
        )
    return chosen


def _parse_canaries(canaries: str, *, has_canaries: bool) -> int | None:
    """Reads the number of canaries; None for as many as the plan needs."""
    if canaries == "auto":
        return None
    if not has_canaries:
        raise InvalidArgument(
            "--arithmetic uses no canaries.",
            remedy="Leave out --canaries, or --arithmetic.",
        )
    if not canaries.isdecimal():
        raise InvalidArgument(
            f"--canaries {canaries} is not a whole number.", remedy="Pass a whole number, or auto."
        )
    if int(canaries) == 0:
        raise InvalidArgument(
            "--canaries 0 leaves nothing to guess.", remedy="Pass a whole number of at least 1, or auto."
        )
    return int(canaries)


def _show(found: Audit | AdditiveAudit, record: RunRecord) -> None:
    from reticent.report.facts.attacks import unaudited_part

    output.print_text(" ".join([str(found.verdict), *unaudited_part(record)]))
    rows = [(each.threat, each.kind.value, at_least(each.epsilon), each.method) for each in found.evidence]
    output.print_line()
    headings = {"threat": "left", "kind": "left", "epsilon": "right", "method": "left"}
    output.print_table("Evidence", headings, rows)


def _show_arithmetic(found: Arithmetic) -> None:
    output.print_text(found.sentence)
    rows = [(each.check, each.outcome.value, f"{each.what}.") for each in found.findings]
    output.print_line()
    output.print_table("Findings", {"check": "left", "outcome": "left", "finding": "left"}, rows)
