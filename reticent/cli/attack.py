"""`reticent attack`: what a model gives away about its training set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from reticent.cli import attack_tables as tables
from reticent.cli import options, output, paths
from reticent.cli.attack_output import AttackOutput, show_outputs
from reticent.core.errors import InvalidArgument

if TYPE_CHECKING:
    from reticent.attacks.battery import Battery
    from reticent.attacks.predictors import Predict
    from reticent.runs.reopen import Again

EPILOG = "Example:  reticent attack runs/patients --attacks membership --shadows 16 -o attacks/patients"


_FEWEST_SHADOWS = 6  # as the battery of attacks needs them

Attacks = Annotated[
    str | None,
    typer.Option(
        help=f"Kinds, separated by commas: {', '.join(tables.KINDS)}; or single membership attacks.",
        show_default="membership",
    ),
]
Column = Annotated[
    str | None,
    typer.Option(help="Also infer this category from a record's other columns.", show_default=False),
]
Property = Annotated[
    str | None,
    typer.Option("--property", help="Also infer the share of rows with COLUMN = VALUE.", show_default=False),
]
Share = Annotated[
    float | None,
    typer.Option(
        help="The share of rows with the property to tell from the usual share.",
        show_default="halfway between the usual share and 1",
    ),
]
Model = Annotated[
    str | None, typer.Option(help="A module:function from features to probabilities.", show_default=False)
]


class AttackRequest(NamedTuple):
    """What is asked about a run.

    Args:
        kinds: of attack.
        single: membership attacks; None for all of them.
    """

    kinds: tuple[str, ...]
    single: list[str] | None
    column: str | None
    property_: str | None
    share: float | None
    shadows: int
    minutes: float | None


def run(
    folder: options.OptionalRunFolder = None,
    attacks: Attacks = None,
    shadows: Annotated[int, typer.Option(help="The number of shadow models to train.")] = 16,
    column: Column = None,
    property_: Property = None,
    share: Share = None,
    minutes: Annotated[
        float | None, typer.Option(help="Stop training shadow models after this time.", show_default=False)
    ] = None,
    members: Annotated[
        Path | None,
        typer.Option(help="A .npz file with any model's outputs on its members.", show_default=False),
    ] = None,
    outsiders: Annotated[
        Path | None,
        typer.Option(help="A .npz file with its outputs on records it never saw.", show_default=False),
    ] = None,
    model: Model = None,
    scores: Annotated[
        Path | None,
        typer.Option(help="A CSV file of finished scores: score,is_member.", show_default=False),
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Unpickle objects in the files, which runs code in them.")
    ] = False,
    data: options.MovedData = None,
    write: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="A new folder for the numbers and pictures.",
            show_default="private/attacks in the run's folder",
        ),
    ] = None,
    as_json: output.AsJson = False,
) -> None:
    """Attack a model, to see what it gives away about whom.

    The run's own data are read again, so this is for whoever holds them. The
    results are estimates without noise: the guarantee does not cover them. Those
    of membership attacks are kept in RUN/private, where a report looks for them.
    Models of other frameworks are attacked through files of their outputs.
    """
    given = [folder is not None, members is not None or outsiders is not None, scores is not None]
    if sum(given) != 1:
        raise InvalidArgument(
            "Attack exactly one thing: a run, a pair of files, or a file of scores.",
            remedy="Pass a RUN folder, or --members with --outsiders, or --scores.",
        )
    if data is not None and folder is None:
        raise InvalidArgument(
            "--data names the table of a run, and no run was given.", remedy="Pass a RUN, or leave it out."
        )
    if write is not None:
        paths.require_new_folder(write)
    kinds, single = tables.choose_kinds(attacks, column=column, property_=property_, share=share)
    if shadows < 0 or (0 < shadows < _FEWEST_SHADOWS and "membership" in kinds):
        raise InvalidArgument(
            f"--shadows {shadows} is too few models to compare with.",
            remedy=f"Pass {_FEWEST_SHADOWS} or more, or 0 for the attacks that need none.",
        )
    if folder is not None:
        paths.require_folder(folder)
        request = AttackRequest(kinds, single, column, property_, share, shadows, minutes)
        outputs = _attack_run(folder, request, data)
    elif scores is not None:
        _require_membership(kinds)
        outputs = [_attack_scores(scores, single)]
    else:
        _require_membership(kinds)
        outputs = [tables.membership(_attack_files(members, outsiders, model, single, trust=trust))]
    kept = folder if "membership" in kinds else None  # what a report shows
    show_outputs(outputs, write, run=kept, as_json=as_json)


def _attack_run(folder: Path, request: AttackRequest, data: str | None) -> list[AttackOutput]:
    """Plays every kind that was asked for. Missing arguments are reported before anything is trained."""
    from reticent.runs.attacks.defences import compare_defences
    from reticent.runs.attacks.extraction import extract_from_run
    from reticent.runs.attacks.inversion import invert_run
    from reticent.runs.attacks.leakage import reconstruct_from_gradients
    from reticent.runs.attacks.membership import attack_run, infer_column
    from reticent.runs.attacks.property import infer_run_property
    from reticent.runs.reopen import open_again

    observer = output.observer()
    again = open_again(folder, observer=observer, data=data)
    column = _require_column(again, request.column) if "attribute" in request.kinds else ""
    wanted: Any = _require_property(again, request.property_) if "property" in request.kinds else None
    effort = {"shadows": request.shadows, "minutes": request.minutes, "observer": observer}
    plays: dict[str, Callable[[], AttackOutput]] = {
        "membership": lambda: tables.membership(attack_run(again, attacks=request.single, **effort)),
        "attribute": lambda: tables.attribute(infer_column(again, column)),
        "property": lambda: tables.property_shares(
            infer_run_property(again, wanted, share=request.share, **effort)
        ),
        "inversion": lambda: tables.inversion(invert_run(again, observer=observer)),
        "leakage": lambda: tables.leakage(reconstruct_from_gradients(again, observer=observer)),
        "updates": lambda: tables.updates(_attack_updates(folder, again, observer)),
        "extraction": lambda: tables.extraction(extract_from_run(again, observer=observer)),
        "defences": lambda: tables.defences(compare_defences(again, observer=observer)),
    }
    return [plays[kind]() for kind in request.kinds]


def _attack_updates(folder: Path, again: Again, observer: Any) -> Any:
    """Attacks rounds like the run's, and keeps the table where a report looks for it."""
    from reticent.runs.attacks.client_rounds import attack_rounds
    from reticent.runs.federated_tables import keep_table

    found = attack_rounds(again, observer=observer)
    with output.kept_if_possible():
        keep_table(folder, found.as_table())
    return found


