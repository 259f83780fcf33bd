"""What attacks found, and whether the promise survived an audit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from reticent.accounting.rounding import at_least, at_most
from reticent.attacks.strength import strongest_attack
from reticent.report.facts.facts import (
    Band,
    Bars,
    Chart,
    Line,
    RowsTable,
    Section,
    Value,
    bound_from_above,
    bound_from_below,
    estimate,
)
from reticent.report.facts.odds import ClaimPoint, largest_true_positive_rate
from reticent.runs.record import RunRecord

_MOST_CURVES = 5  # beside the proved limit


def played_attacks(attacked: dict[str, Any] | None) -> dict[str, dict[str, Any]]:
    """The membership attacks of an attack.json by name; none where there is no such file."""
    return (attacked or {}).get("attacks") or {}


def audit_bound(audited: dict[str, Any]) -> Value:
    verdict = audited["verdict"]
    return bound_from_below(
        "epsilon shown by the audit",
        verdict["bound"],
        note=f"at least; {verdict['confidence']:.4g} confidence",
    )


def unaudited_part(record: RunRecord) -> list[str]:
    """Says which part of a run's promise an audit of its training does not test; empty if it tests all."""
    options = record.request.options
    found = []
    if options.get("features_digest") or options.get("start_digest"):
        found.append(
            "Canaries joined behind the public model: what is trained on top of it was audited, and not "
            "that it never saw a private record."
        )
    if record.preparation is not None:
        whole = bound_from_above("", record.result.guarantee.epsilon).shown  # as in the sentence of the run
        found.append(
            f"This is the claim of the training. The run promises epsilon {whole} in total; preparation took "
            f"epsilon {at_most(record.preparation.epsilon)} of it, and was not audited."
        )
    return found


def sections(
    record: RunRecord,
    attacked: dict[str, Any] | None,
    audited: dict[str, Any] | None,
    known: tuple[ClaimPoint, ...],
) -> list[Section]:
    return [_attacks(attacked, known), _audit(record, audited)]


def _attacks(attacked: dict[str, Any] | None, known: tuple[ClaimPoint, ...]) -> Section:
    if not attacked or not attacked.get("attacks"):
        return Section(
            id="attacks",
            title="What attacks found",
            text=("No attack was tried. Run reticent attack RUN, then report again.",),
        )
    text = [*attacked.get("in_words", ())]
    rows = []
    for name, one in attacked["attacks"].items():
        rates = [_format_interval(rate["true_positive_rate"]) for rate in one["tpr_at_fpr"]]
        rows.append((name, *rates, _format_interval(one["auc"]), _format_interval(one["advantage"])))
    first = next(iter(attacked["attacks"].values()))
    headings = [
        f"members found at {100 * rate['false_positive_rate']:g}% FPR" for rate in first["tpr_at_fpr"]
    ]
    return Section(
        id="attacks",
        title="What attacks found",
        text=tuple(text),
        charts=tuple(_roc(attacked, known)),
        tables=(
            RowsTable(
                title="Every attack (estimates, with 95% intervals)",
                headings=("attack", *headings, "AUC", "advantage"),
                rows=tuple(rows),
            ),
        ),
    )


def strongest_value(attacks: Mapping[str, Mapping[str, Any]]) -> Value | None:
    """What the strongest attack found, by the rate that makes it the strongest; None without attacks.

    One rule for every page: `strength.strongest_attack` compares the members found at the smallest
    false-positive rate that can be measured, so that share is what is shown. An AUC would say something else
    of the same attack, and may lie below 50% by chance. It is shown where no rate can be measured.
    """
    name = strongest_attack(attacks)
    if name is None:
        return None
    rate = _decisive_rate(attacks[name])
    if rate is None:
        auc = attacks[name]["auc"]
        said = f"'{name}', 95% interval {_format_ends(auc)}; guessing gives 50%"
        return estimate("AUC of the strongest attack", auc["value"], form=".1%", note=said)
    found, allowed = rate["true_positive_rate"], rate["false_positive_rate"]
    return estimate(
        "members found by the strongest attack",
        found["value"],
        form=".2%",
        note=f"'{name}' at a false-positive rate of {100 * allowed:g}%, 95% interval {_format_ends(found)}; "
        f"guessing finds {100 * allowed:g}%",
    )


