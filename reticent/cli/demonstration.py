"""The whole story on one small dataset: the same network with and without privacy, attacked and reported.

Nothing in it is made up for show: the private model is a run like any other, and its twin is trained by Adam
on the same rows until it knows them.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from reticent.attacks import battery
from reticent.attacks.battery import Battery, Target
from reticent.attacks.explain import conclude, explain
from reticent.attacks.metrics import curve
from reticent.attacks.shadows.recipes import plain_recipe
from reticent.attacks.shadows.training import train_shadows
from reticent.audit.additive import AdditiveAudit
from reticent.audit.canary_training import Audit
from reticent.audit.from_run import audit_run
from reticent.core.files import write_whole
from reticent.core.observer import NOBODY, Observer
from reticent.ledger.ledger import Ledger
from reticent.report.from_run import collect_facts
from reticent.report.render.html import page
from reticent.runs import private_part
from reticent.runs.attacks.membership import attack_run
from reticent.runs.attacks.pool import pool_of
from reticent.runs.fit import fit
from reticent.runs.reopen import Again, reopened
from reticent.runs.request import Request
from reticent.runs.scoring import predict_scores

_ATTACKS_PLAYED = ("threshold", "likelihood")


class _Effort(NamedTuple):
    """How long the twin is trained, and how many models are trained to attack each of the two."""

    epochs: int
    batch_size: int
    shadows: int


_SMALL = _Effort(epochs=60, batch_size=64, shadows=16)  # the twin knows its own rows by heart
_LARGE = _Effort(epochs=10, batch_size=256, shadows=8)  # minutes instead of hours
_MANY = 10_000  # rows


@dataclass(frozen=True, kw_only=True)
class Demonstration:
    """What a demonstration found, and where it was left."""

    folder: Path
    report: Path
    rows: tuple[tuple[str, ...], ...]
    seconds: float

    HEADINGS = ("", "accuracy", "members found at 1% FPR", "attack AUC", "epsilon claimed", "audit found")


def demonstrate(
    folder: Path,
    *,
    source: str = "digits",
    model: str = "mlp",
    epsilon: float = 3.0,
    shadows: int | None = None,
    observer: Observer = NOBODY,
) -> Demonstration:
    """Trains both networks, attacks both, audits the private one, charges a ledger, and writes a report.

    Args:
        folder: a new one, in which everything is left.
        shadows: how many models attack each of the two; 16 unless given, 8 for more than 10,000 rows.
    """
    started = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    ledger = folder / "demo.ledger"
    with Ledger.create(ledger) as opened:
        opened.limit(source, epsilon=2 * epsilon, delta=1e-5)
    order = Request(
        source=source,
        epsilon=epsilon,
        delta=1e-5,
        model=model,  # type: ignore[arg-type]  # checked by the request itself
        test=0.5,
        ledger=str(ledger),
        dataset=source,
    )
    run = folder / "run"
    record = fit(order, run, observer=observer).record
    again = reopened(run, observer=observer)
    effort = _LARGE if record.rows > _MANY else _SMALL
    effort = effort if shadows is None else effort._replace(shadows=shadows)
    observer.say("training the same network without privacy, and shadow models to attack it with")
    plain, plain_right = _attack_twin(again, effort, observer)
    observer.say("attacking the private network, with shadow models trained with the same noise")
    found = attack_run(again, shadows=effort.shadows, attacks=_ATTACKS_PLAYED, observer=observer)
    with observer.watch("audit") as on_progress:
        audited = audit_run(again)
        on_progress(1.0)
    _save_results(run, found, audited)
    report = folder / "report.html"
    facts = collect_facts(run)
    write_whole(report, page(facts).encode())
    write_whole(report.with_suffix(".json"), (json.dumps(facts.to_json(), indent=2) + "\n").encode())
    return Demonstration(
        folder=folder,
        report=report,
        rows=(
            ("without privacy", f"{plain_right:.1%}", *_attack_cells(plain), "infinite", "-"),
            (
                "with privacy",
                f"{record.result.metrics['accuracy']:.1%}",
                *_attack_cells(found),
                f"{record.result.guarantee.epsilon:.3f}",
                f"at least {audited.verdict.bound:.2f}: {audited.verdict.outcome.value}",
            ),
        ),
        seconds=time.perf_counter() - started,
    )


def _attack_twin(again: Again, effort: _Effort, observer: Observer) -> tuple[Battery, float]:
    """Trains the same network on the same rows until it knows them, and attacks it by models like it."""
    pool, learner = pool_of(again), again.learner
    x = np.concatenate([pool.records["x"], pool.always["x"]])
    y = np.concatenate([pool.records["y"], pool.always["y"]]).astype(np.int32)
    inside = np.concatenate([pool.is_member, np.ones(len(pool.always["y"]), bool)])
    recipe = plain_recipe(
        learner.model,
        optax.adam(2e-3),
        epochs=effort.epochs,
        batch_size=effort.batch_size,
        set_size=len(pool.records["y"]) // 2 + len(pool.always["y"]),
    )
    key = jax.random.key(0, impl="threefry2x32")
    params = jax.jit(recipe)(key, jnp.asarray(x), jnp.asarray(y), jnp.asarray(inside))
    with observer.watch("shadow models without privacy") as on_progress:
        found = train_shadows(
            recipe,
            learner.scores,
            pool.records,
            always=pool.always if len(pool.always["y"]) else None,
            shadows=effort.shadows,
            on_progress=lambda progress: on_progress(progress.fraction),
        )
    logits = predict_scores(learner, params, pool.records["x"])
    target = Target(logits=logits, is_member=pool.is_member, robustness=None)
    outside = predict_scores(learner, params, again.held_out["x"]).argmax(axis=1)
    right = float(np.mean(outside == again.held_out["y"]))
    return battery.run(found, target=target, attacks=_ATTACKS_PLAYED, tolerance=0.2), right


def _attack_cells(found: Battery) -> tuple[str, str]:
    measured = found.strongest.measured
    rate, area = measured.tpr_at_fpr[-1].true_positive_rate, measured.auc
    return f"{rate.value:.1%}", f"{area.value:.1%} ({area.low:.1%} to {area.high:.1%})"


def _save_results(run: Path, found: Battery, audited: Audit | AdditiveAudit) -> None:
    """Writes them into the private part of the run, where a report looks for them."""
    attacks: dict[str, Any] = {
        **found.to_json(),
        "verdict": conclude(found),
        "in_words": explain(found),
    }
    for result in found.results:
        attacks["attacks"][result.name]["roc"] = curve(result.scores)
    private_part.make_place(run, private_part.ATTACKS).mkdir()
    for name, what in ((private_part.ATTACK, attacks), (private_part.AUDIT, audited.to_json())):
        content = (json.dumps(what, indent=2) + "\n").encode()
        write_whole(run / private_part.PRIVATE / name, content, is_private=True)
