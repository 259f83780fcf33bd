"""The record of a run: everything that `run.json` holds, with its one reader and its one writer.

What is unreleased (`PRIVATE_FIELDS`) is kept apart, in the private part of the folder.

A record is a value: each change makes another one, and `folder.write_record` puts it on the disk.

    started     the folder is there and says what was asked for; nothing is charged or released
    preparing   preparation is charged, and its noise may be drawn; the rest is charged when it is done
    paid        the whole cost is charged; noise may be drawn
    failed      what was found privately cannot be used; it is not looked for a second time
    finished    the model or the generator and its guarantee are there

JSON has no infinity: numbers that are not finite are written as "inf", "-inf" and "nan".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, get_args

from reticent.accounting.guarantee import Guarantee, Unit
from reticent.core.errors import ReticentError
from reticent.ledger.address import without_password
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Composed, Event
from reticent.runs import json_values
from reticent.runs.held_out_scores import HeldOutScores
from reticent.runs.json_values import count, finite, mapping, number, one_of, or_none, shape, text, texts
from reticent.runs.problem import Problem
from reticent.runs.table_format import TableFormat

VERSION = 4  # since 3: requests were called orders, and generators had fields of models
RunKind = Literal["model", "generator"]
State = Literal["started", "preparing", "paid", "failed", "finished"]

COMMANDS: dict[str, str] = {"model": "train", "generator": "synth"}
PRIVATE_FIELDS = ("metrics", "history", "unreleased", "quality", "warnings")  # of a record in JSON
HISTORY = (
    "unreleased estimates on held-out rows; epsilon is what a run costs that was meant from the start to end "
    "there, preparation included"
)


@dataclass(frozen=True, kw_only=True)
class Requested:
    """What a run was asked for: what all runs have in common, and the options of its own kind."""

    source: str
    epsilon: float
    delta: float
    target: str | None
    method: str
    domain: str | None
    prepare: str
    test: float
    ledger: str | None
    dataset: str | None
    layout: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def unit(self) -> Unit:
        """Whose privacy is at stake."""
        return "record" if self.options.get("user") is None else "user"

    @property
    def rows_per_user(self) -> int | None:
        """The most rows of a user that are used, where the unit is a user."""
        return self.options.get("rows_per_user")

    def to_json(self) -> dict[str, Any]:
        own = asdict(self)
        return own | own.pop("options")


@dataclass(frozen=True, kw_only=True)
class RecipeRecord:
    """The recipe that was priced: which method, in words, and its settings.

    Args:
        why: the model that `auto` stood for, and why; nothing if it was asked for by name.
    """

    method: str
    in_words: str
    settings: Mapping[str, Any]
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        why = {"why": self.why} if self.why else {}
        return {"method": self.method, "in_words": self.in_words, **why, **self.settings}


@dataclass(frozen=True, kw_only=True)
class PreparationCost:
    """What private preparation alone would cost."""

    noise_multiplier: float
    epsilon: float
    delta: float


@dataclass(frozen=True, kw_only=True)
class ModelFile:
    """The file that a run ends in.

    Args:
        digest: SHA-256, in hexadecimal.
        shape: of one row or image that a generator makes; None for a model, whose problem has it.
    """

    name: str
    digest: str
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class HistoryPoint:
    """How a model did at some time of its training. `held_out` is unreleased."""

    epoch: float
    epsilon: float | None
    held_out: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """What a finished run has: what it made, what that promises, how good it is.

    Args:
        problem, scores, history: of models; a generator has none.
        unreleased: what was seen on the way and is private: for whoever holds the data.
        quality: what `reticent synth --evaluate` found: unreleased.
    """

    model: ModelFile
    guarantee: Guarantee
    seconds: float
    problem: Problem | None = None
    scores: HeldOutScores | None = None
    history: tuple[HistoryPoint, ...] = ()
    unreleased: Mapping[str, Any] | None = None
    quality: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()

    @property
    def metrics(self) -> Mapping[str, float]:
        """The scores by name; none where no row was held out."""
        return {} if self.scores is None else self.scores.values


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """What the folder of a run holds, model or generator.

    Args:
        number: random; by it the ledger knows the charge of this run.
        records: how many rows the table has: public.
        rows: how many of them can be expected to be learned from: public.
        table: a keyed digest of the data, until the run is finished.
        assumptions: what the guarantee rests on because of who worked on the run.
        failure: why a failed run failed.
        written_as: how the original of a generator's table is written.
    """

    kind: RunKind
    state: State
    number: str
    request: Requested
    records: int
    rows: int
    recipe: RecipeRecord
    preparation: PreparationCost | None
    event: Event
    versions: Mapping[str, str]
    table: str | None = None
    assumptions: tuple[str, ...] = ()
    failure: str | None = None
    outcome: RunResult | None = None
    written_as: TableFormat | None = None

    @property
    def is_generator(self) -> bool:
        return self.kind == "generator"

    @property
    def command(self) -> str:
        """The command that made it, and resumes it: `train` or `synth`."""
        return COMMANDS[self.kind]

    @property
    def result(self) -> RunResult:
        """What a finished run has; `folder.require_finished` comes first."""
        if self.outcome is None:
            raise AssertionError(f"run {self.number} is not finished")
        return self.outcome

    @property
    def charges(self) -> tuple[Event, ...]:
        """What is charged, one after the other: what preparation releases, then the rest."""
        if self.preparation is None or not isinstance(self.event, Composed) or len(self.event.events) != 2:
            return (self.event,)
        return self.event.events

    def preparing(self, *assumptions: str) -> RunRecord:
        """The same run once its first charge is made, resting on these assumptions; a paid one stays so."""
        is_paid = self.state == "paid" or len(self.charges) == 1
        kept = tuple(dict.fromkeys((*self.assumptions, *assumptions)))
        return replace(self, state="paid" if is_paid else "preparing", assumptions=kept)

    def paid(self) -> RunRecord:
        """The same run once all of it is paid for."""
        return replace(self, state="paid")

    def failed(self, error: ReticentError) -> RunRecord:
        """The same run, failed for good."""
        return replace(self, state="failed", failure=str(error))

    def finished(self, outcome: RunResult) -> RunRecord:
        """The same run with its result; the digest of the data is not needed any more."""
        return replace(self, state="finished", table=None, outcome=outcome)

    def to_json(self) -> dict[str, Any]:
        """Plain values for `run.json`; what a run does not have is left out."""
        own = {
            "version": VERSION,
            "kind": self.kind,
            "state": self.state,
            "number": self.number,
            "table": self.table,
            "request": self.request.to_json(),
            "records": self.records,
            "rows": self.rows,
            "recipe": self.recipe.to_json(),
            "event": events.to_json(self.event),
            "versions": dict(self.versions),
            "written_as": None if self.written_as is None else asdict(self.written_as),
            "assumptions": list(self.assumptions),
            "failure": self.failure,
            **({} if self.outcome is None else _outcome_to_json(self.outcome)),
        }
        cost = None if self.preparation is None else asdict(self.preparation)
        return finite({key: item for key, item in own.items() if item is not None} | {"preparation": cost})

    @classmethod
    def from_json(cls, value: Any) -> RunRecord:
        """The record that `to_json` wrote. Every field is checked: the file may be a stranger's.

        Raises:
            OtherVersion: another version wrote it, or nobody. Unreadable: it is damaged.
        """
        if not isinstance(value, dict) or value.get("state") not in get_args(State):
            raise json_values.OtherVersion
        if value.get("version") not in (3, VERSION):
            raise json_values.OtherVersion
        try:
            return _read(_from_3(value) if value["version"] == 3 else value)
        except (ReticentError, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise json_values.Unreadable(str(error)) from error
        except (AssertionError, OverflowError, RecursionError) as error:
            raise json_values.Unreadable(str(error)) from error


def as_requested(request: Any) -> Requested:
    """A request for a model or for a generator, as its record keeps it."""
    return _request(asdict(request) | {"ledger": without_password(request.ledger)})


def _from_3(value: dict[str, Any]) -> dict[str, Any]:
    """Version 3 called requests orders, and had generators fill in what only models have."""
    kept = {key: item for key, item in value.items() if key not in ("order", "dialect", "sentence")}
    kept |= {"request": value["order"], "written_as": value.get("dialect")}
    if value.get("kind") == "generator":
        made = {name: kept.pop(name, None) for name in ("problem", "metrics", "history")}
        if value["state"] == "finished":
            kept["model"] = {**value["model"], "shape": made["problem"]["shape"]}
    return kept


def _read(value: dict[str, Any]) -> RunRecord:
    kind = one_of(get_args(RunKind), value.get("kind", "model"))
    state = value["state"]
    recipe = dict(mapping(value["recipe"]))
    cost = value["preparation"]
    return RunRecord(
        kind=kind,
        state=state,
        number=text(value["number"]),
        request=_request(mapping(value["request"])),
        records=count(value["records"]),
        rows=count(value["rows"]),
        recipe=RecipeRecord(
            method=text(recipe.pop("method")),
            in_words=text(recipe.pop("in_words")),
            why=text(recipe.pop("why", "")),
            settings=recipe,
        ),
        preparation=None
        if cost is None
        else PreparationCost(**{name.name: number(cost[name.name]) for name in fields(PreparationCost)}),
        event=events.from_json(value["event"]),
        versions={text(name): text(version) for name, version in mapping(value["versions"]).items()},
        table=or_none(text, value.get("table")),
        assumptions=texts(value.get("assumptions", [])),
        failure=text(value["failure"]) if state == "failed" else None,
        outcome=_outcome(value, kind) if state == "finished" else None,
        written_as=or_none(TableFormat.from_json, value.get("written_as")),
    )


def _request(value: Mapping[str, Any]) -> Requested:
    shared = {name.name for name in fields(Requested)} - {"options"}
    return Requested(
        source=text(value["source"]),
        epsilon=number(value["epsilon"]),
        delta=number(value["delta"]),
        target=or_none(text, value["target"]),
        method=text(value["method"]),
        domain=or_none(text, value["domain"]),
        prepare=text(value["prepare"]),
        test=number(value["test"]),
        ledger=or_none(text, value["ledger"]),
        dataset=or_none(text, value["dataset"]),
        layout=mapping(value["layout"]),
        options={name: item for name, item in value.items() if name not in shared},
    )


def _outcome_to_json(outcome: RunResult) -> dict[str, Any]:
    scores, problem = outcome.scores, outcome.problem
    model = {name: item for name, item in asdict(outcome.model).items() if item is not None}
    return {
        "model": model,
        "guarantee": outcome.guarantee.to_json(),
        "sentence": str(outcome.guarantee),
        "seconds": outcome.seconds,
        "problem": None if problem is None else asdict(problem),
        "metrics": None if scores is None else scores.to_json(),
        "history": None
        if not outcome.history
        else {"label": HISTORY, "moments": [asdict(point) for point in outcome.history]},
        "unreleased": None if outcome.unreleased is None else dict(outcome.unreleased),
        "quality": None if outcome.quality is None else dict(outcome.quality),
        "warnings": list(outcome.warnings) or None,
    }


def _outcome(value: Mapping[str, Any], kind: RunKind) -> RunResult:
    model = mapping(value["model"])
    scored = or_none(HeldOutScores.from_json, value.get("metrics")) if kind == "model" else None
    points = mapping(value.get("history") or {}).get("moments", ()) if kind == "model" else ()
    return RunResult(
        model=ModelFile(
            name=text(model["name"]), digest=text(model["digest"]), shape=or_none(shape, model.get("shape"))
        ),
        guarantee=_guarantee(mapping(value["guarantee"])),
        seconds=number(value["seconds"]),
        problem=_problem(mapping(value["problem"])) if kind == "model" else None,
        scores=scored,
        history=tuple(map(_point, points)),
        unreleased=or_none(mapping, value.get("unreleased")),
        quality=or_none(mapping, value.get("quality")),
        warnings=texts(value.get("warnings", [])),
    )


def _point(value: Any) -> HistoryPoint:
    held_out = {text(name): number(item) for name, item in mapping(value["held_out"]).items()}
    return HistoryPoint(
        epoch=number(value["epoch"]), epsilon=or_none(number, value["epsilon"]), held_out=held_out
    )


def _problem(value: Mapping[str, Any]) -> Problem:
    bounds = value["bounds"]
    return Problem(
        rows=count(value["rows"]),
        shape=shape(value["shape"]),
        classes=texts(value["classes"]),
        bounds=None if bounds is None else (number(bounds[0]), number(bounds[1])),
        scale=number(value["scale"]),
        columns=tuple(map(int, value.get("columns", ()))),
        class_weights=tuple(map(number, value.get("class_weights", ()))),
    )


def _guarantee(value: Mapping[str, Any]) -> Guarantee:
    return Guarantee(
        epsilon=number(value["epsilon"]),
        epsilon_lower=number(value["epsilon_lower"]),
        delta=number(value["delta"]),
        adjacency=Adjacency(value["adjacency"]),
        unit=one_of(get_args(Unit), value["unit"]),
        group=count(value["group"]),
        rows_per_user=or_none(count, value.get("rows_per_user")),
        accountant=json_values.plain_words(value["accountant"]),
        assumptions=tuple(map(json_values.one_line, texts(value["assumptions"]))),
    )