def _decisive_rate(attack: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The smallest false-positive rate that can be measured, at which attacks are compared."""
    return next((rate for rate in attack["tpr_at_fpr"] if rate["is_resolved"]), None)


def _strongest_in_words(attacks: Mapping[str, Mapping[str, Any]], known: Sequence[ClaimPoint]) -> str:
    """What the strongest attack found beside the proved limit, and what to make of a rate above it."""
    name = strongest_attack(attacks) or ""
    rate = _decisive_rate(attacks[name]) or attacks[name]["tpr_at_fpr"][0]
    found, allowed = rate["true_positive_rate"], rate["false_positive_rate"]
    limit = largest_true_positive_rate(known, allowed)
    said = (
        f"The strongest attack, {name}, finds {found['value']:.2%} of the members (95% interval "
        f"{_format_ends(found)}) at a false-positive rate of {100 * allowed:g}%. The proved limit there is "
        f"{bound_from_above('', 100 * limit, digits=3).shown}%."
    )
    if found["value"] <= limit:
        return said
    if found["low"] <= limit:
        return f"{said} It lies inside the interval: what exceeds it is within the error of measurement."
    return (
        f"{said} The whole interval lies above it. With {len(attacks)} attacks tried, chance may explain "
        "that: an audit can tell (reticent audit)."
    )


def _format_ends(value: Mapping[str, float]) -> str:
    return f"{100 * value['low']:.2f}% to {100 * value['high']:.2f}%"


def trade_off(attacked: dict[str, Any] | None, known: tuple[ClaimPoint, ...]) -> tuple[Chart, ...]:
    """How many members can be found for how many false alarms, and below it what the best attack found."""
    grid = tuple(float(x) for x in np.linspace(0, 1, 101))
    limit = [largest_true_positive_rate(known, x) for x in grid]
    lines = [Line(name="nobody can do better", x=_percent(grid), y=_percent(limit))]
    attacks = played_attacks(attacked)
    name = strongest_attack(attacks)
    curve = None if name is None else attacks[name].get("roc")
    doubt = ""
    if curve:
        x, y = (_percent(curve[kind]) for kind in ("false_positive_rate", "true_positive_rate"))
        lines.append(Line(name=f"the strongest attack, {name}", x=x, y=y))
        proved = [100 * largest_true_positive_rate(known, at / 100) for at in x]
        if any(found > most for found, most in zip(y, proved, strict=True)):
            doubt = (
                " The curve of the attack is an estimate. Where it lies above the proved one, chance may "
                "explain that: an audit can tell (reticent audit)."
            )
    lines.append(Line(name="guessing", x=(0.0, 100.0), y=(0.0, 100.0), is_dashed=True))
    found = bound_from_above("", 100 * largest_true_positive_rate(known, 0.1), digits=3).shown
    return (
        Chart(
            id="tradeoff",
            title="Members found, for how many false alarms",
            description=f"An attack that accuses 10% of the outsiders finds at most {found}% of the members. "
            f"Guessing finds 10%.{doubt}",
            x_label="outsiders who are accused (false-positive rate), %",
            y_label="members who are found, %",
            lines=tuple(lines),
            y_range=(0.0, 100.0),
        ),
    )


def _percent(shares: Iterable[float]) -> tuple[float, ...]:
    return tuple(100 * share for share in shares)


def _few(attacks: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The attacks whose curves are drawn: as many as can be told apart, the largest areas first."""
    drawn = [name for name, one in attacks.items() if "roc" in one]
    first = strongest_attack(attacks)
    return sorted(drawn, key=lambda name: (name != first, -attacks[name]["auc"]["value"]))[:_MOST_CURVES]


def _roc(attacked: dict[str, Any], known: tuple[ClaimPoint, ...]) -> list[Chart]:
    curves = {name: attacked["attacks"][name]["roc"] for name in _few(attacked["attacks"])}
    if not curves:
        return []
    lines = [
        Line(
            name=name,
            x=tuple(curve["false_positive_rate"]),
            y=tuple(max(value, 1e-4) for value in curve["true_positive_rate"]),
        )
        for name, curve in curves.items()
    ]
    left = min(line.x[0] for line in lines)
    grid = tuple(float(x) for x in np.geomspace(left, 1, 60))
    lines.append(
        Line(
            name="proved limit",
            x=grid,
            y=tuple(largest_true_positive_rate(known, x) for x in grid),
            is_dashed=True,
        )
    )
    band = next(iter(curves.values())).get("no_signal")
    bands = ()
    if band:
        x = tuple(next(iter(curves.values()))["false_positive_rate"])
        low = tuple(max(value, 1e-4) for value in band["low"])
        bands = (Band(name="no signal (95%)", x=x, low=low, high=tuple(band["high"])),)
    return [
        Chart(
            id="roc",
            title="The same on logarithmic axes, where few are accused",
            description=_strongest_in_words(attacked["attacks"], known),
            x_label="false-positive rate",
            y_label="true-positive rate",
            lines=tuple(lines),
            bands=bands,
            is_log_x=True,
            is_log_y=True,
            y_range=(max(left, 1e-4), 1.0),
        )
    ]


def _audit(record: RunRecord, audited: dict[str, Any] | None) -> Section:
    if not audited:
        return Section(
            id="audit",
            title="Whether the promise survived an audit",
            text=("It was not audited. Run reticent audit RUN, then report again.",),
        )
    verdict = audited["verdict"]
    names, amounts = (
        ["claimed (upper bound)", "shown by the audit (lower bound)"],
        [verdict["claim"], verdict["bound"]],
    )
    for name, key in (
        ("expected with the right noise", "expected"),
        ("expected without any noise", "power"),
        ("most that this audit can show", "ceiling"),
    ):
        if verdict.get(key) is not None and math.isfinite(verdict[key]):
            names.append(name)
            amounts.append(verdict[key])
    rows = [
        (each["threat"], each["kind"], at_least(each["epsilon"]), f"{each['canaries']:,}", each["method"])
        for each in audited.get("evidence", ())
    ]
    return Section(
        id="audit",
        title="Whether the promise survived an audit",
        text=(verdict["sentence"], *unaudited_part(record)),
        values=(
            audit_bound(audited),
            estimate("ceiling", verdict["ceiling"], form=".3g", note="the most that this audit can show"),
        ),
        charts=(
            Bars(
                id="claim",
                title="The claimed epsilon against what the audit shows",
                description="; ".join(
                    f"{name}: {amount:.3g}" for name, amount in zip(names, amounts, strict=True)
                ),
                unit="epsilon",
                names=tuple(names),
                amounts=tuple(float(amount) for amount in amounts),
                mark=float(verdict["claim"]),
                mark_name="claimed",
            ),
        ),
        tables=(
            (
                RowsTable(
                    title="Evidence",
                    headings=("threat", "kind", "epsilon", "canaries", "method"),
                    rows=tuple(rows),
                ),
            )
            if rows
            else ()
        ),
    )


def _format_interval(value: dict[str, float]) -> str:
    return f"{100 * value['value']:.2f}% ({100 * value['low']:.2f} to {100 * value['high']:.2f})"
