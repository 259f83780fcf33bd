"""What attacks found, and whether the promise survived an audit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from reticent.report.facts.facts import (
    Band,
    Bars,
    Chart,
    Line,
    Rows,
    Section,
    Value,
    bound_from_above,
    bound_from_below,
    estimate,
)
from reticent.report.facts.odds import Claim, most_found


def strongest(attacked: dict[str, Any] | None) -> tuple[str, dict[str, Any]] | None:
    """The attack with the largest AUC."""
    tried: dict[str, dict[str, Any]] = (attacked or {}).get("attacks") or {}
    return max(tried.items(), key=lambda item: item[1]["auc"]["value"]) if tried else None


def audited_bound(audited: dict[str, Any]) -> Value:
    verdict = audited["verdict"]
    return bound_from_below(
        "epsilon found by the audit",
        verdict["bound"],
        note=f"at least; {verdict['confidence']:.4g} confidence",
    )


def not_audited(record: dict[str, Any]) -> list[str]:
    """What a run promises beside the training that an audit looks at, in words; none, where that is all."""
    if record["preparation"] is None:
        return []
    whole = bound_from_above("", record["guarantee"]["epsilon"]).shown  # as in the sentence of the run
    return [
        f"The claim is that of the training. The run promises {whole} in all; preparation took epsilon "
        f"{record['preparation']['epsilon']:.3g} of it, and is not audited."
    ]


def sections(
    record: dict[str, Any],
    attacked: dict[str, Any] | None,
    audited: dict[str, Any] | None,
    known: tuple[Claim, ...],
) -> list[Section]:
    return [_attacks(attacked, known), _audit(record, audited)]


def _attacks(attacked: dict[str, Any] | None, known: tuple[Claim, ...]) -> Section:
    if not attacked or not attacked.get("attacks"):
        return Section(
            id="attacks",
            title="What attacks found",
            text=("No attack was tried. Try some: reticent attack RUN -o RUN/attacks, then report again.",),
        )
    text = [*attacked.get("in_words", ())]
    rows = []
    for name, one in attacked["attacks"].items():
        rates = [_interval(rate["true_positive_rate"]) for rate in one["tpr_at_fpr"]]
        rows.append((name, *rates, _interval(one["auc"]), _interval(one["advantage"])))
    first = next(iter(attacked["attacks"].values()))
    headings = [f"members found at {100 * rate['false_positive_rate']:g}%" for rate in first["tpr_at_fpr"]]
    return Section(
        id="attacks",
        title="What attacks found",
        text=tuple(text),
        charts=tuple(_roc(attacked, known)),
        tables=(
            Rows(
                title="Every attack (estimates, with 95% intervals)",
                headings=("attack", *headings, "AUC", "advantage"),
                rows=tuple(rows),
            ),
        ),
    )


def _roc(attacked: dict[str, Any], known: tuple[Claim, ...]) -> list[Chart]:
    curves = {name: one["roc"] for name, one in attacked["attacks"].items() if "roc" in one}
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
        Line(name="proved limit", x=grid, y=tuple(most_found(known, x) for x in grid), is_dashed=True)
    )
    band = next(iter(curves.values())).get("no_signal")
    bands = ()
    if band:
        x = tuple(next(iter(curves.values()))["false_positive_rate"])
        low = tuple(max(value, 1e-4) for value in band["low"])
        bands = (Band(name="no signal (95%)", x=x, low=low, high=tuple(band["high"])),)
    name, best = strongest(attacked) or ("", {})
    found = best["tpr_at_fpr"][0]
    return [
        Chart(
            id="roc",
            title="Members found against outsiders accused in vain, on logarithmic axes",
            description=f"The attack with the largest AUC, {name}, finds "
            f"{found['true_positive_rate']['value']:.2%} of "
            f"the members at a false-positive rate of {100 * found['false_positive_rate']:g}%; the limit "
            f"that is proved there is {most_found(known, found['false_positive_rate']):.2%}.",
            x_label="false-positive rate",
            y_label="true-positive rate",
            lines=tuple(lines),
            bands=bands,
            is_log_x=True,
            is_log_y=True,
            y_range=(max(left, 1e-4), 1.0),
        )
    ]


def _audit(record: dict[str, Any], audited: dict[str, Any] | None) -> Section:
    if not audited:
        return Section(
            id="audit",
            title="Whether the promise survived",
            text=("Nobody tried to contradict it: reticent audit RUN -o RUN/audit.json, then report again.",),
        )
    verdict = audited["verdict"]
    names, amounts = (
        ["claimed (upper bound)", "seen at least (lower bound)"],
        [verdict["claim"], verdict["bound"]],
    )
    for name, key in (
        ("with the right noise, about", "expected"),
        ("without any noise, at least", "power"),
        ("ceiling of this audit", "ceiling"),
    ):
        if verdict.get(key) is not None and math.isfinite(verdict[key]):
            names.append(name)
            amounts.append(verdict[key])
    rows = [
        (each["threat"], each["kind"], f"{each['epsilon']:.2f}", f"{each['canaries']:,}", each["method"])
        for each in audited.get("evidence", ())
    ]
    return Section(
        id="audit",
        title="Whether the promise survived",
        text=(verdict["sentence"], *not_audited(record)),
        values=(
            audited_bound(audited),
            estimate("ceiling", verdict["ceiling"], form=".3g", note="the most it could show"),
        ),
        charts=(
            Bars(
                id="claim",
                title="The claimed epsilon against what was seen",
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
                Rows(
                    title="Evidence",
                    headings=("who looks", "kind", "epsilon", "canaries", "method"),
                    rows=tuple(rows),
                ),
            )
            if rows
            else ()
        ),
    )


def _interval(value: dict[str, float]) -> str:
    return f"{100 * value['value']:.2f}% ({100 * value['low']:.2f} to {100 * value['high']:.2f})"
