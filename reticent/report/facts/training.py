"""How a run went: what it learned for what it spent, and where the budget went."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from reticent.accounting.guarantee import Guarantee
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.reserve import TRAINING
from reticent.accounting.rounding import at_most
from reticent.accounting.tight_epsilon import settle
from reticent.core.errors import ReticentError
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.report.facts.facts import Bars, Chart, Line, Section, estimate, setting
from reticent.report.facts.scores import class_tables, outside_in_words, score_charts, score_values
from reticent.runs.folder import rows_in_words
from reticent.runs.record import HistoryPoint, RunRecord


def sections(record: RunRecord) -> list[Section]:
    return [_training(record), _budget(record), *_votes(record), *_synthetic(record)]


def _training(record: RunRecord) -> Section:
    moments = [(point, point.epsilon) for point in record.result.history if point.epsilon is not None]
    scores = record.result.scores
    values = []
    if scores is not None:
        values = score_values(scores, note=scores.label)
    values.append(setting("rows trained on", rows_in_words(record)))
    values.append(setting("seconds", round(record.result.seconds, 1)))
    charts = score_charts(record.result)
    if len(moments) > 2:
        epochs = tuple(point.epoch for point, _ in moments)
        spent = tuple(epsilon for _, epsilon in moments)
        charts.append(
            Chart(
                id="spent",
                title="Epsilon spent if the run had been planned to stop there",
                description=f"Epsilon grows from {at_most(spent[0])} after the first epochs to "
                f"{at_most(spent[-1])} after {epochs[-1]:.3g}, including everything released "
                "beside training. It is the cost of a run whose last step was fixed in advance.",
                x_label="epochs",
                y_label="epsilon (bound)",
                lines=(Line(name="epsilon", x=epochs, y=spent),),
            )
        )
        curves = _accuracies([point for point, _ in moments])
        if right := curves.get("accuracy"):
            charts.append(
                Chart(
                    id="learned",
                    title="Accuracy over epsilon (unreleased)",
                    description=f"Accuracy on held-out rows goes from {right[0]:.1f}% at {at_most(spent[0])} "
                    f"to {right[-1]:.1f}% at {at_most(spent[-1])}.",
                    x_label="epsilon",
                    y_label="accuracy on held-out rows, %",
                    lines=tuple(Line(name=name, x=spent, y=curve) for name, curve in curves.items()),
                )
            )
    return Section(
        id="training",
        title="What was learned, and what it cost",
        text=(f"{record.recipe.method}: {record.recipe.in_words}.", *_cautions(record)),
        values=tuple(values),
        charts=tuple(charts),
        tables=tuple(class_tables(record.result)),
    )


def _accuracies(points: Sequence[HistoryPoint]) -> dict[str, tuple[float, ...]]:
    """Every accuracy, in percent, that was measured at all of these moments."""
    names = [name for name in points[0].held_out if "accuracy" in name]
    curves = {name: tuple(100 * point.held_out.get(name, math.nan) for point in points) for name in names}
    return {name: curve for name, curve in curves.items() if all(value == value for value in curve)}


def _cautions(record: RunRecord) -> list[str]:
    """Warnings, and how many held-out cells lie outside the bounds."""
    details = None if record.result.scores is None else record.result.scores.details
    outside = outside_in_words(details, record.request.target)
    return [
        *record.result.warnings,
        *(f"{name.capitalize()}: {said} (unreleased)." for name, said in outside),
    ]


def _budget(record: RunRecord) -> Section:
    """What each part would cost by itself. Together the parts cost less than their sum."""
    request, promise = record.request, record.result.guarantee
    event = record.event
    if record.preparation is not None and isinstance(event, events.Composed):
        parts = {"preparation": event.events[0], "training": events.Composed(events=event.events[1:])}
    else:
        parts = {"training": event}
    text = [f"The budget was epsilon {request.epsilon:g} and delta {request.delta:g}."]
    if len(parts) == 1:
        text.append("Nothing had to be found first: training had all of it.")
    else:
        text.append(
            "Each bar is the cost of that part by itself at this delta. "
            "Together they cost less than their sum."
        )
    if request.ledger:
        text.append(f"It was charged to '{request.dataset}' in {request.ledger} before any noise was drawn.")
    charts = (_parts(parts, promise, request.epsilon),) if len(parts) > 1 else ()
    return Section(id="budget", title="Where the budget went", text=tuple(text), charts=charts)


def _parts(parts: Mapping[str, events.Event], promise: Guarantee, budget: float) -> Bars:
    names, amounts = [], []
    for name, part in parts.items():
        try:
            amounts.append(_cost_alone(part, promise.delta, promise.adjacency))
            names.append(name)
        except ReticentError:
            continue
    names.append("all together")
    amounts.append(float(promise.epsilon))
    return Bars(
        id="parts",
        title="Epsilon of each part (bounds)",
        description="; ".join(
            f"{name} {at_most(amount)}" for name, amount in zip(names, amounts, strict=True)
        ),
        unit="epsilon",
        names=tuple(names),
        amounts=tuple(amounts),
        mark=float(budget),
        mark_name="budget",
    )


def _cost_alone(event: events.Event, delta: float, adjacency: Adjacency) -> float:
    """What a part costs by itself, by the rule of the guarantee: samplers take their share of delta."""
    return settle(event, delta, Neighbours(adjacency), arithmetic=TRAINING * delta).cost.upper


def _votes(record: RunRecord) -> list[Section]:
    seen = record.result.unreleased or {}
    if "agreement" not in seen:
        return []
    counts = [int(count) for count in seen["agreement"]]
    edges = [100 * (place + 1) / len(counts) for place in range(len(counts))]
    shares = tuple(count / max(sum(counts), 1) for count in counts)
    sure = sum(count for count, edge in zip(counts, edges, strict=True) if edge > 90) / max(sum(counts), 1)
    return [
        Section(
            id="votes",
            title="How often the teachers agree",
            text=(f"{seen['label'].capitalize()}.",),
            values=(
                estimate(
                    "epsilon for these votes",
                    float(seen["epsilon of the answers with their votes in view"]),
                    note="unreleased: private like the votes, and proved in one direction only",
                ),
                setting("questions", int(seen["questions"])),
                setting("answers", int(seen["answers"])),
            ),
            charts=(
                Chart(
                    id="agreement",
                    title="Public rows by the share of teachers behind the winning class (unreleased)",
                    description=f"On {sure:.0%} of the public rows more than nine teachers in ten agree.",
                    x_label="teachers who agree, %",
                    y_label="share of public rows",
                    lines=(Line(name="rows", x=tuple(edges), y=shares),),
                    style="steps",
                ),
            ),
        )
    ]


def _synthetic(record: RunRecord) -> list[Section]:
    """How synthetic rows compare with real rows that the generator never saw."""
    quality = record.result.quality or {}
    values = []
    for name, fact in _facts(quality):
        if fact["kind"] == "usefulness":
            for one in fact["scores"]:
                said = f"accuracy, {one['classifier']} {name}"
                values.append(estimate(said, one["accuracy"], form=".1%", note="unreleased"))
        elif fact["kind"] == "distances":
            for key, words in (("single_mean", "one column"), ("pair_mean", "two columns")):
                values.append(
                    estimate(f"{name}, {words}", fact[key], form=".3f", note="total variation, unreleased")
                )
        elif fact["kind"] == "membership":
            values.append(
                estimate(
                    f"{name}, AUC", fact["auc"]["value"], form=".3f", note="guessing gives 0.5, unreleased"
                )
            )
    if not values:
        return []
    return [
        Section(
            id="quality",
            title="Quality of the synthetic data",
            text=(f"{quality['label'].capitalize()}.",),
            values=tuple(values),
            charts=_usefulness(quality),
        )
    ]


def _facts(quality: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """What was measured, by name; all but the label."""
    return [(name, fact) for name, fact in quality.items() if isinstance(fact, Mapping) and "kind" in fact]


def _usefulness(quality: Mapping[str, Any]) -> tuple[Bars, ...]:
    """The accuracy of classifiers on real rows, trained on synthetic rows and on real rows."""
    scored = [
        (f"{one['classifier']}, {fact['trained_on']}", float(one["accuracy"]))
        for _, fact in _facts(quality)
        if fact["kind"] == "usefulness"
        for one in fact["scores"]
    ]
    if not scored:
        return ()
    scored.sort()
    return (
        Bars(
            id="usefulness",
            title="Accuracy on real rows, by training data (estimates, unreleased)",
            description="; ".join(f"{name}: {share:.1%}" for name, share in scored),
            unit="accuracy, %",
            names=tuple(name for name, _ in scored),
            amounts=tuple(100 * share for _, share in scored),
            notes=tuple(f"{share:.1%}" for _, share in scored),
        ),
    )
