"""The kinds of attack on a run, each as what it tells."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from reticent.cli.attack_output import Told, interval
from reticent.core.errors import InvalidArgument

if TYPE_CHECKING:
    from reticent.attacks.battery import Battery
    from reticent.attacks.defences import Row
    from reticent.attacks.inference.attribute import AttributeReport
    from reticent.attacks.metrics import Estimate
    from reticent.attacks.scores import Scores
    from reticent.runs.attacks.inversion import InvertedRun
    from reticent.runs.attacks.leakage import LeakOfRun
    from reticent.runs.attacks.property import PropertyOfRun

KINDS = ("membership", "attribute", "property", "inversion", "leakage", "defences", "extraction")

_MOST_CLASSES, _MOST_COLUMNS = 4, 14  # of a table that fits a terminal; the JSON has all


def chosen(
    words: str | None, *, column: str | None, held: str | None, share: float | None
) -> tuple[tuple[str, ...], list[str] | None]:
    """The kinds of attack that were asked for, and the membership attacks; None for all of these.

    A column or a property asks for its own kind.

    Raises:
        InvalidArgument: a name that is neither a kind nor a membership attack, or a share of nothing.
    """
    named, single = _named(words)
    named += ["attribute"] * (column is not None) + ["property"] * (held is not None)
    if share is not None and "property" not in named:
        raise InvalidArgument(
            f"--share {share:g} of what?", remedy='Say which rows are meant: --property "COLUMN = VALUE".'
        )
    return tuple(kind for kind in KINDS if kind in named), single


def _named(words: str | None) -> tuple[list[str], list[str] | None]:
    if words is None:
        return ["membership"], None
    from reticent.attacks.membership.games import ATTACKS
    from reticent.core.errors import suggest

    names = [name.strip() for name in words.split(",") if name.strip()]
    unknown = [name for name in names if name not in (*KINDS, *ATTACKS)]
    if unknown or not names:
        wrong = unknown[0] if unknown else words
        raise InvalidArgument(
            f"There is no attack '{wrong}'.",
            remedy=f"{suggest(wrong, (*KINDS, *ATTACKS))} Kinds are: {', '.join(KINDS)}; the others are "
            "membership attacks.",
        )
    single = [name for name in dict.fromkeys(names) if name in ATTACKS]
    is_all = "membership" in names or not single
    return [*names, *(["membership"] if single else [])], None if is_all else single


def refuse_extraction() -> None:
    raise InvalidArgument(
        "Extraction reads secrets out of a language model, and no run is one: train takes tables and images.",
        remedy="Score planted canaries in Python: `measure_exposure` in reticent.attacks.reconstruction, see "
        "docs/attacks_other.md.",
    )


def membership(found: Battery) -> Told:
    from reticent.attacks.explain import explained

    scores = {each.name: each.scores for each in found.results}
    return _of_scores(found.as_json(), scores, explained(found))


def ready(scores: Scores) -> Told:
    """Scores that somebody else made."""
    from reticent.attacks.explain import in_words
    from reticent.attacks.metrics import measure

    measured = measure(scores)
    found = {"attacks": {"scores": {"name": "scores", **measured.as_json()}}}
    return _of_scores(found, {"scores": scores}, in_words(measured))


def _of_scores(found: dict[str, Any], scores: dict[str, Scores], words: list[str]) -> Told:
    from reticent.attacks.metrics import curve

    rows, headings = [], {"attack": "left"}
    for name, one in found["attacks"].items():
        one["roc"] = curve(scores[name])
        for rate in one["tpr_at_fpr"]:
            headings[f"at {rate['false_positive_rate']:.1%}"] = "right"
        shares = [interval(rate["true_positive_rate"]) for rate in one["tpr_at_fpr"]]
        rows.append((name, *shares, interval(one["auc"])))

    def draw(path: Path) -> None:
        from reticent.report.figures.attacks import save_roc

        save_roc(path, scores, title="Membership attacks")

    title = "Members found while this share of outsiders is accused in vain"
    return Told("", found, title, {**headings, "AUC": "right"}, rows, words, {"roc.svg": draw})


def attribute(found: AttributeReport) -> Told:
    rows = [
        (
            one.attack,
            one.side,
            f"{one.accuracy.value:.1%}",
            f"{one.imputation.value:.1%}",
            _points(one.excess),
        )
        for one in found.rows
    ]
    headings = {"attack": "left", "on": "left", "right": "right", "without the model": "right"}
    words = [
        "Columns depend on each other, so much can be guessed without the model: what counts is the excess, "
        "and whether it is larger for members."
    ]
    title = f"Guessing '{found.sensitive}'"
    return Told("attribute", found.as_json(), title, {**headings, "excess": "right"}, rows, words, {})


def _points(value: Estimate) -> str:
    return f"{100 * value.value:+.1f} ({100 * value.low:+.1f} to {100 * value.high:+.1f})"


def property_of(found: PropertyOfRun) -> Told:
    report = found.report
    rows = [
        (f"{report.held_out} unseen models, guessed right", interval(report.accuracy._asdict())),
        ("AUC", interval(report.auc._asdict())),
        (f"this run: {report.high:.1%} rather than {report.low:.1%}", f"{found.probability:.1%}"),
    ]
    title = f"Rows with '{report.name}': {report.low:.1%} or {report.high:.1%}?"
    headings = {"": "left", "found": "right"}
    return Told("property", found.as_json(), title, headings, rows, found.in_words, {})


def inversion(found: InvertedRun) -> Told:
    pictures = {}
    if found.pictures:

        def draw(path: Path) -> None:
            from reticent.report.figures.reconstructions import save_grid

            lines = {
                name.replace(" of ", "\nof ").replace(" the ", "\nthe "): line
                for name, line in found.pictures.items()
            }
            save_grid(path, lines, title="What each class looks like to the model", captions=found.classes)

        pictures = {"inversion.png": draw}
    title, headings, rows = _representatives(found)
    return Told("inversion", found.as_json(), title, headings, rows, found.in_words, pictures)


def _representatives(found: InvertedRun) -> tuple[str, dict[str, str], list[tuple[str, ...]]]:
    if found.records:
        shown = found.classes[:_MOST_CLASSES]
        columns = list(found.records[shown[0]])
        cells = {column: tuple(found.records[name][column] for name in shown) for column in columns}
        columns.sort(key=lambda column: len(set(cells[column])) == 1)  # those that differ come first
        rows = [(column, *cells[column]) for column in columns[:_MOST_COLUMNS]]
        return "A typical record of each class", {"column": "left", **dict.fromkeys(shown, "left")}, rows
    if found.strongest:
        rows = [(name, ", ".join(map(str, places))) for name, places in found.strongest.items()]
        return "Features that stand out in each class", {"class": "left", "features": "left"}, rows
    rows = [
        (way, f"{alike.own:.2f}", f"{alike.others:.2f}", interval(alike.recognised._asdict()))
        for way, alike in found.alike.items()
    ]
    headings = {"found": "left", "like its own class": "right", "like others": "right", "recognised": "right"}
    return "Representatives beside the mean of each class (correlation)", headings, rows


def leakage(found: LeakOfRun) -> Told:
    headings = {"its gradient": "left", "similarity, dB": "right", "labels": "right"}
    has_cells = any(leak.cells is not None for leak in found.rows)
    rows = [
        (
            leak.name,
            _decibels(leak.at.psnr),
            _roughly(leak.at.label),
            *([] if leak.cells is None else [_roughly(leak.cells)]),
        )
        for leak in found.rows
    ]
    rows.append(("none: the mean record", _decibels(found.baseline), "", *([""] if has_cells else [])))
    pictures = {}
    if found.pictures:

        def draw(path: Path) -> None:
            from reticent.report.figures.reconstructions import save_grid

            save_grid(path, found.pictures, title="Read off the gradient of one record")

        pictures = {"leakage.png": draw}
    if has_cells:
        headings["cells"] = "right"
    title = f"One record and its class, read {found.how}"
    return Told("leakage", found.as_json(), title, headings, rows, found.in_words, pictures)


def _decibels(value: Estimate) -> str:
    between = " to " if value.low < 0 else "-"
    return f"{value.value:.1f} ({value.low:.1f}{between}{value.high:.1f})"


def _roughly(value: Estimate) -> str:
    return f"{value.value:.0%} ({100 * value.low:.0f}-{100 * value.high:.0f})"


def defences(rows: tuple[Row, ...]) -> Told:
    from reticent.runs.attacks.defences import in_words

    attacks = [result.name for result in rows[0].battery.results]
    headings = {"defence": "left", "train": "right", "test": "right", "change": "right"}
    table = [
        (
            row.name,
            f"{row.battery.accuracies.train:.1%}",
            f"{row.battery.accuracies.test:.1%}",
            f"{row.changed:.2f}",
            *(f"{row.battery[name].measured.auc.value:.3f}" for name in attacks),
        )
        for row in rows
    ]
    title = "Accuracy, change of an answer, and the AUC that each attack has left"
    found = {"rows": [row.as_json() for row in rows]}
    return Told(
        "defences", found, title, {**headings, **dict.fromkeys(attacks, "right")}, table, in_words(rows), {}
    )
