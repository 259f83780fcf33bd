"""What of a run may leave the house, alone in a folder of its own: model, domain, guarantee, and a card."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from reticent.core.errors import DataError
from reticent.core.files import ANY_SIZE, read_inside, write_whole
from reticent.core.printable import printable
from reticent.runs import folder as folders
from reticent.runs.record import RunRecord

CARD = "MODEL_CARD.md"

_PUBLIC_OPTIONS = ("model", "teachers", "ignore", "rows")
_MADE = (folders.MODEL, "generator.model", "generator.safetensors", "generator.json")


def export(folder: Path, to: Path) -> RunRecord:
    """Writes what is covered by the guarantee of a finished run into a new folder, and nothing else.

    It can be shown, reported on and predicted with, or sampled from. Held-out scores, the history, what was
    seen on the way, and the folders of data and ledger stay behind.

    Raises:
        DataError: the run is not finished, or there is something at `to` already.
    """
    record = folders.read_record(folder)
    folders.require_finished(folder, record)
    released = released_record(record)
    files = {name: content for name in _MADE if (content := _read(folder, name)) is not None}
    if not files:
        raise DataError(f"{folder} holds no model and no generator.", remedy="Restore it from a copy.")
    domain = folders.domain_text(folder)
    folders.create(to)
    for name, content in files.items():
        write_whole(to / name, content)
    if domain is not None:
        write_whole(to / folders.DOMAIN, domain.encode())
    write_whole(to / CARD, card(released).encode())
    folders.write_record(to, released)
    return released


def released_record(record: RunRecord) -> RunRecord:
    """The record without what no guarantee covers, and without names of files elsewhere."""
    outcome, request = record.result, record.request
    known = {
        name: value for name, value in request.options.items() if name in ("model", "teachers", "ignore")
    }
    problem = outcome.problem and replace(outcome.problem, rows=record.rows)
    return replace(
        record,
        table=None,
        request=replace(
            request, source=Path(request.source).name, domain=None, ledger=None, dataset=None, options=known
        ),
        outcome=replace(
            outcome, problem=problem, scores=None, history=(), unreleased=None, quality=None, warnings=()
        ),
    )


def card(record: RunRecord) -> str:
    """A page about what was released, for whoever gets it."""
    outcome = record.result
    problem, preparation = outcome.problem, record.preparation
    lines = [f"# {outcome.model.name}", "", str(outcome.guarantee), ""]
    lines += [f"- data: {record.request.source}, about {record.rows:,} records"]
    if record.request.target:
        lines += [f"- predicts: {record.request.target}"]
    if problem is not None:
        what = f"{len(problem.classes)} classes" if problem.classes else "a number"
        lines += [f"- from: {' x '.join(map(str, problem.shape))} features, {what}"]
    lines += [f"- method: {record.recipe.method}, {record.recipe.in_words}"]
    if preparation is not None:
        lines += [f"- preparation: found what was not declared, for epsilon {preparation.epsilon:.3g} of it"]
    lines += [f"- sha256 of the model: {outcome.model.digest}", f"- run number: {record.number}"]
    lines += [f"- {name} {version}" for name, version in record.versions.items()]
    lines += [
        "",
        "Scores on held-out rows are exact figures about people, and are not part of a release.",
        "",
    ]
    return "\n".join(_harmless(line) for line in lines)


def _harmless(line: str) -> str:
    """A line of the card: what came from the data is text, and stays on its line."""
    return printable(" ".join(line.split("\n"))).replace("<", "&lt;")


def _read(folder: Path, name: str) -> bytes | None:
    try:
        return read_inside(folder, name, most=ANY_SIZE)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(f"Cannot read {folder / name}: {error.strerror}.", remedy="Check it.") from error
