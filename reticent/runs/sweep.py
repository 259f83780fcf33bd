"""Theory against practice: what each way of accounting demands, what accuracy is left, and what attacks find.

For every model, accounting method and epsilon, a handful of models is trained on halves of the rows, by the
same private steps as `rt.train`. Their accuracies, and the attacks on each by the others, are measured; the
bound on what any attack can reach comes from epsilon. Cells are kept on disk as they are done, so that a
sweep resumes where it stopped. The models of a cell are divided over all devices; several processes sweep
together into a folder that all of them see.

For measurements only: seeds are fixed, and nothing is charged. A sweep is about public data, or for whoever
holds the data.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import optax

from reticent.attacks import battery
from reticent.attacks.shadows.outputs import Shadows
from reticent.attacks.shadows.recipes import plain_recipe
from reticent.attacks.shadows.training import train_shadows
from reticent.core import checks
from reticent.core.errors import DataError, DomainError, IntegrityError, InvalidArgument, ReticentError
from reticent.core.files import MISFITS, read_inside, read_json_inside, write_whole
from reticent.core.observer import NOBODY, Observer
from reticent.data.encoding import has_target
from reticent.data.held_out import Split
from reticent.distributed import collectives
from reticent.distributed.consensus import by_first
from reticent.runs import folder as folders
from reticent.runs.arrays import divided_by, inputs_of
from reticent.runs.learners import Learner, learner
from reticent.runs.request import Request
from reticent.runs.source import Source
from reticent.training.plan import Analysis, Plan
from reticent.training.vectorised import private_recipe

ACCOUNTING: dict[str, Analysis] = {
    "basic": "basic",
    "advanced": "advanced",
    "zcdp": "zcdp",
    "rdp": "rdp",
    "tight": "tight",
}
ATTACKS = {"threshold": "threshold", "shadow": "likelihood"}
MODELS = ("linear", "mlp")
_STEPS, _RATE = 100, {"linear": 4.0, "mlp": 1.0}


@dataclass(frozen=True, kw_only=True)
class SweepRequest:
    """What is swept over.

    Args:
        rows: at most so many of the dataset's rows are used; half of them train a model.
        seeds: how many models a cell has: an even number, each attacked by the others.
    """

    source: str
    target: str | None = None
    domain: str | None = None
    epsilons: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0, 1000.0)
    accounting: tuple[str, ...] = ("basic", "advanced", "zcdp", "rdp", "tight")
    models: tuple[str, ...] = ("linear", "mlp")
    attacks: tuple[str, ...] = ("threshold", "shadow")
    delta: float = 1e-5
    rows: int = 4000
    seeds: int = 8

    def __post_init__(self) -> None:
        for known, named in ((ACCOUNTING, "accounting"), (ATTACKS, "attacks"), (MODELS, "models")):
            for value in getattr(self, named):
                checks.one_of(tuple(known), **{named: value})
            if not getattr(self, named):
                raise InvalidArgument(f"No {named} are named.", remedy=f"Known: {', '.join(known)}.")
        checks.inside_unit(delta=self.delta)
        _at_least(100, "rows", self.rows, "rows are too few to attack")
        _at_least(8, "seeds", self.seeds, "models per cell are too few: each is attacked by the others")
        if self.seeds % 2:
            raise InvalidArgument(
                f"{self.seeds} models cannot have each record in half of them.",
                remedy="Pass --seeds with an even number.",
            )
        for epsilon in self.epsilons or (math.nan,):
            checks.positive(epsilon=epsilon)


def _at_least(minimum: int, name: str, value: int, what: str) -> None:
    checks.count(**{name: value})
    if value < minimum:
        raise InvalidArgument(f"{value} {what}.", remedy=f"Pass --{name} {minimum} or more.")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One model, accounting method and epsilon; without privacy the method is "none" and epsilon infinite.

    Args:
        noise_multiplier: None where no noise meets epsilon by this method.
        accuracy, deviation: of the models on rows they were not trained on.
        leakage: by attack, advantage, AUC and the share of members found at 1%, each with an interval.
    """

    model: str
    accounting: str
    epsilon: float
    delta: float
    noise_multiplier: float | None
    accuracy: float | None = None
    deviation: float | None = None
    leakage: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        known = asdict(self)
        return {**known, "epsilon": "inf" if math.isinf(self.epsilon) else self.epsilon}

    @property
    def bound(self) -> float:
        """The largest advantage (true less false positives) that any attack can have."""
        odds = math.exp(min(self.epsilon, 700.0))
        return min((odds - 1 + 2 * self.delta) / (odds + 1), 1.0)


