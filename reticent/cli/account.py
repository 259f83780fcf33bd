"""`reticent account`: what a run costs, by every theorem, and the sentence that may be printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reticent.accounting.setting import Sampling, Setting, steps_for
from reticent.cli import certificates, output
from reticent.cli.noise_choice import BandsOption, BuffersOption, NoiseOption
from reticent.core import checks
from reticent.core.errors import DataError, InvalidArgument
from reticent.core.files import read_named
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.training.setting_noise import with_best_noise, with_noise

if TYPE_CHECKING:
    from reticent.accounting.guarantee import Guarantee

EPILOG = (
    "Example:  reticent account --examples 60000 --batch-size 256 --epochs 60"
    " --noise-multiplier 1.1 --delta 1e-5"
)

_POINTS = 24  # of the curve over epochs
_NAMES = {
    "basic": "basic composition",
    "advanced": "advanced composition",
    "zcdp": "concentrated DP (no amplification)",
    "moments": "moments accountant (Abadi et al.)",
    "rdp": "Renyi DP",
    "pld": "privacy loss distribution",
}

Examples = Annotated[
    int | None, typer.Option(help="The number of examples; it is public.", show_default=False)
]
BatchSize = Annotated[int | None, typer.Option(help="The expected batch size.", show_default=False)]
Epochs = Annotated[float | None, typer.Option(help="Passes over the data.", show_default=False)]
Steps = Annotated[int | None, typer.Option(help="Steps, instead of epochs.", show_default=False)]
Noise = Annotated[
    float | None, typer.Option(help="Noise divided by the clipping norm: sigma.", show_default=False)
]
Delta = Annotated[float | None, typer.Option(help="Below 1 / examples.", show_default=False)]
SamplingOption = Annotated[Sampling, typer.Option(help="How batches are drawn.")]
AdjacencyOption = Annotated[
    Adjacency | None,
    typer.Option(help="How neighbouring datasets differ.", show_default="what the sampling is made for"),
]
Group = Annotated[int, typer.Option(help="Protect this many records at once.")]
EventFile = Annotated[
    Path | None,
    typer.Option("--events", help="Account for the event in this JSON file instead.", show_default=False),
]
Plot = Annotated[
    Path | None, typer.Option(help="Save a chart of epsilon over epochs (svg, png, pdf).", show_default=False)
]
Certify = Annotated[
    Path | None,
    typer.Option(help="Write a certificate that proves the bound to this file.", show_default=False),
]
Check = Annotated[
    Path | None,
    typer.Option(help="Prove the bound of this certificate again, and nothing else.", show_default=False),
]


def run(
    examples: Examples = None,
    batch_size: BatchSize = None,
    epochs: Epochs = None,
    steps: Steps = None,
    noise_multiplier: Noise = None,
    delta: Delta = None,
    sampling: SamplingOption = Sampling.POISSON,
    adjacency: AdjacencyOption = None,
    group: Group = 1,
    noise: NoiseOption = "independent",
    bands: BandsOption = None,
    buffers: BuffersOption = None,
    event_file: EventFile = None,
    plot: Plot = None,
    certify: Certify = None,
    check: Check = None,
    as_json: output.AsJson = False,
) -> None:
    """Show what a private run costs, by every theorem.

    The last row is usually the tightest. The sentence below the table is the
    one to publish: an upper bound, with the least that any analysis could say.
    A certificate proves it in ball arithmetic, for readers who trust no float.
    """
    from reticent.accounting.accountants import account
    from reticent.accounting.loss_distribution.dominating import Neighbours
    from reticent.accounting.tight_epsilon import guarantee
    from reticent.report.figures.curves import check_format

    if check is not None:
        given = (examples, batch_size, epochs, steps, noise_multiplier, delta, adjacency, event_file, plot)
        alone = all(item is None for item in (*given, bands, buffers, certify))
        certificates.require_alone(alone and group == 1)
        certificates.check(check, as_json=as_json)
        return
    if certify is not None:
        certificates.require_package()
    if plot is not None:
        check_format(plot)
    chosen: float = require(delta=delta)
    checks.inside_unit(delta=chosen)
    choice = None
    if event_file is not None:
        setting = None
        event, neighbour = _read_event(event_file), adjacency or Adjacency.ADD_OR_REMOVE
        promise = guarantee(event, chosen, neighbour, group=group)
    else:
        multiplier = require(noise_multiplier=noise_multiplier)
        setting = make_setting(examples, batch_size, epochs, steps, multiplier, sampling, adjacency, group)
        check_delta(chosen, setting.examples)
        if noise == "auto":
            setting, choice = with_best_noise(setting, bands, buffers, delta=chosen)
            output.note(str(choice))
        else:
            setting = with_noise(setting, noise, bands, buffers, adjacency)
        event, neighbour = setting.event, setting.adjacency
        promise = guarantee(event, chosen, neighbour, group=group, assumptions=setting.assumptions)
    rows = account(event, chosen, Neighbours(neighbour, group))
    if as_json:
        output.print_json(
            {"guarantee": promise.to_json(), "accountants": rows, "event": events.to_json(event)}
            | ({"noise": choice._asdict()} if choice else {})
        )
    else:
        _print(promise, rows, chosen)
    if certify is not None:
        certificates.write(promise, certify)
    if setting is not None and setting.steps and (plot is not None or not as_json):
        _show_curve(setting, chosen, plot, is_quiet=as_json)


def make_setting(
    examples: int | None,
    batch_size: int | None,
    epochs: float | None,
    steps: int | None,
    noise_multiplier: float,
    sampling: Sampling,
    adjacency: Adjacency | None,
    group: int,
) -> Setting:
    """The setting that a command line describes."""
    total: int = require(examples=examples)
    checks.count(examples=total)
    size: int = require(batch_size=total if sampling is Sampling.FULL and batch_size is None else batch_size)
    if sampling is Sampling.FULL and size != total:
        raise InvalidArgument(
            f"A full batch holds all {total} examples, and --batch-size is {size}.",
            remedy="Leave out --batch-size, or choose another --sampling.",
        )
    if (epochs is None) == (steps is None):
        raise InvalidArgument(
            "The length of the run must be given exactly once.", remedy="Pass either --epochs or --steps."
        )
    return Setting(
        examples=total,
        batch_size=size,
        steps=steps_for(require(epochs=epochs), total, size) if steps is None else steps,
        noise_multiplier=noise_multiplier,
        sampling=sampling,
        adjacency=adjacency or sampling.adjacencies[0],
        group=group,
    )


def require(**option: Any) -> Any:
    """The value of a required option."""
    ((name, value),) = option.items()
    if value is None:
        flag = f"--{name.replace('_', '-')}"
        raise InvalidArgument(f"{flag} is missing.", remedy=f"Pass it, for example {flag} {_EXAMPLES[name]}.")
    return value


_EXAMPLES = {
    "examples": "60000",
    "batch_size": "256",
    "epochs": "60",
    "noise_multiplier": "1.1",
    "delta": "1e-5",
    "epsilon": "3",
}


def check_delta(delta: float, examples: int) -> None:
    """Refuses a delta that promises nothing."""
    checks.inside_unit(delta=delta)
    if delta >= 1 / examples:
        raise InvalidArgument(
            f"A delta of {delta:g} is meaningless for {examples} examples: publishing one random record "
            f"whole has delta 1/{examples} = {1 / examples:.3g}.",
            remedy=f"Choose it well below that, for example {0.1 / examples:.1g}.",
        )


def _read_event(path: Path) -> events.Event:
    try:
        return events.read(read_named(path, most=1 << 24))
    except OSError as error:
        raise DataError(
            f"Cannot read {path}: {error.strerror}.", remedy="Pass a JSON file with one event."
        ) from None
    except InvalidArgument as error:
        raise DataError(f"{path}: {error.happened}", remedy=error.remedy) from None


def _print(promise: Guarantee, rows: dict[str, float | None], delta: float) -> None:
    cells = [
        (_NAMES[name], "no theorem" if value is None else f"{value:.4f}") for name, value in rows.items()
    ]
    output.print_table(f"epsilon at delta {delta:g}", {"accountant": "left", "epsilon": "right"}, cells)
    output.print_line()
    output.print_text(str(promise))


def _show_curve(setting: Setting, delta: float, plot: Path | None, *, is_quiet: bool) -> None:
    """Epsilon over epochs: in the terminal, and in a file when asked for."""
    from reticent.accounting.calibrate import epsilon_of
    from reticent.report.render.console import draw_curve

    counts = sorted({max(setting.steps * (i + 1) // _POINTS, 1) for i in range(_POINTS)})
    runs = [replace(setting, steps=count) for count in counts]
    epochs = [0.0, *(item.epochs for item in runs)]
    with output.progress("epsilon over epochs", len(runs), unit="points") as advance:
        curve = [0.0, *_each(runs, lambda item: epsilon_of(item, delta), advance)]
    if not is_quiet:
        output.print_line()
        output.print_line(draw_curve(epochs, curve, x_name="epochs", y_name="epsilon"))
    if plot is not None:
        _save(plot, epochs, curve, runs, delta)
        output.note(f"Saved {plot}.")


def _each(
    runs: list[Setting], cost: Callable[[Setting], float], advance: Callable[[float], None]
) -> list[float]:
    values = []
    for item in runs:
        values.append(cost(item))
        advance(1)
    return values


def _save(plot: Path, epochs: list[float], curve: list[float], runs: list[Setting], delta: float) -> None:
    from reticent.accounting.accountants import ACCOUNTANTS
    from reticent.accounting.loss_distribution.dominating import Neighbours
    from reticent.core.errors import Unproven
    from reticent.report.figures.curves import save_epsilon_curve

    curves = {"pld": curve}
    for name in ("rdp", "moments"):
        try:
            values = [
                ACCOUNTANTS[name](item.event, delta, Neighbours(item.adjacency, item.group)) for item in runs
            ]
            curves[name] = [0.0, *values]
        except Unproven:
            continue
    first = runs[-1]
    title = f"noise {first.noise_multiplier:g}, batch {first.batch_size} of {first.examples}, delta {delta:g}"
    save_epsilon_curve(plot, epochs, curves, title=title)
