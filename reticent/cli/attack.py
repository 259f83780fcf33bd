"""`reticent attack`: what a model gives away about who was in its training set, and what else it tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from reticent.cli import attack_tables as kinds
from reticent.cli import output, paths
from reticent.cli.attack_output import Told, require_new, tell
from reticent.core.errors import InvalidArgument

if TYPE_CHECKING:
    from reticent.attacks.battery import Battery
    from reticent.attacks.files import Predictor
    from reticent.runs.reopen import Again

EPILOG = (
    "Example:  reticent attack runs/patients --attacks membership,leakage --shadows 16 -o attacks/patients"
)


Attacks = Annotated[
    str | None,
    typer.Option(
        help=f"Kinds, with commas between: {', '.join(kinds.KINDS)}; or single membership attacks.",
        show_default="membership",
    ),
]
Column = Annotated[
    str | None,
    typer.Option(help="Also guess this category from a record's other columns.", show_default=False),
]
Held = Annotated[
    str | None,
    typer.Option("--property", help="Also guess how many rows had this: COLUMN = VALUE.", show_default=False),
]
Share = Annotated[
    float | None,
    typer.Option(
        help="Of rows with the property, to tell from the usual share.",
        show_default="half way from it to all",
    ),
]
Model = Annotated[
    str | None, typer.Option(help="module:function, from features to probabilities.", show_default=False)
]


class Asked(NamedTuple):
    """What is asked about a run.

    Args:
        wanted: kinds of attack.
        single: membership attacks; None for all of them.
    """

    wanted: tuple[str, ...]
    single: list[str] | None
    column: str | None
    held: str | None
    share: float | None
    shadows: int
    minutes: float | None


def run(
    folder: Annotated[
        Path | None, typer.Argument(help="A run: what train wrote.", show_default=False)
    ] = None,
    attacks: Attacks = None,
    shadows: Annotated[int, typer.Option(help="Models trained like the run, to compare with.")] = 16,
    column: Column = None,
    held: Held = None,
    share: Share = None,
    minutes: Annotated[
        float | None, typer.Option(help="Train no more shadow models after so long.", show_default=False)
    ] = None,
    members: Annotated[
        Path | None, typer.Option(help="Of any model: a .npz file of its members.", show_default=False)
    ] = None,
    outsiders: Annotated[
        Path | None, typer.Option(help="And one of records it never saw.", show_default=False)
    ] = None,
    model: Model = None,
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
    """Attack a model, to see whom and what it gives away.

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
    require_new(write)
    wanted, single = kinds.chosen(attacks, column=column, held=held, share=share)
    if shadows < 0 or (shadows == 1 and "membership" in wanted):
        raise InvalidArgument(
            f"--shadows {shadows} is too few models to compare with.",
            remedy="Write 2 or more; or 0, for the attacks that need none.",
        )
    if folder is not None:
        paths.require_folder(folder)
        told = _on_run(folder, Asked(wanted, single, column, held, share, shadows, minutes))
    else:
        _require_membership(wanted)
        told = [
            _ready(scores, single)
            if scores is not None
            else kinds.membership(_on_files(members, outsiders, model, single, trust=trust))
        ]
    tell(told, write, as_json=as_json)


def _on_run(folder: Path, asked: Asked) -> list[Told]:
    """Every kind that was asked for. What one lacks is said before another takes its time."""
    if "extraction" in asked.wanted:
        kinds.refuse_extraction()
    from reticent.core.observer import Onlooker
    from reticent.runs.attacks import membership as attacking
    from reticent.runs.attacks.defences import compare_defences
    from reticent.runs.attacks.inversion import invert_run
    from reticent.runs.attacks.leakage import leak_from
    from reticent.runs.attacks.property import guess_property
    from reticent.runs.reopen import reopened

    onlooker = Onlooker(say=output.note, warn=output.warn, watch=output.watch)
    again = reopened(folder, onlooker=onlooker)
    column = _required_column(again, asked.column) if "attribute" in asked.wanted else ""
    held: Any = _required_property(again, asked.held) if "property" in asked.wanted else None
    some = {"shadows": asked.shadows, "minutes": asked.minutes, "onlooker": onlooker}
    plays: dict[str, Callable[[], Told]] = {
        "membership": lambda: kinds.membership(attacking.attack(again, attacks=asked.single, **some)),
        "attribute": lambda: kinds.attribute(attacking.infer(again, column)),
        "property": lambda: kinds.property_of(guess_property(again, held, share=asked.share, **some)),
        "inversion": lambda: kinds.inversion(invert_run(again, onlooker=onlooker)),
        "leakage": lambda: kinds.leakage(leak_from(again, onlooker=onlooker)),
        "defences": lambda: kinds.defences(compare_defences(again, onlooker=onlooker)),
    }
    return [plays[kind]() for kind in asked.wanted]


def _required_column(again: Again, column: str | None) -> str:
    from reticent.runs.attacks.membership import categories, sensitive_column

    if column is None:
        known = ", ".join(categories(again)) or "none, for it was not trained on a table"
        raise InvalidArgument(
            "Which column is to be guessed?",
            remedy=f"Pass --column with a category of this run: {known}.",
        )
    sensitive_column(again, column)
    return column


def _required_property(again: Again, words: str | None) -> Any:
    from reticent.runs.attacks.membership import categories
    from reticent.runs.attacks.property import Property

    if words is None and again.domain is not None:
        raise InvalidArgument(
            "Which property of the training set is to be guessed?",
            remedy=f'Pass --property "COLUMN = VALUE"; columns are: {", ".join(categories(again))}.',
        )
    return Property.read(words or "", again)


def _require_membership(wanted: Sequence[str]) -> None:
    others = [kind for kind in wanted if kind != "membership"]
    if others:
        raise InvalidArgument(
            f"Outputs and scores tell of membership only, and not of {' or '.join(others)}.",
            remedy="Attack a RUN folder, or use the functions of reticent.attacks in Python.",
        )


def _on_files(
    members: Path | None, outsiders: Path | None, model: str | None, single: list[str] | None, *, trust: bool
) -> Battery:
    from reticent.attacks.battery import run_without_shadows
    from reticent.attacks.files import read_outputs

    if members is None or outsiders is None:
        raise InvalidArgument(
            "An attack needs members and outsiders.", remedy="Pass both --members and --outsiders."
        )
    predictor = None if model is None else _function(model)
    inside = read_outputs(members, name="members", predictor=predictor, trust=trust)
    outside = read_outputs(outsiders, name="outsiders", predictor=predictor, trust=trust)
    return run_without_shadows(inside, outside, attacks=single)


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


def _ready(path: Path, single: list[str] | None) -> Told:
    from reticent.attacks.files import read_scores

    if single is not None:
        raise InvalidArgument(
            "Ready scores are those of one attack: there is none to choose.", remedy="Leave out --attacks."
        )
    return kinds.ready(read_scores(path))
