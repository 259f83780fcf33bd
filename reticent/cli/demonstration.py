"""The whole story on one small dataset, in three steps: it leaks, it does not leak, it is proved.

Nothing in it is made up for show: the private model is a run like any other, and the records that are planted
are the canaries of its audit. Its twin, without privacy, gets the same rows and the same canaries.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reticent.accounting.rounding import at_least, at_most
from reticent.attacks import battery
from reticent.attacks.battery import Battery
from reticent.attacks.explain import conclude, explain
from reticent.attacks.metrics import Measured, curve
from reticent.attacks.scores import Outputs
from reticent.audit.canary_training import Audit
from reticent.audit.from_run import audit_run
from reticent.core.errors import InvalidArgument
from reticent.core.files import write_whole
from reticent.core.observer import NOBODY, Observer
from reticent.data import catalog
from reticent.ledger.ledger import Ledger
from reticent.models import random_strokes
from reticent.report.facts.facts import Bars, Facts, RowsTable, Section
from reticent.report.from_run import collect_facts
from reticent.report.render.html import page
from reticent.runs import private_part
from reticent.runs.attacks.membership import attack_run
from reticent.runs.fit import fit
from reticent.runs.reopen import Again, open_again
from reticent.runs.request import Request
from reticent.runs.scoring import predict_scores, softmax

PLANTED = 300  # records, each in the training set by a coin
_CHANCE = 0.55  # an interval that begins below it shows nothing worth having
_MOST = 5000  # rows of the twin
_ATTACK = "threshold"  # the simplest there is: whoever is known by heart has a small loss
_TURNS, _RESIDUAL = 400, 0.02  # of the twin: enough to know every row


class TwoModels(NamedTuple):
    """One row of the comparison."""

    name: str
    accuracy: float
    planted: Measured  # of the attack on the planted records
    epsilon: str
    audit: str

    @property
    def cells(self) -> tuple[str, ...]:
        auc, rate = self.planted.auc, self.planted.tpr_at_fpr[-1].true_positive_rate
        told = f"{auc.value:.0%} ({auc.low:.0%}-{auc.high:.0%})"
        return (self.name, f"{self.accuracy:.1%}", told, f"{rate.value:.0%}", self.epsilon, self.audit)


@dataclass(frozen=True, kw_only=True)
class Demonstration:
    """What a demonstration found, and where it was left."""

    folder: Path
    report: Path
    rows: tuple[tuple[str, ...], ...]
    seconds: float

    HEADINGS = ("", "accuracy", "who was in? AUC", "at 1% FPR", "epsilon", "audit: at least")


def demonstrate(
    folder: Path,
    *,
    source: str = "digits",
    epsilon: float = 3.0,
    observer: Observer = NOBODY,
) -> Demonstration:
    """Trains with and without privacy, attacks both, audits the private one, and writes a report.

    Args:
        folder: a new one, in which everything is left.
    """
    started = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    ledger = folder / "demo.ledger"
    with Ledger.create(ledger) as opened:
        opened.limit(source, epsilon=2 * epsilon, delta=1e-5)
    observer.say(f"Training with and without privacy on '{source}', with {PLANTED} made-up records planted.")
    run = folder / "run"
    record = fit(_request(source, epsilon, ledger), run, observer=replace_say(observer)).record
    again = open_again(run, observer=observer)
    planted = _plant(again)
    audited = audit_run(again, inputs=planted)
    assert isinstance(audited, Audit)
    was_in = audited.input_coins

    twin = _train_twin(again, {key: rows[was_in] for key, rows in planted.items()})
    leaks = _attack(planted, was_in, planted["x"] @ twin)
    outside = (again.held_out["x"] @ twin).argmax(axis=1) == again.held_out["y"]
    plain = TwoModels("without privacy", float(outside.mean()), leaks, "infinite", "-")
    observer.say(
        f"1 of 3  It leaks: asked about each of the {PLANTED} planted records, half of them left out, "
        f"the model without privacy tells which it saw: AUC {leaks.auc.value:.0%}. Guessing gives 50%."
    )
    keeps = _attack(planted, was_in, predict_scores(again.learner, audited.run.params, planted["x"]))
    verdict = audited.verdict
    private = TwoModels(
        "with privacy",
        float(record.result.metrics["accuracy"]),
        keeps,
        at_most(record.result.guarantee.epsilon),
        f"{at_least(verdict.bound)}, {verdict.outcome.value}",
    )
    keeps_it = "It does not leak" if keeps.auc.low < _CHANCE else "It leaks less"
    observer.say(
        f"2 of 3  {keeps_it}: a private model of the same rows and planted records gives AUC "
        f"{keeps.auc.value:.0%} ({keeps.auc.low:.0%} to {keeps.auc.high:.0%}). It is right on "
        f"{private.accuracy:.1%} of new rows, and {plain.accuracy:.1%} without privacy."
    )
    _save_results(run, attack_run(again, shadows=0), audited)
    observer.say(
        f"3 of 3  Proved: epsilon {private.epsilon} was charged to {ledger} before training. "
        f"{len(audited.scores[0])} worst-case records tried to contradict it, and show at least "
        f"{at_least(verdict.bound)}: {verdict.outcome.value}."
    )
    report = folder / "report.html"
    write_report(report, _with_comparison(collect_facts(run), plain, private))
    return Demonstration(
        folder=folder,
        report=report,
        rows=(plain.cells, private.cells),
        seconds=time.perf_counter() - started,
    )


def replace_say(observer: Observer) -> Observer:
    """The same observer, for a run whose remarks would stand between the steps of the story."""
    return observer._replace(say=NOBODY.say)


def write_report(path: Path, facts: Facts) -> None:
    """Writes the page, and its facts beside it."""
    write_whole(path, page(facts).encode())
    write_whole(path.with_suffix(".json"), (json.dumps(facts.to_json(), indent=2) + "\n").encode())


def _request(source: str, epsilon: float, ledger: Path) -> Request:
    is_small = source == "digits"
    return Request(
        source=source,
        epsilon=epsilon,
        delta=1e-5,
        model="fourier" if is_small else "auto",
        method="gd" if is_small else "auto",
        ledger=str(ledger),
        dataset=source,
    )


def _plant(again: Again) -> dict[str, np.ndarray]:
    """Made-up drawings with random labels: only a model that has seen one knows its label."""
    shape = again.problem.shape
    side = math.isqrt(math.prod(shape[:2]))
    if not again.problem.is_classification or again.domain is not None or side**2 != math.prod(shape):
        raise InvalidArgument(
            "The demonstration needs square grey images with classes.",
            remedy="Leave out --data, or see a table: reticent demo --table.",
        )
    drawn = random_strokes(PLANTED, side=side).reshape(PLANTED, *shape)
    is_bytes = catalog.load(again.record.request.source).train["x"].dtype == np.uint8
    drawn = drawn if is_bytes else drawn / np.float32(255)
    labels = np.random.default_rng(0).integers(0, again.problem.outputs, PLANTED, np.int32)
    return {"x": again.learner.inputs(drawn), "y": labels}


def _train_twin(again: Again, planted: dict[str, np.ndarray]) -> np.ndarray:
    """The same linear model on the same features, fitted without privacy until it knows every row."""
    from scipy.optimize import minimize

    x = np.concatenate([again.train_on["x"][:_MOST], planted["x"]]).astype(np.float32)
    y = np.concatenate([again.train_on["y"][:_MOST], planted["y"]])
    wanted = np.eye(again.problem.outputs, dtype=np.float32)[y]
    shape = (x.shape[1], again.problem.outputs)

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        shares = softmax(x @ flat.reshape(shape).astype(np.float32))
        value = -float(np.mean(np.log(np.maximum(shares[np.arange(len(y)), y], 1e-30))))
        slope = x.T @ (shares - wanted).astype(np.float32) / len(y)
        return value, slope.astype(np.float64).ravel()

    def is_known(intermediate_result: Any) -> None:
        if intermediate_result.fun < _RESIDUAL:
            raise StopIteration

    found = minimize(
        loss,
        np.zeros(shape[0] * shape[1]),
        jac=True,
        method="L-BFGS-B",
        callback=is_known,
        options={"maxiter": _TURNS},
    )
    return found.x.reshape(shape).astype(np.float32)


def _attack(planted: dict[str, np.ndarray], was_in: np.ndarray, logits: np.ndarray) -> Measured:
    sides = [Outputs.from_logits(logits[which], planted["y"][which]) for which in (was_in, ~was_in)]
    return battery.run_without_shadows(*sides, attacks=(_ATTACK,))[_ATTACK].measured


def _with_comparison(facts: Facts, plain: TwoModels, private: TwoModels) -> Facts:
    """The facts of the run, with what its twin gives away before what attacks found on the run itself."""
    models = (plain, private)
    areas = [model.planted.auc for model in models]
    chart = Bars(
        id="twins",
        title="Who was in the training set? What a model tells about planted records",
        description=(
            f"AUC of the attack: {areas[0].value:.1%} without privacy and {areas[1].value:.1%} with privacy, "
            "where guessing gives 50%."
        ),
        unit="AUC of an attack on planted records, %",
        names=tuple(model.name for model in models),
        amounts=tuple(100 * area.value for area in areas),
        notes=tuple(f"{area.value:.1%}" for area in areas),
        low=tuple(100 * area.low for area in areas),
        high=tuple(100 * area.high for area in areas),
        mark=50.0,
        mark_name="guessing",
    )
    section = Section(
        id="twins",
        title="With and without privacy",
        text=(
            f"{PLANTED} made-up drawings with random labels were planted: each joined the training or "
            "not, by a coin. An attacker who asks for the label of such a record, and gets it with "
            "confidence, has found out that the model saw it. Both models were trained on the same rows and "
            "the same planted records.",
        ),
        charts=(chart,),
        tables=(
            RowsTable(
                title="The same model twice (estimates; the audit's number is a lower bound)",
                headings=("model", *Demonstration.HEADINGS[1:]),
                rows=tuple(model.cells for model in models),
            ),
        ),
    )
    at = next((place for place, each in enumerate(facts.sections) if each.id == "attacks"), 0)
    return replace(facts, sections=(*facts.sections[:at], section, *facts.sections[at:]))


def _save_results(run: Path, found: Battery, audited: Audit) -> None:
    """Writes them into the private part of the run, where a report looks for them."""
    save_attacks(run, found)
    content = (json.dumps(audited.to_json(), indent=2) + "\n").encode()
    write_whole(run / private_part.PRIVATE / private_part.AUDIT, content, is_private=True)


def save_attacks(run: Path, found: Battery) -> None:
    """Writes what attacks found into the private part of a run."""
    attacks: dict[str, Any] = {**found.to_json(), "verdict": conclude(found), "in_words": explain(found)}
    for result in found.results:
        attacks["attacks"][result.name]["roc"] = curve(result.scores)
    private_part.make_place(run, private_part.ATTACKS).mkdir()
    content = (json.dumps(attacks, indent=2) + "\n").encode()
    write_whole(run / private_part.PRIVATE / private_part.ATTACK, content, is_private=True)