def sweep(request: SweepRequest, folder: Path, *, observer: Observer = NOBODY) -> list[Cell]:
    """Measures every cell that is not in the folder yet, and returns all of them, in order.

    Raises:
        IntegrityError: the folder holds the cells of another sweep.
    """
    by_first(partial(_same_request, request, folder))
    wanted = [(model, "none", math.inf) for model in request.models]
    wanted += list(itertools.product(request.models, request.accounting, request.epsilons))
    bench: _Bench | None = None
    cells = []
    with observer.watch(f"{len(wanted)} cells") as on_progress:
        for done, (model, accounting, epsilon) in enumerate(wanted):
            path = folder / "cells" / f"{model}-{accounting}-{epsilon:g}.json"
            cell = _read(path)
            is_kept = collectives.gather_arrays(cell is not None).all()
            if cell is None or not is_kept:
                if bench is None:
                    bench = _Bench(request, observer)
                    by_first(partial(_begin, request, folder))  # not before it is clear that it can be run
                cell = bench.measure(model, accounting, epsilon)
                by_first(partial(_keep, cell, path))
            cells.append(cell)
            on_progress((done + 1) / len(wanted))
    return cells


class _Bench:
    """The rows, read once, and what is trained on them."""

    def __init__(self, request: SweepRequest, observer: Observer) -> None:
        self.request = request
        plain = Request(
            source=request.source, target=request.target, domain=request.domain, epsilon=1.0, prepare="public"
        )
        source = Source(plain)
        _require_declared(source)
        source.split = None if source.has_test else Split(share=plain.test, seed=0)
        divided = divided_by(source, source.public_domain, observer)
        self.problem = divided.problem
        if not self.problem.is_classification:
            raise DataError(
                "A sweep is about classes, and this target is a number.", remedy="Choose another."
            )
        known = has_target(divided.train_on["y"])
        chosen = np.random.default_rng(0).permutation(np.flatnonzero(known))[: request.rows]
        chosen = chosen[: len(chosen) - len(chosen) % 2]
        if len(chosen) < 100:
            raise DataError(f"{len(chosen)} rows are too few to attack.", remedy="Give at least 100.")
        self._raw = {key: divided.train_on[key][chosen] for key in ("x", "y")}
        self._learners: dict[str, tuple[Learner, dict[str, np.ndarray]]] = {}
        self._observer = observer

    def measure(self, model: str, accounting: str, epsilon: float) -> Cell:
        learn, records = self._learner(model)
        half = len(records["y"]) // 2
        if accounting == "none":
            recipe = plain_recipe(learn.model, optax.adam(2e-3), epochs=30, batch_size=64, set_size=half)
            return self._cell(
                model,
                accounting,
                epsilon,
                None,
                train_shadows(recipe, learn.scores, records, shadows=self.request.seeds),
            )
        try:
            plan = Plan.for_budget(
                epsilon=epsilon,
                delta=self.request.delta,
                examples=half,
                batch_size=max(half // 8, 32),
                steps=_STEPS,
                max_norm=1.0,
                analysis=ACCOUNTING[accounting],
            )
        except ReticentError:  # no noise is enough, or none needed, by this analysis
            return Cell(
                model=model,
                accounting=accounting,
                epsilon=epsilon,
                delta=self.request.delta,
                noise_multiplier=None,
            )
        schedule = optax.linear_schedule(_RATE[model], 0.0, _STEPS)
        recipe = private_recipe(
            learn.loss, learn.model.init, plan, optimizer=optax.sgd(schedule, momentum=0.9)
        )
        found = train_shadows(recipe, learn.scores, records, shadows=self.request.seeds)
        return self._cell(model, accounting, epsilon, plan.noise_multiplier, found)

    def _learner(self, model: str) -> tuple[Learner, dict[str, np.ndarray]]:
        if model not in self._learners:
            learn = learner(model, self.problem)  # type: ignore[arg-type]  # checked by the request
            self._learners[model] = (learn, inputs_of(learn, self._raw, self._observer))
        return self._learners[model]

    def _cell(self, model: str, accounting: str, epsilon: float, noise: float | None, found: Shadows) -> Cell:
        right = found.signals.is_right
        each = [float(row[~inside].mean()) for row, inside in zip(right, found.is_member, strict=True)]
        played = battery.run(found, attacks=[ATTACKS[name] for name in self.request.attacks])
        leakage = {}
        for name in self.request.attacks:
            measured = played[ATTACKS[name]].measured
            leakage[name] = {
                "advantage": measured.advantage._asdict(),
                "auc": measured.auc._asdict(),
                "members found at 1%": measured.tpr_at_fpr[-1].true_positive_rate._asdict(),
            }
        return Cell(
            model=model,
            accounting=accounting,
            epsilon=epsilon,
            delta=self.request.delta,
            noise_multiplier=noise,
            accuracy=float(np.mean(each)),
            deviation=float(np.std(each)),
            leakage=leakage,
        )


def _require_declared(source: Source) -> None:
    """
    Raises:
        DomainError: something about a table is not declared; a sweep finds nothing privately.
    """
    try:
        source.releases()
    except DomainError as error:
        name = source.request.source
        raise DomainError(
            error.happened,
            remedy=f"Draft a domain file (reticent domain {name} -o FILE), check each value and remove its "
            "looked_up mark, then sweep with --domain FILE.",
        ) from error


_REQUEST = "sweep-order.json"


def _same_request(request: SweepRequest, folder: Path) -> None:
    if not (folder / _REQUEST).exists():
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise DataError(f"{folder} exists already, and holds no sweep.", remedy="Choose another folder.")
        return
    said = read_inside(folder, _REQUEST).decode(errors="replace").strip()
    if said != _text(request) and any(folder.glob("cells/*.json")):
        raise IntegrityError(
            f"{folder} holds a sweep of something else.",
            remedy="Choose another folder, or the same settings.",
        )


def _begin(request: SweepRequest, folder: Path) -> None:
    folders.make(folder)
    write_whole(folder / _REQUEST, f"{_text(request)}\n".encode())


def _text(request: SweepRequest) -> str:
    return json.dumps(asdict(request), sort_keys=True)


def _keep(cell: Cell, path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    write_whole(path, (json.dumps(cell.to_json()) + "\n").encode())


def _read(path: Path) -> Cell | None:
    try:
        value = read_json_inside(path.parent, path.name)
        return Cell(**{**value, "epsilon": float(value["epsilon"])})
    except FileNotFoundError:
        return None
    except (OSError, *MISFITS):
        raise IntegrityError(f"{path} is damaged.", remedy="Delete it, and sweep again.") from None


def as_rows(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Flat rows for a table: one per cell, with the accuracy that privacy cost."""
    without = {cell.model: cell.accuracy for cell in cells if cell.accounting == "none"}
    rows = []
    for cell in cells:
        row: dict[str, Any] = {
            "model": cell.model,
            "accounting": cell.accounting,
            "epsilon": cell.epsilon,
            "noise_multiplier": cell.noise_multiplier,
            "accuracy": cell.accuracy,
            "accuracy_loss": None,
            "bound_on_advantage": cell.bound,
        }
        plain = without.get(cell.model)
        if cell.accuracy is not None and plain is not None:
            row["accuracy_loss"] = plain - cell.accuracy
        for name, found in (cell.leakage or {}).items():
            for key, value in found.items():
                row[f"{name} {key}"] = value["value"]
        rows.append(row)
    return rows
