"""Completes a domain by private releases that are paid for.

    kinds       numbers or words?   noisy counts of words, of dates, of whole numbers, and of others
    bounds      of numbers          noisy histograms, over powers of four and then over equal cells
    words       of a category       noisy counts; a rare word is never shown
    missing     cells               counted beside bounds and words, where a model asks

Only what was declared, and what these releases found, is in the domain that comes out. The number of
rows and the names of the columns are taken to be public. Of a table that several processes share, each
counts its own shard; what they counted is added up before the noise, which all draw from the same key.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from reticent.core.errors import TooFewRows
from reticent.core.keys import Keys, Stream
from reticent.core.observer import OnProgress
from reticent.core.postgres import name_of_place
from reticent.data.domain import Category, Column, Domain, Ignored, Integer, Label, Number
from reticent.data.files import Table
from reticent.data.kinds import MISSING_MARKERS, format_bound, identifiers_among, quote
from reticent.data.preparation import categories, numbers
from reticent.data.preparation.noise import PreparationNoise, PreparationRelease
from reticent.data.preparation.scan import TOO_RARE, Scan, lacks

_BUCKETS = 256  # that are suggested for columns of very many words


class Prepared(NamedTuple):
    """A public domain; what the budget found for it, in words; and what of the columns is not used."""

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
    keeps_rest: bool = True,
    tails: numbers.Tails = numbers.TAILS,
    on_progress: OnProgress = lambda done: None,
) -> Prepared:
    """Makes a domain public: keeps what `domain` declares and finds the rest privately.

    Values and kinds that a draft looked up in the data are found again, as if they were not there. Words that
    differ in case only are one word, unless a given domain says otherwise.

    Args:
        keeps_rest: missing cells and other words always have features of their own. If not, they have where
            rows enough have such a cell; elsewhere a model would learn nothing about it but noise, and the
            cell counts as a typical one.
        tails: what the bounds of numbers do about the few rows at either end.

    Guarantee:
        Costs `noise.event`, whatever is found and however often.

    Raises:
        Inconclusive: the target has neither words nor numbers that can be found at this price.
    """
    if target is not None:
        table.require([target])
    root = keys.take(Stream.PREPARATION, steps=range(len(PreparationRelease)))
    markers = MISSING_MARKERS if domain is None else domain.missing_markers
    ignore_case = True if domain is None else domain.ignore_case
    scan = Scan(
        table,
        noise,
        root,
        markers=markers,
        ignore_case=ignore_case,
        keeps_rest=keeps_rest,
        on_progress=on_progress,
        target=target if target is not None else (domain.target if domain else None),
        tails=tails,
    )
    require_enough_rows(table, noise, scan.rows, domain)
    columns = {} if domain is None else _declared_columns(domain, target)
    if open_kinds := _open_kinds(table, domain):
        columns |= scan.kinds(open_kinds, target)
    open_words = [name for name, column in columns.items() if lacks(column, "values")]
    if target in open_kinds and lacks(columns[target], "bounds"):
        open_words.append(target)  # a number with few values is a class
    columns = scan.words(columns, open_words, target)
    open_bounds = [name for name, column in columns.items() if lacks(column, "bounds")]
    columns = scan.bounds(columns, open_bounds, target)
    result = Domain(
        columns=columns,
        target=target if target is not None else (domain.target if domain else None),
        missing_markers=markers,
        ignore_case=ignore_case,
        format=domain.format if domain else None,
        source=f"the domain prepared for {name_of_place(table.label)}",
    )
    result.require_public()
    names = list(dict.fromkeys([*open_words, *open_bounds, *open_kinds]))
    left_out = [*_describe_ignored(result, names), *_describe_unseen(result, scan.unseen)]
    left_out += [
        _describe_lone(name)
        for name in open_words
        if _words_of(result, name) == 1 and name not in scan.unseen
    ]
    return Prepared(result, tuple(_describe(result, names)), tuple(left_out))


def releases_for(domain: Domain | None, target: str | None = None) -> tuple[PreparationRelease, ...]:
    """The releases that complete a domain: none for one that is public."""
    if domain is None or any("kind" in column.looked_up for column in domain.columns.values()):
        return tuple(PreparationRelease)
    columns = _declared_columns(domain, target)
    has_words = any(lacks(column, "values") for column in columns.values())
    has_bounds = any(lacks(column, "bounds") for column in columns.values())
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
        TooFewRows: the noise would hide what columns hold of which nothing is declared.
    """
    ignored = {*table.unsupported, *identifiers_among(table.names, None)}
    columns = [name for name in _open_kinds(table, domain) if name not in ignored]
    if not columns:
        return
    # By public numbers alone: what no count could show is not worth its price.
    every, needed = len(columns), _needed_rows(noise, len(columns))
    if needed > rows:
        raise TooFewRows(
            f"{table.label}: {rows:,} {table.unit}s are too few to find out privately what {every} columns "
            f"hold. At this price that takes about {needed:,.0f}.",
            remedy="Take what the table shows as public, which the guarantee then says: --prepare "
            f"assume-public. Or declare it: reticent domain {shlex.quote(table.label)} -o domain.toml, "
            "remove the looked_up marks of what is public, then --domain domain.toml.",
        )


