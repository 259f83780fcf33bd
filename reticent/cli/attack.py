"""`reticent attack`: what a model gives away about who was in its training set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reticent.cli import output
from reticent.core.errors import DataError, InvalidArgument

if TYPE_CHECKING:
    from reticent.attacks.attribute import AttributeReport
    from reticent.attacks.battery import Battery
    from reticent.attacks.files import Predictor
    from reticent.attacks.metrics import Estimate
    from reticent.attacks.scores import Scores
    from reticent.runs.again import Again
    from reticent.runs.onlooker import Onlooker

EPILOG = "Example:  reticent attack runs/patients --shadows 16 -o attacks/patients"


def run(
    folder: Annotated[
        Path | None, typer.Argument(help="A run: what train wrote.", show_default=False)
    ] = None,
    attacks: Annotated[
        str | None, typer.Option(help="Some of them, with commas between.", show_default="all")
    ] = None,
    shadows: Annotated[int, typer.Option(help="Models trained like the run, to compare with.")] = 16,
    column: Annotated[
        str | None,
        typer.Option(help="Also guess this category from a record's other columns.", show_default=False),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Train no more shadow models after so long.", show_default=False)
    ] = None,
    members: Annotated[
        Path | None, typer.Option(help="Of any model: a .npz file of its members.", show_default=False)
    ] = None,
    outsiders: Annotated[
        Path | None, typer.Option(help="And one of records it never saw.", show_default=False)
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="module:function, from features to probabilities.", show_default=False),
    ] = None,
    scores: Annotated[
        Path | None, typer.Option(help="Ready scores: a CSV of score,is_member.", show_default=False)
    ] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Unpickle objects in the files: runs code.")] = False,
    write: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="A folder for the numbers and pictures.", show_default=False),
    ] = None,
    as_json: output.AsJson = False,
) -> None:
    """Attack a model, to see who was in its training set.

    The run's own data are read again, so this is for whoever holds them; what
    comes out is an estimate without noise and not covered by the guarantee.
    Outputs of any other framework are attacked from files.
    """
    given = [folder is not None, members is not None or outsiders is not None, scores is not None]
    if sum(given) != 1:
        raise InvalidArgument(
            "Attack one thing: a run, a pair of files, or ready scores.",
            remedy="Pass a RUN folder, or --members with --outsiders, or --scores.",
        )
    if write is not None and write.exists() and (not write.is_dir() or any(write.iterdir())):
        raise DataError(f"{write} exists already.", remedy="Choose another folder.")
    if scores is not None:
        _ready(scores, write, as_json=as_json)
        return
    if folder is not None:
        again = _reopened(folder)
        found = _on_run(again, attacks, shadows, minutes)
    else:
        again = None
        found = _on_files(members, outsiders, model, trust=trust)
    guessed = None if again is None or column is None else _guessed(again, column)
    known = found.as_json() if guessed is None else {**found.as_json(), "attribute": guessed.as_json()}
    _tell(known, {each.name: each.scores for each in found.results}, write, found, as_json=as_json)
    if guessed is not None and not as_json:
        _print_guessed(guessed)


def _reopened(folder: Path) -> Again:
    from reticent.runs.again import reopened

    return reopened(folder, onlooker=_onlooker())


def _onlooker() -> Onlooker:
    from reticent.runs.onlooker import Onlooker

    return Onlooker(say=output.note, warn=output.warn, watch=output.watch)


def _on_run(again: Again, attacks: str | None, shadows: int, minutes: float | None) -> Battery:
    from reticent.runs.attacking import attack

    names = [name.strip() for name in attacks.split(",")] if attacks else None
    return attack(again, shadows=shadows, minutes=minutes, attacks=names, onlooker=_onlooker())


def _guessed(again: Again, column: str) -> AttributeReport:
    from reticent.runs.attacking import infer

    return infer(again, column)


def _print_guessed(found: AttributeReport) -> None:
    rows = [
        (one.attack, one.side, f"{one.accuracy.value:.1%}", f"{one.imputation.value:.1%}", _share(one.excess))
        for one in found.rows
    ]
    headings = {"attack": "left", "on": "left", "right": "right", "without the model": "right"}
    print()
    output.print_table(f"Guessing '{found.sensitive}'", {**headings, "excess": "right"}, rows)
    output.print_text(
        "Columns depend on each other, so much can be guessed without the model: what counts is the excess, "
        "and whether it is larger for members."
    )


def _share(value: Estimate) -> str:
    return f"{100 * value.value:+.1f} ({100 * value.low:+.1f} to {100 * value.high:+.1f})"


def _on_files(members: Path | None, outsiders: Path | None, model: str | None, *, trust: bool) -> Battery:
    from reticent.attacks.battery import run_without_shadows
    from reticent.attacks.files import read_outputs

    if members is None or outsiders is None:
        raise InvalidArgument(
            "An attack needs members and outsiders.", remedy="Pass both --members and --outsiders."
        )
    predictor = None if model is None else _function(model)
    inside = read_outputs(members, name="members", predictor=predictor, trust=trust)
    outside = read_outputs(outsiders, name="outsiders", predictor=predictor, trust=trust)
    return run_without_shadows(inside, outside)


def _function(words: str) -> Predictor:
    """The function of a `module:function`; importing the module is what whoever names it asks for."""
    import importlib
    import sys

    module, _, name = words.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidArgument(
            f"There is no function {words!r}: {error}.",
            remedy="Write module:function, found from this folder.",
        ) from error
    finally:
        sys.path.pop(0)


def _ready(path: Path, write: Path | None, *, as_json: bool) -> None:
    from reticent.attacks.files import read_scores
    from reticent.attacks.metrics import measure

    scores = read_scores(path)
    found = {"attacks": {"scores": {"name": "scores", **measure(scores).as_json()}}}
    _tell(found, {"scores": scores}, write, None, as_json=as_json)


def _tell(
    found: dict[str, Any],
    scores: dict[str, Scores],
    write: Path | None,
    all_of: Battery | None,
    *,
    as_json: bool,
) -> None:
    from reticent.attacks.words import explained, in_words

    measured = None if all_of else _measured(scores)
    words = explained(all_of) if all_of else in_words(measured) if measured else []
    if write is not None:
        _write(write, {**found, "in_words": words}, scores)
        output.note(f"Wrote attack.json and roc.svg to {write}.")
    if as_json:
        output.print_json({**found, "in_words": words})
        return
    _print_table(found["attacks"])
    print()
    for line in words:
        output.print_text(line)


def _print_table(attacks: dict[str, dict[str, Any]]) -> None:
    rows, headings = [], {"attack": "left"}
    for name, one in attacks.items():
        for rate in one["tpr_at_fpr"]:
            headings[f"at {rate['false_positive_rate']:.1%}"] = "right"
        found = [_interval(rate["true_positive_rate"]) for rate in one["tpr_at_fpr"]]
        rows.append((name, *found, _interval(one["auc"])))
    title = "Members found while this share of outsiders is accused in vain"
    output.print_table(title, {**headings, "AUC": "right"}, rows)


def _measured(scores: dict[str, Scores]):
    from reticent.attacks.metrics import measure

    return measure(next(iter(scores.values())))


def _interval(value: dict[str, float]) -> str:
    return f"{100 * value['value']:.1f}% ({100 * value['low']:.1f}-{100 * value['high']:.1f})"


def _write(folder: Path, found: dict[str, Any], scores: dict[str, Scores]) -> None:
    from reticent.report.attack_figures import save_roc
    from reticent.training.checkpoint import write_whole

    folder.mkdir(parents=True, exist_ok=True)
    save_roc(folder / "roc.svg", scores, title="Membership attacks")
    write_whole(folder / "attack.json", (json.dumps(found, indent=2) + "\n").encode())
