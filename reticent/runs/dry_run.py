"""What a run would cost and what it takes as public: priced as a run is, with nothing charged or written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reticent.accounting.guarantee import Guarantee
from reticent.accounting.tight_epsilon import guarantee
from reticent.data.kinds import Ignored
from reticent.data.preparation.noise import PreparationRelease
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Composed
from reticent.runs.fit import MODEL
from reticent.runs.forecast import forecast
from reticent.runs.methods import table as methods
from reticent.runs.payment import preparation_cost, preparation_noise
from reticent.runs.record import PreparationCost, as_requested
from reticent.runs.request import Request
from reticent.runs.source import Source

_IN_WORDS = {
    PreparationRelease.KINDS: "which columns are numbers and which are words",
    PreparationRelease.RANGES: "the range of each number",
    PreparationRelease.QUANTILES: "bounds inside these ranges",
    PreparationRelease.WORDS: "the words of each column",
}


@dataclass(frozen=True, kw_only=True)
class DryRun:
    """A run that was priced and not started.

    Args:
        request: with its defaults filled in.
        rows, records: those expected to be trained on, and those of the table: public.
        in_words: the recipe.
        model: that would be trained.
        why: it was chosen, if `auto` chose it.
        expected: how such models did on other tables.
        preparation: what finding the rest privately would cost by itself.
        promise: of the whole run; the run itself may name more assumptions, of its method and its keys.
        public: what is taken as public.
        found: what would be found privately.
    """

    request: Request
    rows: int
    records: int
    method: str
    in_words: str
    model: str
    why: str
    expected: str
    preparation: PreparationCost | None
    promise: Guarantee
    public: tuple[str, ...]
    found: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "records": self.records,
            "method": self.method,
            "in_words": self.in_words,
            "model": self.model,
            "why": self.why,
            "expected": self.expected,
            "epsilon": self.promise.epsilon,
            "delta": self.promise.delta,
            "preparation_epsilon": None if self.preparation is None else self.preparation.epsilon,
            "public": list(self.public),
            "found_privately": list(self.found),
            "charged": False,
        }


def dry_run(request: Request) -> DryRun:
    """Prices a request. Rows are counted, and what the run takes as public is read; nothing else is.

    Raises:
        DataError, DomainError, InvalidArgument, CannotMeet: what the run itself would raise before it pays.
    """
    source = MODEL.open(request)
    asked = source.request
    assert asked.delta is not None
    releases = source.releases()
    noise = preparation_noise(releases, epsilon=asked.epsilon, delta=asked.delta)
    recipe = MODEL.price(source, noise)
    method = methods.METHODS[methods.choose(asked.method)]
    event = recipe.event if noise is None else Composed(events=(noise.event, recipe.event))
    kept = as_requested(asked)
    promise = guarantee(
        event,
        asked.delta,
        Adjacency.ADD_OR_REMOVE,
        unit=kept.unit,
        rows_per_user=kept.rows_per_user,
        arithmetic=method.sampler_share * asked.delta,
        assumptions=(f"the number of {kept.unit}s, {source.rows}, is public", *_assumptions(source)),
    )
    return DryRun(
        request=asked,
        rows=source.train_rows,
        records=source.rows,
        method=methods.choose(asked.method),
        in_words=recipe.in_words,
        model=asked.model,
        why=source.why_model,
        expected=_expectation(source),
        preparation=preparation_cost(noise, delta=asked.delta),
        promise=promise,
        public=_public(source),
        found=tuple(_IN_WORDS[release] for release in releases),
        notes=_notes(source),
    )


def _assumptions(source: Source) -> tuple[str, ...]:
    """What the guarantee rests on because of the table."""
    if source.table is None:
        return ()
    written = source.table.format_assumption
    names = "the names of the columns are public"
    return (names, *(() if written is None else (written,)), *source.declares.assumptions)


def _expectation(source: Source) -> str:
    """What is known of such models before a row is looked at."""
    said = ""
    if source.table is not None and source.request.model == "additive":
        columns = len(source.table.names) - 1
        said = forecast(rows=source.train_rows, columns=columns, epsilon=source.request.epsilon)
    return said or "How accurate the model will be depends on the data, and is not guessed here."


def _public(source: Source) -> tuple[str, ...]:
    said = [f"the number of rows, {source.rows:,}"]
    if source.table is None:
        return (*said, f"what the catalog says about '{source.request.source}'")
    said.append(f"the names of the {len(source.table.names)} columns")
    if source.table.format_assumption is not None:
        said.append(f"the format: {source.table.dialect.describe()}")
    domain = source.declared
    if domain is not None:
        used = [name for name, column in domain.columns.items() if not isinstance(column, Ignored)]
        said.append(f"what is declared about {len(used)} column{'s' if len(used) != 1 else ''}")
    said += source.declares.assumptions
    return tuple(said)


def _notes(source: Source) -> tuple[str, ...]:
    """What a run says about its table before it starts."""
    doubt = None if source.table is None else source.table.doubt
    return (*source.declares.notes, *source.declares.warnings, *filter(None, (doubt,)))
