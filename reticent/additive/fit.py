"""The passes of an additive model: noisy sums of residuals over the bins of all columns at once.

Before the first pass the rows are counted by the cells of each column, which gives the bins, and the targets
are added up, which gives a constant to start from. In each pass every row's residual is added up over its
bins, weighted by the features of each curve. Noise is added, and the curves take a step (`descent`). What a
pass costs does not depend on how many columns there are: the noise is shared among them by weights.

After two fifths of the passes, columns whose curves stand out of the noise get more weight. The result is the
mean curve of the later passes, in which noise averages out, and each curve is shrunk by the
share of noise in it.

Reference:
    Nori, Caruana, Bu, Shen and Kulkarni (2021), Algorithm 2, arXiv:2106.09680, adds up residuals by bins too,
    one column after the other; its bins share nothing, and its curves are not averaged.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from reticent.accounting.guarantee import Guarantee, Unit
from reticent.accounting.tight_epsilon import guarantee
from reticent.additive import bins as binning
from reticent.additive import sums
from reticent.additive.bins import ColumnBins
from reticent.additive.columns import NUMBER_CELLS, Columns
from reticent.additive.curves import BY_VALUE, RANK, STRAIGHT, features_of
from reticent.additive.descent import CurveDescent, between
from reticent.additive.model import AdditiveModel
from reticent.additive.plan import AdditivePlan, curve_room
from reticent.additive.targets import AdditiveTarget, NumberTarget
from reticent.core.errors import InvalidArgument
from reticent.core.generators import generator
from reticent.core.keys import Keys
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event

PER_NUMBER = 256  # counts of a number, at most


class AdditiveFit(NamedTuple):
    """A released model, and what it cost."""

    model: AdditiveModel
    event: Event
    guarantee: Guarantee


def fit(
    x: ArrayLike,
    y: Any,
    target: AdditiveTarget,
    *,
    columns: Columns,
    plan: AdditivePlan,
    examples: int,
    delta: float,
    keys: Keys,
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE,
    pay: Callable[[Event], None] = lambda event: None,
    on_progress: Callable[[float], None] = lambda done: None,
    releases: sums.Releases = sums.RELEASES,
    users: np.ndarray | None = None,
) -> AdditiveFit:
    """Learns one curve per column.

    Args:
        x: features (rows, features): numbers within [-1, 1], and words as 0 and 1.
        y: a number or a class per row; NaN or a negative class where there is none.
        examples: the declared, public number of rows, or of users: means are sums over it.
        delta: at which the guarantee is stated.
        pay: is called with the event before anything is released.
        releases: makes every noisy sum; an audit passes its own, which adds canaries to each.
        users: whose each row is: the guarantee is then for a user with all rows, however many.

    Guarantee:
        Publishing the model costs `plan.event`. A row takes part in every release by its own bins and its own
        residual, each release has a proved bound for that (`sums`), and all else is post-processing. With
        users, a row takes part in the share that its user's rows have each, and the bound is that of a user.

    Raises:
        DataError: there are too many rows.
        InvalidArgument: there are too many columns, classes and passes.
    """
    rows = np.asarray(x)
    sums.require_few_rows(len(rows))
    room = _room(columns, target, plan)
    pay(plan.event)
    source, cells = generator(keys), columns.cells_of(rows)
    siblings = None if users is None else sums.rows_of_own_user(users)
    count = partial(releases.counts, source, siblings=siblings)
    found = _find_bins(cells, columns, plan, examples, count, room)
    start = releases.start(source, target.start_sums(y), plan.start, siblings)
    constant, curvature = target.start(start.values, examples)
    noise = plan.noise_multiplier / examples
    rank = min(int(between(*RANK, noise)), room)
    shape = between(*BY_VALUE, noise), between(*STRAIGHT, noise)
    with threadpool_limits(limits=1):  # matrices are small: threads would wait for each other
        curves = [features_of(bins, rank, *shape) for bins in found]
    descent = CurveDescent(
        curves,
        constant,
        curvature=curvature,
        passes=plan.passes,
        examples=examples,
        cuts=isinstance(target, NumberTarget),
        reach=between(target.first_reach(constant), 1.0, noise),
    )
    places = [part.of_cell[cell] for part, cell in zip(curves, cells.T, strict=True)]
    for at in range(plan.passes):
        added = target.residuals(y, descent.scores(places), descent.reach)
        priced = plan.each_pass, descent.constant_weight, siblings
        released = releases.one_pass(source, places, descent.tables, *added, *priced)
        descent.step(released)
        on_progress((at + 1) / plan.passes)
    unit: Unit = "record" if users is None else "user"
    public = (f"the number of {unit}s, {examples}, is public", *keys.assumptions)
    promise = guarantee(plan.event, delta, adjacency, unit=unit, assumptions=public, distance=plan.distance)
    return AdditiveFit(descent.result(columns), plan.event, promise)


def _room(columns: Columns, target: AdditiveTarget, plan: AdditivePlan) -> int:
    """How many features a curve may have.

    Raises:
        InvalidArgument: not even one each.
    """
    counts = [PER_NUMBER if size == NUMBER_CELLS else size for size in columns.sizes]
    room = curve_room(counts, target.outputs, plan.passes, plan.numbers)
    if room < 1:
        raise too_many_columns(len(columns), target.outputs, plan.passes)
    return room


def too_many_columns(columns: int, outputs: int, passes: int) -> InvalidArgument:
    return InvalidArgument(
        f"{columns} columns and {outputs} outputs are too many for {passes} passes: "
        "every released number needs noise of its own.",
        remedy="Leave out columns, take fewer passes, or choose a linear model.",
    )


def _find_bins(
    cells: np.ndarray,
    columns: Columns,
    plan: AdditivePlan,
    examples: int,
    count: Callable[[list[np.ndarray], list[int], float], list[sums.Noisy]],
    room: int,
) -> list[ColumnBins]:
    """The bins of every column, from two noisy counts: of all columns, and of finer parts of numbers."""
    halves = binning.parts_of_numbers()
    are_numbers = [columns.is_number(column) for column in range(len(columns))]
    places = [
        halves[cell] if is_number else cell for cell, is_number in zip(cells.T, are_numbers, strict=True)
    ]
    sizes = [
        binning.PARTS + 1 if is_number else size
        for size, is_number in zip(columns.sizes, are_numbers, strict=True)
    ]
    first = count(places, sizes, plan.first_count)
    numbers = [column for column, is_number in enumerate(are_numbers) if is_number]
    parts = {column: binning.finer_parts(first[column], examples) for column in numbers}
    second = {}
    if numbers:
        finer = [parts[column][cells[:, column]] for column in numbers]
        released = count(finer, [int(parts[column][-1]) + 1 for column in numbers], plan.second_count)
        second = dict(zip(numbers, released, strict=True))
    return [
        binning.bins_of_numbers(parts[column], first[column], second[column], examples)
        if column in second
        else binning.bins_of_words(*first[column], most=room)
        for column in range(len(columns))
    ]
