"""Completes a domain by private releases that are paid for.

    kinds       numbers or words?   noisy counts of words, of whole numbers, and of others
    bounds      of numbers          noisy histograms, over powers of four and then over equal cells
    words       of a category       noisy counts; a rare word is never shown
    missing     cells               not looked up: every such column gets a feature for them

Only what was declared, and what these releases found, is in the domain that comes out. The number of
rows and the names of the columns are taken to be public. Of a table that several processes share, each
counts its own shard; what they counted is added up before the noise, which all draw from the same key.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import jax
import numpy as np
import pyarrow as pa

from reticent.core.errors import CannotMeet, Inconclusive
from reticent.core.keys import Keys, Stream
from reticent.core.observer import OnProgress
from reticent.data.arrow_cells import as_numbers, as_words, compute, missing_cells, unreadable_cells
from reticent.data.domain import Category, Column, Domain, Ignored, Integer, Label, Number
from reticent.data.files import Table
from reticent.data.kinds import MISSING_MARKERS, quote
from reticent.data.preparation import categories, numbers
from reticent.data.preparation.noise import PreparationNoise, PreparationRelease
from reticent.distributed import collectives

_MOST_CLASSES = 50
_FEW_PARTS = 0.01  # beside whole numbers, with which a column still counts as whole
_RARE = 0.01  # the share of rows that may have none of a numeric target's classes
_TOO_RARE = "no word of it is frequent enough to be shown: free text, an identifier, or too few rows"


class Prepared(NamedTuple):
    """A public domain; what the budget found for it, in words; and which columns are not used."""

    domain: Domain
    found: tuple[str, ...]
    ignored: tuple[str, ...]


def prepare(
    table: Table,
    noise: PreparationNoise,
    keys: Keys,
    *,
    domain: Domain | None = None,
    target: str | None = None,
    on_progress: OnProgress = lambda done: None,
) -> Prepared:
    """Makes a domain public: keeps what `domain` declares and finds the rest privately.

    Values and kinds that a draft looked up in the data are found anew, as if they were not there.

    Guarantee:
        Costs `noise.event`, whatever is found and however often.

    Raises:
        Inconclusive: the target has neither words nor numbers that can be found at this price.
    """
    if target is not None:
        table.require([target])
    root = keys.take(Stream.PREPARATION, steps=range(len(PreparationRelease)))
    markers = MISSING_MARKERS if domain is None else domain.missing_markers
    scan = _Scan(table, noise, root, markers, on_progress)
    require_enough_rows(table, noise, scan.rows, domain)
    columns = {} if domain is None else _declared_columns(domain, target)
    if open_kinds := _open_kinds(table, domain):
        columns |= scan.kinds(open_kinds, target)
    open_words = [name for name, column in columns.items() if _lacks(column, "values")]
    columns = scan.words(columns, open_words, target)
    open_bounds = [name for name, column in columns.items() if _lacks(column, "bounds")]
    columns = scan.bounds(columns, open_bounds, target)
    result = Domain(
        columns=columns,
        target=target if target is not None else (domain.target if domain else None),
        missing_markers=markers,
        format=domain.format if domain else None,
        source=f"the domain prepared for {table.path.name}",
    )
    result.require_public()
    names = list(dict.fromkeys([*open_words, *open_bounds, *(set(open_kinds) & set(table.unsupported))]))
    return Prepared(result, tuple(_describe(result, names)), tuple(_describe_ignored(result, names)))


def releases_for(domain: Domain | None, target: str | None = None) -> tuple[PreparationRelease, ...]:
    """The releases that complete a domain: none for one that is public."""
    if domain is None or any("kind" in column.looked_up for column in domain.columns.values()):
        return tuple(PreparationRelease)
    columns = _declared_columns(domain, target)
    has_words = any(_lacks(column, "values") for column in columns.values())
    has_bounds = any(_lacks(column, "bounds") for column in columns.values())
    wanted_target = columns.get(target or domain.target or "")
    has_words |= wanted_target is not None and _lacks(wanted_target, "bounds")
    return (PreparationRelease.RANGES, PreparationRelease.QUANTILES) * has_bounds + (
        PreparationRelease.WORDS,
    ) * has_words


def _open_kinds(table: Table, domain: Domain | None) -> list[str]:
    """The columns of which it is not public yet what they hold."""
    if domain is None:
        return list(table.names)
    return [name for name, column in domain.columns.items() if "kind" in column.looked_up]


def require_enough_rows(
    table: Table, noise: PreparationNoise, rows: int, domain: Domain | None = None
) -> None:
    """Checks that there are enough rows for this noise.

    Raises:
        CannotMeet: the noise would hide what columns hold of which nothing is declared.
    """
    columns = [name for name in _open_kinds(table, domain) if name not in table.unsupported]
    if not columns:
        return
    # A row enters one of three counts for each column, by the kind of its cell.
    deviation = noise.deviation(PreparationRelease.KINDS, len(columns))
    if deviation > rows / 4:
        raise CannotMeet(
            f"{table.path}: {rows} rows are too few to find out what "
            f"{len(columns)} columns hold: the noise on each count would be {deviation:.0f}.",
            remedy="Declare the columns in a domain file (reticent domain TABLE -o FILE), without looked_up.",
        )


def _declared_columns(domain: Domain, target: str | None) -> dict[str, Column]:
    known = domain.with_target(target) if target not in (None, domain.target) else domain
    return {name: _without_found_values(column) for name, column in known.columns.items()}


class _Scan:
    """The passes over a table, one per release, and the noise on what they count."""

    def __init__(
        self,
        table: Table,
        noise: PreparationNoise,
        root: jax.Array,
        markers: tuple[str, ...],
        on_progress: OnProgress,
    ) -> None:
        self._table, self._noise, self._root = table, noise, root
        self._markers, self._on_progress = markers, on_progress
        self._passes = 0
        self.rows = int(collectives.total(np.int64(table.row_count)))

    def kinds(self, wanted: list[str], target: str | None) -> dict[str, Column]:
        """Whether each of these columns holds words, numbers, or whole numbers."""
        names = [name for name in wanted if name not in self._table.unsupported]
        place = {name: number for number, name in enumerate(names)}
        counts = np.zeros((3, len(names)))  # cells that are words, numbers that are not whole, and whole ones
        for cells in self._columns(names):
            found = cells.numbers()
            whole = int(np.sum(found == np.round(found)))
            kinds = (len(cells.present) - len(found), len(found) - whole, whole)
            counts[:, place[cells.name]] += kinds
        counts = collectives.total(counts)
        each = len(names)
        noisy = self._noise.noisy(self._root, PreparationRelease.KINDS, counts, each)
        slack = 4 * self._noise.deviation(PreparationRelease.KINDS, each)
        readable: dict[str, Column] = {}
        for name, worded, parts, whole in zip(names, *noisy, strict=True):
            missing = name != target
            if parts + whole > worded:
                is_whole = bool(parts <= _FEW_PARTS * whole + slack < whole)
                readable[name] = Number(missing=missing, lenient=True, whole=is_whole)
            else:
                readable[name] = Category(missing=missing)
        return readable | {
            name: Ignored(reason=f"holds {kind}")
            for name, kind in self._table.unsupported.items()
            if name in wanted
        }

    def words(self, columns: dict[str, Column], wanted: list[str], target: str | None) -> dict[str, Column]:
        """Categories and labels with their words. A numeric target with few values becomes a label."""
        if target is not None and _lacks(columns[target], "bounds"):
            wanted = [*wanted, target]
        if PreparationRelease.WORDS not in self._noise.releases:
            return columns
        counters: dict[str, Counter[str]] = {name: Counter() for name in wanted}
        for cells in self._columns(wanted):
            counters[cells.name].update(cells.words())
        counters = _merge_counts(counters)
        lists = {name: sorted(counter) for name, counter in counters.items()}
        flat = np.array([counters[name][word] for name in wanted for word in lists[name]], float)
        noisy = self._noise.noisy(self._root, PreparationRelease.WORDS, flat, len(wanted)).tolist()
        deviation = self._noise.deviation(PreparationRelease.WORDS, len(wanted))
        above = categories.threshold(deviation, len(wanted), self._noise.delta)
        result, start = dict(columns), 0
        for name in wanted:
            here = noisy[start : start + len(lists[name])]
            start += len(lists[name])
            chosen = categories.words_to_show(lists[name], here, above)
            rest = self.rows - categories.count_covered(lists[name], here, chosen)
            result[name] = self._with_words(
                columns[name], name, chosen, rest=rest, deviation=deviation, is_target=name == target
            )
        return result

    def _with_words(
        self, column: Column, name: str, chosen: list[str], *, rest: float, deviation: float, is_target: bool
    ) -> Column:
        """The column with the words that were chosen; about `rest` rows have none of them."""
        if not is_target:
            return replace(column, values=tuple(chosen)) if chosen else Ignored(reason=_TOO_RARE)
        # A few rare classes make no continuum, and the rest is as uncertain as all the counts together.
        most = _RARE * self.rows + 4 * deviation * math.sqrt(len(chosen))
        if isinstance(column, Number) and (rest > most or not 1 < len(chosen) <= _MOST_CLASSES):
            return column
        if len(chosen) < 2:
            raise Inconclusive(
                f"{self._table.path}: fewer than two classes of the target {quote(name)} "
                "are frequent enough to be found at this price.",
                remedy="Choose another target, declare its values in a domain file, or ask for a larger "
                "epsilon.",
            )
        values = sorted(chosen, key=_as_number) if all(_is_number(word) for word in chosen) else chosen
        # Among several classes there may be one too rare to be seen, and its rows have to go somewhere.
        return Label(values=tuple(values), other=rest > 4 * deviation or len(values) > 2, lenient=True)

    def bounds(self, columns: dict[str, Column], wanted: list[str], target: str | None) -> dict[str, Column]:
        """Numbers with their bounds; a column of which none is found is ignored."""
        wanted = [name for name in wanted if _lacks(columns[name], "bounds")]
        if PreparationRelease.RANGES not in self._noise.releases:
            return columns
        coarse = {name: np.zeros(numbers.COARSE) for name in wanted}
        for cells in self._columns(wanted):
            coarse[cells.name] += numbers.coarse_counts(cells.numbers())
        noisy = self._histograms(PreparationRelease.RANGES, coarse)
        deviation = self._noise.deviation(PreparationRelease.RANGES, len(wanted))
        ranges = {name: numbers.coarse_range(noisy[name], deviation) for name in wanted}
        fine = {name: np.zeros(numbers.FINE) for name in wanted}
        for cells in self._columns([name for name in wanted if ranges[name] is not None]):
            bounds = ranges[cells.name]
            assert bounds is not None
            fine[cells.name] += numbers.fine_counts(cells.numbers(), bounds)
        noisy = self._histograms(PreparationRelease.QUANTILES, fine)
        deviation = self._noise.deviation(PreparationRelease.QUANTILES, len(wanted))
        result = dict(columns)
        for name in wanted:
            bounds = ranges[name]
            if bounds is not None:
                found = numbers.quantile_bounds(noisy[name], bounds, deviation)
                result[name] = _with_bounds(columns[name], found)
            elif name == target:
                raise Inconclusive(
                    f"{self._table.path}: no bounds of the target {quote(name)} can be found at this price.",
                    remedy="Declare them in a domain file, or ask for a larger epsilon.",
                )
            else:
                result[name] = Ignored(reason="too few rows to find its bounds")
        return result

    def _histograms(
        self, release: PreparationRelease, counts: dict[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Noisy histograms, in each of which a row counts once."""
        stacked = collectives.total(np.stack(list(counts.values()))) if counts else np.zeros((0, 1))
        return dict(zip(counts, self._noise.noisy(self._root, release, stacked, len(counts)), strict=True))

    def _columns(self, names: list[str]) -> Iterator[_Cells]:
        if not names:
            return
        for rows in self._table.batches(names):
            for name in names:
                yield _Cells(name, rows.batch.column(name), self._markers, self._table.dialect.decimal)
            self._on_progress(min((self._passes + rows.done) / len(self._noise.releases), 1.0))
        self._passes += 1