def _require_column(again: Again, column: str | None) -> str:
    from reticent.runs.attacks.membership import categories, sensitive_column

    if column is None:
        known = ", ".join(categories(again)) or "none, because it was not trained on a table"
        raise InvalidArgument(
            "Attribute inference needs a column.",
            remedy=f"Pass --column with a category of this run: {known}.",
        )
    sensitive_column(again, column)
    return column


def _require_property(again: Again, words: str | None) -> Any:
    from reticent.runs.attacks.membership import categories
    from reticent.runs.attacks.property import Property

    if words is None and again.domain is not None:
        raise InvalidArgument(
            "Property inference needs a property.",
            remedy=f'Pass --property "COLUMN = VALUE". Available columns: {", ".join(categories(again))}.',
        )
    return Property.parse(words or "", again)


def _require_membership(kinds: Sequence[str]) -> None:
    others = [kind for kind in kinds if kind != "membership"]
    if others:
        raise InvalidArgument(
            f"Files of outputs or scores allow membership attacks only, not {' or '.join(others)}.",
            remedy="Attack a RUN folder, or use the functions of reticent.attacks in Python.",
        )


def _attack_files(
    members: Path | None, outsiders: Path | None, model: str | None, single: list[str] | None, *, trust: bool
) -> Battery:
    from reticent.attacks.battery import run_without_shadows
    from reticent.attacks.foreign_files import read_outputs

    if members is None or outsiders is None:
        raise InvalidArgument(
            "An attack needs members and outsiders.", remedy="Pass both --members and --outsiders."
        )
    predictor = None if model is None else _load_function(model)
    inside = read_outputs(members, name="members", predictor=predictor, trust=trust)
    outside = read_outputs(outsiders, name="outsiders", predictor=predictor, trust=trust)
    return run_without_shadows(inside, outside, attacks=single)


def _load_function(words: str) -> Predict:
    """Imports the function that a `module:function` names, found from the current folder."""
    import importlib
    import sys

    module, _, name = words.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidArgument(
            f"There is no function {words!r}: {error}.",
            remedy="Pass module:function, importable from this folder.",
        ) from error
    finally:
        sys.path.pop(0)


def _attack_scores(path: Path, single: list[str] | None) -> AttackOutput:
    from reticent.attacks.foreign_files import read_scores

    if single is not None:
        raise InvalidArgument(
            "A file of scores holds one attack: there is nothing to choose.", remedy="Leave out --attacks."
        )
    return tables.external_scores(read_scores(path))
