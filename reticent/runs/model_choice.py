"""Which model `auto` stands for: decided by what is public, and said in the record of the run.

Rows, columns, classes, budget and processes are looked at; the rows themselves are not. The rule costs
nothing, and whoever reads the record can follow it.
"""

from __future__ import annotations

from typing import NamedTuple

from reticent.accounting.reserve import TRAINING
from reticent.additive.fit import PER_NUMBER, too_many_columns
from reticent.additive.plan import affordable_numbers, curve_room, usual_passes
from reticent.data.domain import Domain
from reticent.data.kinds import Category, Ignored, Label, classes_of, identifiers_among
from reticent.distributed import collectives
from reticent.runs.learners import ModelName, auto_for_images
from reticent.runs.request import Request
from reticent.runs.source import Source

_MOST_CELLS = 1 << 26  # rows times columns, above which curves would take too long and too much memory
_MOST_CLASSES = 51  # of a target whose classes are found privately


class ModelChoice(NamedTuple):
    """A model, and why it was chosen; nothing to say about one that was asked for by name."""

    model: ModelName
    why: str


def choose_model(request: Request, source: Source) -> ModelChoice:
    """The model of a request: the one it names, or the one that suits what is public about the rows.

    Args:
        request: with its delta filled in.

    Raises:
        InvalidArgument: it names an additive model, and there are too many columns for one.
    """
    if source.start is not None:
        return ModelChoice(source.start.model_name, source.start.in_words)
    if source.speakers is not None:
        return ModelChoice("language", "the rows are windows of a text")
    counts = _counts(source)
    room = _room(request, source, counts)
    if request.model != "auto":
        if request.model == "additive" and counts and room < 1:
            raise too_many_columns(len(counts), _outputs(source), _passes(request, source))
        return ModelChoice(request.model, "")
    if source.features is not None:
        return ModelChoice("linear", "public features are told apart by a linear model")
    if source.splits is not None and len(source.splits.train["x"].shape) > 2:
        return _for_images(source.splits.train["x"].shape[1:])
    if against := _against_curves(request, source, counts, room):
        return ModelChoice("linear", against)
    counted = "rows" if request.user is None else "users"
    why = f"columns may bend, and {source.train_rows:,} {counted} can show that in {len(counts)} of them"
    return ModelChoice("additive", why)


def _for_images(shape: tuple[int, ...]) -> ModelChoice:
    why = {
        "scattering": "the rows are grey images whose sides are multiples of 4",
        "patches": "the rows are small colour images",
        "cnn": "the rows are images",
    }
    name = auto_for_images(shape)
    return ModelChoice(name, why[name])


def _against_curves(request: Request, source: Source, counts: list[int], room: int) -> str:
    """Why a linear model is to be trained instead of an additive one; nothing if there is no reason."""
    if request.method != "auto":
        return f"the method '{request.method}' does not train additive models"
    if collectives.count() > 1:
        return "additive models are trained in one process"
    if not counts:
        return "nothing is declared about the columns of this dataset"
    if source.train_rows * len(counts) > _MOST_CELLS:
        return f"{source.train_rows:,} rows of {len(counts):,} columns are too many for curves"
    if room < 1:
        return f"{len(counts):,} columns are too many for curves"
    return ""


def _passes(request: Request, source: Source) -> int:
    assert request.delta is not None
    return usual_passes(request.epsilon, request.delta, source.train_rows)


def _room(request: Request, source: Source, counts: list[int]) -> int:
    """How many features the curve of a column may have."""
    assert request.delta is not None
    numbers = affordable_numbers(request.epsilon, request.delta, TRAINING)
    return curve_room(counts, _outputs(source), _passes(request, source), numbers) if counts else 0


def _counts(source: Source) -> list[int]:
    """The most cells that an additive model would count for each column that may become a feature."""
    if source.splits is not None:
        domain = source.splits.domain
        return [] if domain is None else _declared_cells(domain, list(domain.columns), domain.target)
    assert source.table is not None
    left_out = {*source.table.unsupported, *identifiers_among(source.table.names, source.request.target)}
    names = [name for name in source.table.names if name not in left_out]
    return _declared_cells(source.declared, names, source.request.target)


def _declared_cells(domain: Domain | None, names: list[str], target: str | None) -> list[int]:
    known = {} if domain is None else domain.columns
    found = []
    for name in names:
        column = known.get(name)
        if name == target or (isinstance(column, Ignored) and "kind" not in column.looked_up):
            continue
        words = len(column.values or ()) + 3 if isinstance(column, Category) else 0
        found.append(max(words, PER_NUMBER))
    return found


def _outputs(source: Source) -> int:
    """How many scores a row has: one for a number and for two classes."""
    domain = source.public_domain if source.splits is None else source.splits.domain
    column = None if domain is None or domain.target is None else domain.columns.get(domain.target)
    if source.target_kind == "number":
        return 1
    if isinstance(column, Label) and column.values:
        classes = len(classes_of(column))
        return 1 if classes == 2 else classes
    return _MOST_CLASSES
