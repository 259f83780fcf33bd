"""The passes over a table that private preparation makes, one per release, and what their counts say."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import jax
import numpy as np
import pyarrow as pa

from reticent.core.errors import Inconclusive
from reticent.core.observer import OnProgress
from reticent.data.arrow_cells import Reading, as_numbers, as_words, compute, missing_cells, unreadable_cells
from reticent.data.dates import DATE_PARTS, day_number, day_of
from reticent.data.domain import Category, Column, Ignored, Integer, Label, Number
from reticent.data.files import Table
from reticent.data.kinds import identifiers_among, markers_of_target, quote
from reticent.data.preparation import categories, numbers
from reticent.data.preparation.noise import PreparationNoise, PreparationRelease
from reticent.distributed import collectives

_MOST_CLASSES = 50
_FEW_PARTS = 0.01  # beside whole numbers, with which a column still counts as whole
_RARE = 0.01  # the share of rows that may have none of a numeric target's classes
_MANY = 0.5  # the share of rows with words that are not shown, from which on a column has very many
_SEEN = 3.0  # deviations of the noise above which a count is taken for rows
_MISSING = ""  # stands for missing cells among the words of a column; no word is empty
TOO_RARE = "no word of it is frequent enough to be shown: free text, an identifier, or too few rows"


def lacks(column: Column, field: str) -> bool:
    """Whether a column has such a field, and nothing in it."""
    return hasattr(column, field) and getattr(column, field) is None


class _Words(NamedTuple):
    """The words of a column that may be shown, with noisy counts of them and of missing cells."""

    name: str
    counts: dict[str, float]
    missing: float
    rows: int
    deviation: float

    @property
    def rest(self) -> float:
        """The approximate number of rows that have a word that is not shown."""
        return self.rows - self.missing - math.fsum(self.counts.values())


class Scan:
    """The passes over a table, one per release, and the noise on what they count.

    Attributes:
        unseen: of each column of very many words, about which share of the rows has one that is not shown.
    """

    def __init__(
        self,
        table: Table,
        noise: PreparationNoise,
        root: jax.Array,
        *,
        markers: tuple[str, ...],
        ignore_case: bool,
        keeps_rest: bool,
        on_progress: OnProgress,
        target: str | None,
        tails: numbers.Tails = numbers.TAILS,
    ) -> None:
        self.unseen: dict[str, float] = {}
        self._table, self._noise, self._root = table, noise, root
        self._markers, self._on_progress = markers, on_progress
        self._ignore_case, self._keeps_rest = ignore_case, keeps_rest
        self._passes, self._target_name, self._tails = 0, target, tails
        self.rows = int(collectives.total(np.int64(table.row_count)))

    def kinds(self, wanted: list[str], target: str | None) -> dict[str, Column]:
        """Whether each of these columns holds words, dates, numbers, or whole numbers."""
        identifiers = identifiers_among(self._table.names, target)
        names = [name for name in wanted if name not in (*self._table.unsupported, *identifiers)]
        place = {name: number for number, name in enumerate(names)}
        counts = np.zeros((4, len(names)))  # of words, dates, numbers that are not whole, and whole ones
        for cells in self._columns(names):
            found = cells.numbers()
            whole = int(np.sum(found == np.round(found)))
            days = 0 if len(found) == len(cells.present) else len(cells.numbers(is_date=True))
            kinds = (len(cells.present) - len(found) - days, days, len(found) - whole, whole)
            counts[:, place[cells.name]] += kinds
        counts = collectives.total(counts)
        each = len(names)
        noisy = self._noise.noisy(self._root, PreparationRelease.KINDS, counts, each)
        slack = 4 * self._noise.deviation(PreparationRelease.KINDS, each)
        readable: dict[str, Column] = {}
        for name, worded, days, parts, whole in zip(names, *noisy, strict=True):
            missing = name != target
            if name == target:  # a date is not predicted: as a word it may be a class
                worded, days = worded + days, 0.0
            if days > max(worded, parts + whole):
                readable[name] = Number(missing=missing, lenient=True, date=True, parts=tuple(DATE_PARTS))
            elif parts + whole > worded + days:
                is_whole = bool(parts <= _FEW_PARTS * whole + slack < whole)
                readable[name] = Number(missing=missing, lenient=True, whole=is_whole)
            else:
                readable[name] = Category(missing=missing)
        ignored = {name: f"holds {kind}" for name, kind in self._table.unsupported.items()}
        ignored |= dict.fromkeys(identifiers, "an identifier, by its name")
        return readable | {name: Ignored(reason=reason) for name, reason in ignored.items() if name in wanted}

    def words(self, columns: dict[str, Column], wanted: list[str], target: str | None) -> dict[str, Column]:
        """Categories and labels with their words. A number among them that has few values becomes a label."""
        if PreparationRelease.WORDS not in self._noise.releases:
            return columns
        counters: dict[str, Counter[str]] = {name: Counter() for name in wanted}
        for cells in self._columns(wanted):
            counters[cells.name].update(cells.words())
            counters[cells.name][_MISSING] += cells.missing
        counters = _merge_counts(counters)
        # Whether a cell is missing is one count more, and as every row has one cell, none counts twice.
        lists = {name: [_MISSING, *sorted(set(counters[name]) - {_MISSING})] for name in wanted}
        flat = np.array([counters[name][word] for name in wanted for word in lists[name]], float)
        noisy = self._noise.noisy(self._root, PreparationRelease.WORDS, flat, len(wanted)).tolist()
        deviation = self._noise.deviation(PreparationRelease.WORDS, len(wanted))
        above = categories.threshold(deviation, len(wanted), self._noise.delta)
        result, start = dict(columns), 0
        for name in wanted:
            missing, *here = noisy[start : start + len(lists[name])]
            start += len(lists[name])
            words = lists[name][1:]
            counts = categories.words_to_show(words, here, above, ignore_case=self._ignore_case)
            found = _Words(name, counts, missing=missing, rows=self.rows, deviation=deviation)
            result[name] = (
                self._target(columns[name], found) if name == target else self._category(columns[name], found)
            )
        return result

    def _category(self, column: Column, found: _Words) -> Column:
        if not found.counts:
            return Ignored(reason=TOO_RARE)
        if found.rest > _MANY * self.rows:
            self.unseen[found.name] = min(found.rest / self.rows, 1.0)
        known = replace(column, values=tuple(found.counts))
        if self._keeps_rest or not isinstance(known, Category):
            return known
        return replace(
            known,
            missing=known.missing and found.missing > _SEEN * found.deviation,
            other=found.rest > _SEEN * found.deviation * math.sqrt(len(found.counts) + 1),
            prior=categories.shares(found.counts),
        )

    def _target(self, column: Column, found: _Words) -> Column:
        """The target with its classes, or as the number that it is."""
        chosen, deviation = list(found.counts), found.deviation
        rest = found.rest + max(found.missing, 0.0)
        # A few rare classes make no continuum, and the rest is as uncertain as all the counts together.
        most = _RARE * self.rows + 4 * deviation * math.sqrt(len(chosen))
        if isinstance(column, Number) and (rest > most or not 1 < len(chosen) <= _MOST_CLASSES):
            return column
        if len(chosen) < 2:
            raise Inconclusive(
                f"{self._table.label}: fewer than two classes of the target {quote(found.name)} "
                "are frequent enough to be found at this price.",
                remedy="Choose another target, declare its classes with --classes, or ask for a larger "
                "epsilon.",
            )
        values = sorted(chosen, key=_as_number) if all(_is_number(word) for word in chosen) else chosen
        # Among several classes there may be one too rare to be seen, and its rows have to go somewhere.
        return Label(values=tuple(values), other=rest > 4 * deviation or len(values) > 2, lenient=True)

    def bounds(self, columns: dict[str, Column], wanted: list[str], target: str | None) -> dict[str, Column]:
        """Numbers with their bounds; a column of which none is found is ignored."""
        wanted = [name for name in wanted if lacks(columns[name], "bounds")]
        if PreparationRelease.RANGES not in self._noise.releases:
            return columns
        weights = _weights(wanted, target)
        total = sum(weight * weight for weight in weights.values())
        deviations = {
            release: self._noise.deviation(release, total)
            for release in (PreparationRelease.RANGES, PreparationRelease.QUANTILES)
        }
        coarse = {name: np.zeros(numbers.COARSE) for name in wanted}
        for cells in self._columns(wanted):
            coarse[cells.name] += numbers.coarse_counts(cells.numbers(is_date=_is_date(columns[cells.name])))
        noisy = self._histograms(PreparationRelease.RANGES, coarse, weights)
        ranges = {
            name: numbers.coarse_range(noisy[name], deviations[PreparationRelease.RANGES] / weights[name])
            for name in wanted
        }
        fine = {name: np.zeros(numbers.FINE + 1) for name in wanted}  # the last for rows without a number
        for cells in self._columns([name for name in wanted if ranges[name] is not None]):
            bounds = ranges[cells.name]
            assert bounds is not None
            found = cells.numbers(is_date=_is_date(columns[cells.name]))
            fine[cells.name][:-1] += numbers.fine_counts(found, bounds)
            fine[cells.name][-1] += cells.rows - len(found)
        noisy = self._histograms(PreparationRelease.QUANTILES, fine, weights)
        result = dict(columns)
        for name in wanted:
            bounds = ranges[name]
            if bounds is not None:
                deviation = deviations[PreparationRelease.QUANTILES] / weights[name]
                result[name] = self._number(columns[name], noisy[name], bounds, deviation, name == target)
            elif name == target:
                raise Inconclusive(
                    f"{self._table.label}: no bounds of the target {quote(name)} can be found at this price.",
                    remedy=f"Declare them: --bounds {name}=LOW:HIGH, or ask for a larger epsilon.",
                )
            else:
                result[name] = Ignored(reason="too few rows to find its bounds")
        return result

    def _number(
        self,
        column: Column,
        noisy: np.ndarray,
        bounds: tuple[float, float],
        deviation: float,
        is_target: bool,
    ) -> Column:
        """A number with its bounds, and what stands for a missing one where few are missing."""
        counts, missing = noisy[:-1], float(noisy[-1])
        present = self.rows - min(max(missing, 0.0), self.rows)
        inside = numbers.quantile_bounds(counts, bounds, deviation, present, tails=self._tails)
        found = _with_bounds(column, inside)
        if self._keeps_rest or is_target or not isinstance(found, Number):
            return found
        assert found.bounds is not None
        typical = min(max(numbers.typical_number(counts, bounds), found.bounds[0]), found.bounds[1])
        typical = math.floor(typical) if found.date else typical
        return replace(
            found, missing=found.missing and missing > _SEEN * deviation, lenient=True, typical=typical
        )

    def _histograms(
        self, release: PreparationRelease, counts: dict[str, np.ndarray], weights: dict[str, int]
    ) -> dict[str, np.ndarray]:
        """Noisy histograms, in each of which a row counts once, or as often as its column's weight says.

        A row then moves the weighted counts by at most the root of the sum of the squared weights.
        """
        stacked = collectives.total(np.stack(list(counts.values()))) if counts else np.zeros((0, 1))
        often = np.array([weights[name] for name in counts], float)[:, None]
        total = sum(weight * weight for weight in weights.values())
        noisy = self._noise.noisy(self._root, release, stacked * often, total)
        return dict(zip(counts, noisy / often, strict=True))

    def _columns(self, names: list[str]) -> Iterator[_Cells]:
        if not names:
            return
        for rows in self._table.batches(names):
            for name in names:
                is_target = name == self._target_name
                markers = markers_of_target(self._markers) if is_target else self._markers
                yield _Cells(name, rows.batch.column(name), markers, self._table.dialect.reading)
            self._on_progress(min((self._passes + rows.done) / len(self._noise.releases), 1.0))
        self._passes += 1


class _Cells:
    """The cells of one column in one batch of rows that are not missing."""

    def __init__(self, name: str, column: pa.Array, markers: tuple[str, ...], reading: Reading) -> None:
        self.name, self._reading = name, reading
        self.present = column.filter(pa.array(~missing_cells(column, markers)))
        self.rows, self.missing = len(column), len(column) - len(self.present)

    def numbers(self, *, is_date: bool = False) -> np.ndarray:
        """The cells that read as finite numbers, or as dates."""
        reading = self._reading._replace(is_date=is_date)
        unreadable = unreadable_cells(self.present, np.zeros(len(self.present), bool), reading)
        found = as_numbers(self.present, unreadable, reading)
        return found[np.isfinite(found)]

    def words(self) -> dict[str, int]:
        """How often each word occurs."""
        found = compute.value_counts(as_words(self.present))
        return dict(zip(found.field("values").to_pylist(), found.field("counts").to_pylist(), strict=True))


def _weights(wanted: list[str], target: str | None) -> dict[str, int]:
    """How often a row counts in the histogram of each column: a target's bounds matter most."""
    more = max(1, round(0.6 * math.sqrt(len(wanted))))
    return {name: more if name == target else 1 for name in wanted}


def _merge_counts(counters: dict[str, Counter[str]]) -> dict[str, Counter[str]]:
    """How often each word occurs in the tables of all processes."""
    if collectives.count() == 1:
        return counters
    theirs = collectives.gather_json(counters)
    return {name: sum((Counter(found[name]) for found in theirs), Counter()) for name in counters}


def _with_bounds(column: Column, bounds: tuple[float, float]) -> Column:
    low, high = bounds
    if isinstance(column, Integer):
        return replace(column, bounds=(math.floor(low), math.ceil(high)))
    assert isinstance(column, Number)
    if column.date:  # the first and last day that there is, at the worst
        low, high = day_number(day_of(low)), day_number(day_of(math.ceil(high)))
    if column.whole:
        low, high = math.floor(low), math.ceil(high)
    return replace(column, bounds=(float(low), float(high)))


def _is_date(column: Column) -> bool:
    return isinstance(column, Number) and column.date


def _is_number(word: str) -> bool:
    try:
        float(word.replace(",", "."))
    except ValueError:
        return False
    return True


def _as_number(word: str) -> float:
    return float(word.replace(",", "."))