class _Cells:
    """The cells of one column in one batch of rows that are not missing."""

    def __init__(self, name: str, column: pa.Array, markers: tuple[str, ...], decimal: str) -> None:
        self.name, self._decimal = name, decimal
        self.present = column.filter(pa.array(~missing_cells(column, markers)))

    def numbers(self) -> np.ndarray:
        """Those that read as finite numbers."""
        unreadable = unreadable_cells(self.present, np.zeros(len(self.present), bool), decimal=self._decimal)
        found = as_numbers(self.present, unreadable, decimal=self._decimal)
        return found[np.isfinite(found)]

    def words(self) -> dict[str, int]:
        """How often each word occurs."""
        found = compute.value_counts(as_words(self.present))
        return dict(zip(found.field("values").to_pylist(), found.field("counts").to_pylist(), strict=True))


def _merge_counts(counters: dict[str, Counter[str]]) -> dict[str, Counter[str]]:
    """How often each word occurs in the tables of all processes."""
    if collectives.count() == 1:
        return counters
    theirs = collectives.gather_json(counters)
    return {name: sum((Counter(found[name]) for found in theirs), Counter()) for name in counters}


def _lacks(column: Column, field: str) -> bool:
    return hasattr(column, field) and getattr(column, field) is None


def _without_found_values(column: Column) -> Column:
    """A declared column without whatever was looked up in the data."""
    marks = getattr(column, "looked_up", frozenset())
    changes = {key: None for key in ("bounds", "values") if key in marks}
    if "missing" in marks:
        changes |= {"missing": True}  # costs a feature, tells nothing
    return replace(column, **changes, looked_up=frozenset()) if marks else column