def _needed_rows(noise: PreparationNoise, columns: int) -> float:
    """So many rows that kinds are seen, words that a quarter of them have, and powers of four for a third."""
    needed = [4 * noise.deviation(PreparationRelease.KINDS, columns)]
    if PreparationRelease.WORDS in noise.releases:
        deviation = noise.deviation(PreparationRelease.WORDS, columns)
        needed.append(4 * categories.threshold(deviation, columns, noise.delta))
    if PreparationRelease.RANGES in noise.releases:
        needed.append(3 * numbers.seen_above(noise.deviation(PreparationRelease.RANGES, columns)))
    return max(needed)


def is_found(column: Column | None) -> bool:
    """Whether preparation finds what a column holds: nothing is declared about it but its name."""
    return isinstance(column, Ignored) and "kind" in column.looked_up


def _declared_columns(domain: Domain, target: str | None) -> dict[str, Column]:
    is_new = target is not None and target != domain.target and not is_found(domain.columns.get(target))
    known = domain.with_target(target) if is_new and target is not None else domain
    return {name: _without_found_values(column) for name, column in known.columns.items()}


def _without_found_values(column: Column) -> Column:
    """A declared column without whatever was looked up in the data."""
    marks = getattr(column, "looked_up", frozenset())
    changes = {key: None for key in ("bounds", "values") if key in marks}
    if "missing" in marks:
        changes |= {"missing": True}  # costs a feature, tells nothing
    return replace(column, **changes, looked_up=frozenset()) if marks else column


def _describe_ignored(domain: Domain, names: list[str]) -> list[str]:
    """Uses the domain alone, which is public."""
    columns = [(name, domain.columns[name]) for name in names]
    return [
        f"{quote(name)} is not used: {column.reason}. {_how_to_use(name, column)}"
        for name, column in columns
        if isinstance(column, Ignored)
    ]


def _how_to_use(name: str, column: Ignored) -> str:
    if column.reason == TOO_RARE:
        return f"If its words repeat, a public hash can sort them: {_buckets_for(name)}."
    return "Declare it in a domain file if it matters."


def _buckets_for(name: str) -> str:
    return f"--buckets {shlex.quote(name)}={_BUCKETS}, or in Python Category(buckets={_BUCKETS})"


def _words_of(domain: Domain, name: str) -> int:
    return len(getattr(domain.columns[name], "values", None) or ())


def _describe_lone(name: str) -> str:
    return (
        f"{quote(name)}: one of its words is frequent enough to be shown. If rarer ones matter, declare them "
        "in a domain file."
    )


def _describe_unseen(domain: Domain, unseen: Mapping[str, float]) -> list[str]:
    """Columns of very many words. All that is said follows from what was released."""
    said = []
    for name, share in unseen.items():
        words = _words_of(domain, name)
        said.append(
            f"{quote(name)}: {words} of its words are frequent enough to be shown, and about {share:.0%} of "
            "the rows have others, which count as one word. To tell them apart by a public hash: "
            f"{_buckets_for(name)}."
        )
    return said


def _describe(domain: Domain, names: list[str]) -> list[str]:
    found = []
    for name in names:
        column = domain.columns[name]
        match column:
            case Number(bounds=bounds) | Integer(bounds=bounds) if bounds is not None:
                low, high = (format_bound(column, bound) for bound in bounds)
                found.append(f"{name}: {low} to {high}")
            case Category(values=values) | Label(values=values) if values is not None:
                found.append(f"{name}: {len(values)} value{'s' * (len(values) != 1)}")
            case _:
                pass
    return found
