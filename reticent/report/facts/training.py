"""How a run went: what it learned for what it spent, and where the budget went."""

from __future__ import annotations

from typing import Any

from reticent.accounting.epsilon import tight
from reticent.core.errors import ReticentError
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.report.facts.facts import Bars, Chart, Line, Section, estimate, setting
from reticent.runs.folder import rows_in_words


def sections(record: dict[str, Any]) -> list[Section]:
    return [_training(record), _budget(record), *_votes(record), *_synthetic(record)]


def _training(record: dict[str, Any]) -> Section:
    moments = [moment for moment in record["history"]["moments"] if moment["epsilon"] is not None]
    metrics = record["metrics"]
    values = [
        estimate(name, value, note=metrics["label"])
        for name, value in metrics.items()
        if isinstance(value, float)
    ]
    values.append(setting("rows trained on", rows_in_words(record)))
    values.append(setting("seconds", round(float(record["seconds"]), 1)))
    charts = []
    if len(moments) > 2:
        epochs = tuple(float(moment["epoch"]) for moment in moments)
        spent = tuple(float(moment["epsilon"]) for moment in moments)
        charts.append(
            Chart(
                id="spent",
                title="Epsilon of a run meant to end there",
                description=f"Epsilon grows from {spent[0]:.3g} after the first epochs to {spent[-1]:.3g} "
                f"after {epochs[-1]:.3g}, whatever was released beside training included. It is the cost of "
                "stopping at a step that was fixed in advance.",
                x_label="epochs",
                y_label="epsilon (bound)",
                lines=(Line(name="epsilon", x=epochs, y=spent),),
            )
        )
        right = [float(moment["held_out"].get("accuracy", "nan")) for moment in moments]
        if all(value == value for value in right):
            charts.append(
                Chart(
                    id="learned",
                    title="Accuracy over epsilon (unreleased)",
                    description=f"Accuracy on held-out rows goes from {right[0]:.1%} at {spent[0]:.3g} "
                    f"to {right[-1]:.1%} at {spent[-1]:.3g}.",
                    x_label="epsilon",
                    y_label="accuracy on held-out rows (estimate, unreleased)",
                    lines=(Line(name="accuracy", x=spent, y=tuple(right)),),
                )
            )
    return Section(
        id="training",
        title="What was learned, and what it cost",
        text=(f"{record['recipe']['method']}: {record['recipe']['in_words']}.",),
        values=tuple(values),
        charts=tuple(charts),
    )


def _budget(record: dict[str, Any]) -> Section:
    """What each part would cost by itself: parts add up to less, since noise adds up with luck."""
    order, promise = record["order"], record["guarantee"]
    event = events.from_json(record["event"])
    adjacency = Adjacency(promise["adjacency"])
    if record["preparation"] is not None and isinstance(event, events.Composed):
        parts = {"preparation": event.events[0], "training": events.Composed(events=event.events[1:])}
    else:
        parts = {"training": event}
    names, amounts = [], []
    for name, part in parts.items():
        try:
            amounts.append(tight(part, promise["delta"], adjacency).upper)
            names.append(name)
        except ReticentError:
            continue
    names.append("all together")
    amounts.append(float(promise["epsilon"]))
    text = [
        f"Allowed were epsilon {order['epsilon']:g} and delta {order['delta']:g}.",
        "Each bar is what that part costs by itself at that delta. Together they cost less than their sum.",
    ]
    if order["ledger"]:
        text.append(
            f"It was charged to '{order['dataset']}' in {order['ledger']} before any noise was drawn."
        )
    return Section(
        id="budget",
        title="Where the budget went",
        text=tuple(text),
        charts=(
            Bars(
                id="parts",
                title="Epsilon of each part (bounds)",
                description="; ".join(
                    f"{name} {amount:.3g}" for name, amount in zip(names, amounts, strict=True)
                ),
                unit="epsilon",
                names=tuple(names),
                amounts=tuple(amounts),
                mark=float(order["epsilon"]),
                mark_name="allowed",
            ),
        ),
    )


def _votes(record: dict[str, Any]) -> list[Section]:
    seen = record.get("unreleased") or {}
    if "agreement" not in seen:
        return []
    counts = [int(count) for count in seen["agreement"]]
    edges = [100 * (place + 1) / len(counts) for place in range(len(counts))]
    shares = tuple(count / max(sum(counts), 1) for count in counts)
    sure = sum(count for count, edge in zip(counts, edges, strict=True) if edge > 90) / max(sum(counts), 1)
    return [
        Section(
            id="votes",
            title="How far the teachers agree",
            text=(f"{seen['label'].capitalize()}.",),
            values=(
                estimate(
                    "epsilon with the votes in view",
                    float(seen["epsilon of the answers with their votes in view"]),
                    note="unreleased: private like the votes, and about one direction only",
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


def _synthetic(record: dict[str, Any]) -> list[Section]:
    """What was found when synthetic rows were held against rows that were kept away."""
    quality = record.get("quality") or {}
    values = []
    for name, value in quality.items():
        if name.startswith("learned"):
            for one in value:
                said = f"accuracy, {one['classifier']} {name}"
                values.append(estimate(said, one["accuracy"], form=".1%", note="unreleased"))
        elif name.startswith("distances"):
            for key, words in (("single_mean", "one column"), ("pair_mean", "two columns")):
                values.append(
                    estimate(f"{name}, {words}", value[key], form=".3f", note="total variation, unreleased")
                )
        elif name.startswith("membership"):
            values.append(
                estimate(f"{name}, AUC", value["auc"]["value"], form=".3f", note="a coin has 0.5, unreleased")
            )
    if not values:
        return []
    return [
        Section(
            id="quality",
            title="How good the synthetic data are",
            text=(f"{quality['label'].capitalize()}.",),
            values=tuple(values),
            charts=_usefulness(quality),
        )
    ]


def _usefulness(quality: dict[str, Any]) -> tuple[Bars, ...]:
    """What classifiers reach on real rows, learned from synthetic ones and from real ones."""
    scored = [
        (f"{one['classifier']}, {'synthetic' if 'synthetic' in name else 'real'}", float(one["accuracy"]))
        for name, value in quality.items()
        if name.startswith("learned")
        for one in value
    ]
    if not scored:
        return ()
    scored.sort()
    return (
        Bars(
            id="usefulness",
            title="Accuracy on real rows, by what was learned from (estimates, unreleased)",
            description="; ".join(f"{name}: {share:.1%}" for name, share in scored),
            unit="accuracy, %",
            names=tuple(name for name, _ in scored),
            amounts=tuple(100 * share for _, share in scored),
            notes=tuple(f"{share:.1%}" for _, share in scored),
        ),
    )