def _with_bounds(column: Column, bounds: tuple[float, float]) -> Column:
    low, high = bounds
    if isinstance(column, Integer):
        return replace(column, bounds=(math.floor(low), math.ceil(high)))
    assert isinstance(column, Number)
    if column.whole:
        low, high = math.floor(low), math.ceil(high)
    return replace(column, bounds=(float(low), float(high)))


def _describe_ignored(domain: Domain, names: list[str]) -> list[str]:
    """Uses the domain alone, which is public."""
    columns = [(name, domain.columns[name]) for name in names]
    return [
        f"{quote(name)} is not used: {column.reason}. Declare it in a domain file if it matters."
        for name, column in columns
        if isinstance(column, Ignored)
    ]


def _describe(domain: Domain, names: list[str]) -> list[str]:
    found = []
    for name in names:
        column = domain.columns[name]
        match column:
            case Number(bounds=bounds) | Integer(bounds=bounds) if bounds is not None:
                found.append(f"{name}: {bounds[0]:.4g} to {bounds[1]:.4g}")
            case Category(values=values) | Label(values=values) if values is not None:
                found.append(f"{name}: {len(values)} values")
            case _:
                pass
    return found


def _is_number(word: str) -> bool:
    try:
        float(word.replace(",", "."))
    except ValueError:
        return False
    return True


def _as_number(word: str) -> float:
    return float(word.replace(",", "."))
