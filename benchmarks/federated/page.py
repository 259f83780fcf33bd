"""Tables of results, and the page that they stand in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.federated.clients import said

Row = dict[str, Any]

PUBLISHED = {  # Flower's baseline `flanders`: without attack, under Gauss, ALIE, OPT, min-max
    ("mnist", "mean"): (".86", ".20", ".17", ".67", ".45"),
    ("mnist", "median"): ("", ".80", ".66", ".79", ".59"),
    ("mnist", "trimmed_mean"): ("", ".86", ".52", ".73", ".61"),
    ("mnist", "multi_krum"): ("", ".78", ".77", ".81", ".82"),
    ("mnist", "bulyan"): ("", ".82", ".84", ".84", ".83"),
    ("fashion_mnist", "mean"): (".68", ".25", ".17", ".57", ".11"),
    ("fashion_mnist", "median"): ("", ".66", ".65", ".67", ".60"),
    ("fashion_mnist", "trimmed_mean"): ("", ".69", ".54", ".62", ".58"),
    ("fashion_mnist", "multi_krum"): ("", ".74", ".65", ".70", ".67"),
    ("fashion_mnist", "bulyan"): ("", ".71", ".72", ".69", ".76"),
}
_PLACE = {"none": 0, "Gauss": 1, "ALIE as published": 2, "OPT": 3, "min-max": 4}


def table_of(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(line)} |" for line in (heads, ["---"] * len(heads), *rows)]
    return "\n".join(lines)


def _unique(rows: Sequence[Row], name: str) -> list[Any]:
    return list(dict.fromkeys(row[name] for row in rows))


def privacy(rows: Sequence[Row]) -> str:
    lines = []
    epsilons = _unique(rows, "epsilon")
    for key in dict.fromkeys((row["clients"], row["dirichlet"], row["name"]) for row in rows):
        same = {r["epsilon"]: r for r in rows if (r["clients"], r["dirichlet"], r["name"]) == key}
        cells = [said(same[e]["accuracy"], percent=True) if e in same else "" for e in epsilons]
        lines.append([f"{key[0]:,}", f"{key[1]:g}", key[2], *cells])
    heads = [e if isinstance(e, str) else f"epsilon {e:g}" for e in epsilons]
    return table_of(
        ["clients", "Dirichlet", "rounds", *(h.replace("none", "no noise") for h in heads)], lines
    )


def speech(rows: Sequence[Row]) -> str:
    lines = [[f"{row['epsilon']}", said(row["accuracy"])] for row in rows]
    return table_of(["epsilon", "bits per character"], lines)


def rules(rows: Sequence[Row]) -> str:
    tables = []
    attacks = _unique(rows, "attack")
    for dataset in _unique(rows, "dataset"):
        lines = []
        for rule in _unique(rows, "rule"):
            cells = []
            for attack in attacks:
                found = [r for r in rows if (r["dataset"], r["rule"], r["attack"]) == (dataset, rule, attack)]
                known = PUBLISHED.get((dataset, rule), ("",) * 5)
                other = known[_PLACE[attack]] if attack in _PLACE else ""
                cell = said(found[0]["accuracy"]).replace("0.", ".") if found else ""
                cells.append(f"{cell} ({other})" if other else cell)
            lines.append([rule, *cells])
        tables.append(
            f"{dataset}, published accuracies in brackets:\n\n{table_of(['rule', *attacks], lines)}"
        )
    return "\n\n".join(tables)


def backdoor(rows: Sequence[Row]) -> str:
    lines = []
    for row in rows:
        shares = (said(row[name], percent=True) for name in ("accuracy", "backdoor", "after honest rounds"))
        holds = f"{mean(row['rounds it holds']):.0f} of {row['honest']}"
        lines.append([row["kind"], row["setting"], *shares, holds])
    heads = ["clean accuracy", "backdoor", "backdoor after honest rounds", "rounds above 50%"]
    return table_of(["backdoor on", "", *heads], lines)


def inference(rows: Sequence[Row]) -> str:
    views = _unique(rows, "view")
    lines = []
    for attack in _unique(rows, "attack"):
        cells = {row["view"]: row["value"] for row in rows if row["attack"] == attack}
        lines.append([attack, *(said(cells[view]) if view in cells else "" for view in views)])
    return table_of(["attack", *views], lines)


def speed(rows: Sequence[Row]) -> str:
    names = [name for name in ("one device", "all devices", "loop") if name in rows[0]["seconds"]]
    lines = [
        [row["setting"], *(f"{1000 * row['seconds'][name]:.1f}" for name in names), f"{row['times']:.1f}"]
        for row in rows
    ]
    heads = [f"{rows[0]['devices']} devices" if name == "all devices" else name for name in names]
    return table_of(["milliseconds per round", *heads, "times as fast as the loop"], lines)


def secure(rows: Sequence[Row]) -> str:
    lines = [
        [
            f"{row['clients']}",
            f"{row['numbers']:,}",
            f"{row['vanish']}",
            "yes" if row["is exact"] else "no",
            f"{row['seconds']:.1f}",
        ]
        for row in rows
    ]
    return table_of(
        ["clients", "numbers", "vanish", "exact", "processor seconds, all clients and server"], lines
    )


TABLES: dict[str, Callable[[Sequence[Row]], str]] = {
    "privacy": privacy,
    "speech": speech,
    "rules": rules,
    "backdoor": backdoor,
    "inference": inference,
    "speed": speed,
    "secure": secure,
}


def write_tables(page: Path, found: Sequence[Row]) -> None:
    """Puts each table between its marks: `<!-- table: NAME -->` and `<!-- end -->`."""
    text = page.read_text(encoding="utf-8")
    for name, table in TABLES.items():
        rows = [row for row in found if row["part"] == name]
        start, end = f"<!-- table: {name} -->\n", "<!-- end -->"
        if rows and start in text:
            before, _, rest = text.partition(start)
            _, _, after = rest.partition(end)
            text = f"{before}{start}\n{table(rows)}\n\n{end}{after}"
    page.write_text(text, encoding="utf-8")
