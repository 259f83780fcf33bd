"""The parts of a run that may be published, in a folder: model, domain, guarantee, and a card."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from reticent.accounting.rounding import at_most
from reticent.core.errors import DataError
from reticent.core.files import read_inside, write_whole
from reticent.core.postgres import name_of_place
from reticent.core.printable import printable
from reticent.pretraining.public_model import WEIGHTS
from reticent.runs import folder as folders
from reticent.runs.portable import PortableForm, portable_files, portable_model
from reticent.runs.predict import Predictor
from reticent.runs.record import RunRecord
from reticent.runs.weights import HOW_TO_READ, LabelledWeights, labelled_weights, weight_rows

CARD = "MODEL_CARD.md"

_ON_THE_CARD = 10  # weights
_MOST = 1 << 30  # bytes of a file that is exported

_ABOUT_THE_MODEL = ("model", "teachers", "ignore", "learn", "start_digest")  # options that stay
_MADE = (folders.MODEL, WEIGHTS, "generator.model", "generator.safetensors", "generator.json")


def export(folder: Path, to: Path, *, forms: Collection[PortableForm] = ()) -> RunRecord:
    """Writes what is covered by the guarantee of a finished run into a new folder, and nothing else.

    It can be shown, reported on and predicted with, or sampled from. Held-out scores, the history, what was
    seen on the way, and the folders of data and ledger stay behind.

    Args:
        forms: also writes files for programs that do not have reticent: `onnx`, `sklearn` or both.

    Raises:
        DataError: the run is not finished, there is something at `to` already, or the model has no such form.
        Unavailable: a package that the form needs is not installed.
    """
    record = folders.read_record(folder)
    folders.require_finished(folder, record)
    released = released_record(record)
    files = {name: content for name in _MADE if (content := _read(folder, name)) is not None}
    if not files:
        raise DataError(f"{folder} holds no model and no generator.", remedy="Restore it from a copy.")
    if forms:
        folders.require_model(folder, record)
        portable = portable_model(Predictor(folder), released)
        for form in forms:
            files |= portable_files(portable, form)
    domain = folders.domain_text(folder)
    folders.create(to)
    for name, content in files.items():
        write_whole(to / name, content)
    if domain is not None:
        write_whole(to / folders.DOMAIN, domain.encode())
    write_whole(to / CARD, card(released, _weights(folder, record)).encode())
    folders.write_record(to, released)
    return released


def released_record(record: RunRecord) -> RunRecord:
    """The record without what no guarantee covers, and without names of files elsewhere."""
    outcome, request = record.result, record.request
    known = {name: value for name, value in request.options.items() if name in _ABOUT_THE_MODEL}
    problem = outcome.problem and replace(outcome.problem, rows=record.rows)
    return replace(
        record,
        table=None,
        request=replace(
            request,
            source=name_of_place(request.source),
            domain=None,
            ledger=None,
            dataset=None,
            options=known,
        ),
        outcome=replace(
            outcome, problem=problem, scores=None, history=(), unreleased=None, quality=None, warnings=()
        ),
    )


def card(record: RunRecord, weights: LabelledWeights | None = None) -> str:
    """A page about what was released, for its recipients.

    Args:
        weights: of a linear model on a table.
    """
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
    if record.recipe.why:
        lines += [f"- model, chosen by public rules: {record.recipe.why}"]
    if preparation is not None:
        lines += [
            f"- preparation: found what was not declared, for epsilon {at_most(preparation.epsilon)} of it"
        ]
    lines += [f"- sha256 of the model: {outcome.model.digest}", f"- run number: {record.number}"]
    lines += [f"- {name} {version}" for name, version in record.versions.items()]
    if weights is not None:
        lines += ["", f"Largest effects {weights.unit} ({HOW_TO_READ}):", ""]
        lines += [
            f"- {feature} ({moved}): {effect}, standard deviation of the noise: {noise}"
            for feature, moved, effect, noise in weight_rows(weights, most=_ON_THE_CARD)
        ]
    lines += [
        "",
        "Scores on held-out rows are exact figures about people, and are not part of a release.",
        "",
    ]
    return "\n".join(_harmless(line) for line in lines)


def _weights(folder: Path, record: RunRecord) -> LabelledWeights | None:
    """The weights of a linear model on a table; None for every other model."""
    if record.is_generator or record.result.model.name != "linear":
        return None
    try:
        return labelled_weights(Predictor(folder))
    except DataError:
        return None


def _harmless(line: str) -> str:
    """A line of the card: what came from the data is text, and stays on its line."""
    return printable(" ".join(line.split("\n"))).replace("<", "&lt;")


def _read(folder: Path, name: str) -> bytes | None:
    try:
        return read_inside(folder, name, most=_MOST)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(f"Cannot read {folder / name}: {error.strerror}.", remedy="Check it.") from error
