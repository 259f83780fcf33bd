"""The kinds of attack, and the table and sentences that each is shown as."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from reticent.cli.attack_output import AttackOutput, format_interval
from reticent.core.errors import InvalidArgument

if TYPE_CHECKING:
    from reticent.attacks.battery import Battery
    from reticent.attacks.defences import Defended
    from reticent.attacks.inference.attribute import AttributeReport
    from reticent.attacks.metrics import Estimate
    from reticent.attacks.scores import Scores
    from reticent.runs.attacks.client_rounds import ClientRoundsReport
    from reticent.runs.attacks.extraction import RunExtraction
    from reticent.runs.attacks.inversion import RunInversion
    from reticent.runs.attacks.leakage import RunLeakage
    from reticent.runs.attacks.property import RunProperty

KINDS = ("membership", "attribute", "property", "inversion", "leakage", "updates", "defences", "extraction")

_MOST_CLASSES, _MOST_COLUMNS = 4, 14  # of a table that fits a terminal; the JSON has all


def choose_kinds(
    words: str | None, *, column: str | None, property_: str | None, share: float | None
) -> tuple[tuple[str, ...], list[str] | None]:
    """Returns the kinds of attack that were asked for, and the membership attacks; None for all of these.

    A column or a property asks for its own kind.

    Raises:
        InvalidArgument: a name that is neither a kind nor a membership attack, or a share without a property.
    """
    named, single = _parse_names(words)
    named += ["attribute"] * (column is not None) + ["property"] * (property_ is not None)
    if share is not None and "property" not in named:
        raise InvalidArgument(
            f"--share {share:g} needs a property.", remedy='Add --property "COLUMN = VALUE".'
        )
    return tuple(kind for kind in KINDS if kind in named), single


def _parse_names(words: str | None) -> tuple[list[str], list[str] | None]:
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
            remedy=f"{suggest(wrong, (*KINDS, *ATTACKS))} Kinds are: {', '.join(KINDS)}; all other names "
            "are membership attacks.",
        )
    single = [name for name in dict.fromkeys(names) if name in ATTACKS]
    is_all = "membership" in names or not single
    return [*names, *(["membership"] if single else [])], None if is_all else single


def extraction(found: RunExtraction) -> AttackOutput:
    headings = {"planted": "left", "without privacy, bits": "right", "as the run, bits": "right"}
    rows = [
        (each.text.strip(), f"{each.ordinary.bits:.1f}", f"{each.private.bits:.1f}") for each in found.secrets
    ]
    title = f"Exposure of planted secrets, of {found.secrets[0].private.space_bits:.1f} bits"
    return AttackOutput("extraction", found.to_json(), title, headings, rows, found.in_words, {})


def membership(found: Battery) -> AttackOutput:
    from reticent.attacks.explain import conclude, explain

    scores = {each.name: each.scores for each in found.results}
    return _membership_output({**found.to_json(), "verdict": conclude(found)}, scores, explain(found))


def external_scores(scores: Scores) -> AttackOutput:
    """The scores of an attack that was played elsewhere."""
    from reticent.attacks.explain import describe
    from reticent.attacks.metrics import measure
    from reticent.attacks.strength import is_alarming

    measured = measure(scores)
    attacks = {"scores": {"name": "scores", **measured.to_json()}}
    found = {"attacks": attacks, "strongest": "scores", "is_alarming": is_alarming(attacks)}
    return _membership_output(found, {"scores": scores}, describe(measured))


def _membership_output(
    found: dict[str, Any], scores: dict[str, Scores], sentences: list[str]
) -> AttackOutput:
    from reticent.attacks.metrics import curve

    rows, headings = [], {"attack": "left"}
    for name, one in found["attacks"].items():
        one["roc"] = curve(scores[name])
        for rate in one["tpr_at_fpr"]:
            headings[f"at {rate['false_positive_rate']:.1%}"] = "right"
        shares = [format_interval(rate["true_positive_rate"]) for rate in one["tpr_at_fpr"]]
        rows.append((name, *shares, format_interval(one["auc"])))

    def draw(path: Path) -> None:
        from reticent.report.figures.attacks import save_roc

        save_roc(path, scores, title="Membership attacks")

    title = "Members found at each false-positive rate, and the AUC"
    headings |= {"AUC": "right"}
    return AttackOutput("", found, title, headings, rows, sentences, {"roc.svg": draw})


def attribute(found: AttributeReport) -> AttackOutput:
    rows = [
        (
            one.attack,
            one.side,
            f"{one.accuracy.value:.1%}",
            f"{one.imputation.value:.1%}",
            _format_points(one.excess),
        )
        for one in found.rows
    ]
    headings = {"attack": "left", "on": "left", "accuracy": "right", "without the model": "right"}
    sentences = [
        "Columns depend on each other, so much can be guessed without the model. What counts is the excess "
        "over that, and whether it is larger for members."
    ]
    title = f"Guessing '{found.sensitive}'"
    return AttackOutput(
        "attribute", found.to_json(), title, {**headings, "excess": "right"}, rows, sentences, {}
    )


def _format_points(value: Estimate) -> str:
    return f"{100 * value.value:+.1f} ({100 * value.low:+.1f} to {100 * value.high:+.1f})"


def property_shares(found: RunProperty) -> AttackOutput:
    report = found.report
    rows = [
        (f"right guesses on {report.held_out} unseen models", format_interval(report.accuracy._asdict())),
        ("AUC", format_interval(report.auc._asdict())),
        (f"probability that this run has {report.high:.1%}", f"{found.probability:.1%}"),
    ]
    title = f"Share of rows with '{report.name}': {report.low:.1%} or {report.high:.1%}?"
    headings = {"": "left", "result": "right"}
    return AttackOutput("property", found.to_json(), title, headings, rows, found.in_words, {})


def inversion(found: RunInversion) -> AttackOutput:
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
    title, headings, rows = _representatives_table(found)
    return AttackOutput("inversion", found.to_json(), title, headings, rows, found.in_words, pictures)


def _representatives_table(found: RunInversion) -> tuple[str, dict[str, str], list[tuple[str, ...]]]:
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
        (way, f"{alike.own:.2f}", f"{alike.others:.2f}", format_interval(alike.recognised._asdict()))
        for way, alike in found.alike.items()
    ]
    headings = {"method": "left", "own class": "right", "other classes": "right", "recognised": "right"}
    return "Correlation of representatives with the mean of each class", headings, rows


def leakage(found: RunLeakage) -> AttackOutput:
    headings = {"gradient": "left", "PSNR, dB": "right", "labels": "right"}
    has_cells = any(leak.cells is not None for leak in found.rows)
    rows = [
        (
            leak.name,
            _format_decibels(leak.at.psnr),
            _format_whole_percent(leak.at.label),
            *([] if leak.cells is None else [_format_whole_percent(leak.cells)]),
        )
        for leak in found.rows
    ]
    rows.append(("none (mean record)", _format_decibels(found.baseline), "", *([""] if has_cells else [])))
    pictures = {}
    if found.pictures:

        def draw(path: Path) -> None:
            from reticent.report.figures.reconstructions import save_grid

            save_grid(path, found.pictures, title="Reconstructed from the gradient of one record")

        pictures = {"leakage.png": draw}
    if has_cells:
        headings["cells"] = "right"
    title = f"One record and its class, reconstructed {found.how}"
    return AttackOutput("leakage", found.to_json(), title, headings, rows, found.in_words, pictures)


def updates(found: ClientRoundsReport) -> AttackOutput:
    shown = found.as_table()
    headings = {name: "left" if place == 0 else "right" for place, name in enumerate(shown.headings)}
    return AttackOutput(
        "updates", found.to_json(), shown.title, headings, list(shown.rows), found.in_words, {}
    )


def _format_decibels(value: Estimate) -> str:
    between = " to " if value.low < 0 else "-"
    return f"{value.value:.1f} ({value.low:.1f}{between}{value.high:.1f})"


def _format_whole_percent(value: Estimate) -> str:
    return f"{value.value:.0%} ({100 * value.low:.0f}-{100 * value.high:.0f})"


def defences(rows: tuple[Defended, ...]) -> AttackOutput:
    from reticent.runs.attacks.defences import explain_defences

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
    title = "Accuracy, mean change of an answer, and the AUC of each attack"
    found = {"rows": [row.to_json() for row in rows]}
    headings |= dict.fromkeys(attacks, "right")
    return AttackOutput("defences", found, title, headings, table, explain_defences(rows), {})
