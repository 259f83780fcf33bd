"""`reticent calibrate`: solves for the one quantity that is left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from reticent.accounting.setting import Sampling, Setting
from reticent.cli import output
from reticent.cli.account import (
    AdjacencyOption,
    BatchSize,
    Delta,
    Epochs,
    Examples,
    Group,
    Noise,
    SamplingOption,
    Steps,
    check_delta,
    make_setting,
    require,
)
from reticent.cli.noise_choice import BandsOption, BuffersOption, NoiseOption
from reticent.core.errors import InvalidArgument
from reticent.mechanisms import events
from reticent.training.setting_noise import ChosenNoise, with_best_noise, with_noise

EPILOG = (
    "Example:  reticent calibrate --epsilon 3 --delta 1e-5 --examples 60000 --batch-size 1024 --epochs 20"
)


def run(
    epsilon: Annotated[float | None, typer.Option(help="The budget.", show_default=False)] = None,
    delta: Delta = None,
    examples: Examples = None,
    batch_size: BatchSize = None,
    epochs: Epochs = None,
    steps: Steps = None,
    noise_multiplier: Noise = None,
    sampling: SamplingOption = Sampling.POISSON,
    adjacency: AdjacencyOption = None,
    group: Group = 1,
    noise: NoiseOption = "independent",
    bands: BandsOption = None,
    buffers: BuffersOption = None,
    as_json: output.AsJson = False,
) -> None:
    """Solve for the one quantity that is left out, on the safe side.

    Leave out the noise, the steps, the batch size, delta or epsilon. The run
    that comes out costs at most the epsilon asked for, and hardly less.
    """
    total: int = require(examples=examples)
    if delta is not None:
        check_delta(delta, total)
    missing = _missing(
        epsilon=epsilon,
        delta=delta,
        noise_multiplier=noise_multiplier,
        steps=epochs if steps is None else steps,
        batch_size=total if sampling is Sampling.FULL else batch_size,
    )
    # The quantity that is solved for is 1 until it is known.
    size = 1 if missing == "batch_size" else batch_size
    length = (None, 1) if missing in ("steps", "batch_size") else (epochs, steps)
    multiplier = 1.0 if missing == "noise_multiplier" else require(noise_multiplier=noise_multiplier)
    setting = make_setting(total, size, *length, multiplier, sampling, adjacency, group)
    choice = None
    if noise != "independent":
        _check_length(missing)
    if noise == "auto":
        _check_budget(missing)
        budget = {"epsilon": require(epsilon=epsilon), "delta": require(delta=delta)}
        solved, choice = with_best_noise(setting, bands, buffers, **budget)
        solved_delta = budget["delta"]
        output.note(str(choice))
    else:
        setting = with_noise(setting, noise, bands, buffers, adjacency)
        with output.progress(f"solving for {missing}", None, unit="points"):
            solved, solved_delta = _solve(missing, setting, epsilon, delta, epochs)
    _print(missing, solved, solved_delta, choice, as_json=as_json)


def _check_length(missing: str) -> None:
    if missing in ("steps", "batch_size"):
        raise InvalidArgument(
            f"Correlated noise is made for a run of a fixed length, and {missing} is left out.",
            remedy="Pass --steps (or --epochs) and --batch-size, and leave out --noise-multiplier.",
        )


def _check_budget(missing: str) -> None:
    if missing != "noise_multiplier":
        raise InvalidArgument(
            f"'auto' chooses the noise for a budget, and {missing} is left out.",
            remedy="Pass --epsilon and --delta and leave out --noise-multiplier, or name the noise.",
        )


def _missing(**quantities: Any) -> str:
    absent = [name for name, value in quantities.items() if value is None]
    if len(absent) != 1:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in absent or quantities)
        happened = f"These are missing: {flags}." if absent else "Nothing is left out."
        raise InvalidArgument(
            happened,
            remedy="Leave out exactly one of --epsilon, --delta, --noise-multiplier, --epochs (or --steps) "
            "and --batch-size.",
        )
    return absent[0]


def _solve(
    missing: str, setting: Setting, epsilon: float | None, delta: float | None, epochs: float | None
) -> tuple[Setting, float]:
    from reticent.accounting import calibrate

    if missing == "epsilon":
        return setting, require(delta=delta)
    if missing == "delta":
        return setting, calibrate.delta(setting, epsilon=require(epsilon=epsilon))
    budget = {"epsilon": require(epsilon=epsilon), "delta": require(delta=delta)}
    match missing:
        case "noise_multiplier":
            solved = replace(setting, noise_multiplier=calibrate.noise_multiplier(setting, **budget))
        case "steps":
            solved = replace(setting, steps=calibrate.steps(setting, **budget))
        case _:
            passes = require(epochs=epochs)  # a batch size is solved for with the passes over the data fixed
            solved = replace(setting, batch_size=calibrate.batch_size(setting, epochs=passes, **budget))
            solved = solved.with_epochs(passes)
    return solved, budget["delta"]


def _print(
    missing: str, setting: Setting, delta: float, choice: ChosenNoise | None, *, as_json: bool
) -> None:
    from reticent.accounting.tight_epsilon import guarantee

    promise = guarantee(
        setting.event, delta, setting.adjacency, group=setting.group, assumptions=setting.assumptions
    )
    found = {
        "epsilon": promise.epsilon,
        "delta": delta,
        "noise_multiplier": setting.noise_multiplier,
        "steps": setting.steps,
        "epochs": setting.epochs,
        "batch_size": setting.batch_size,
    }
    if as_json:
        solved = {"solved_for": missing, **found, "examples": setting.examples}
        solved |= {"noise": choice._asdict()} if choice else {}
        output.print_json({**solved, "guarantee": promise.to_json(), "event": events.to_json(setting.event)})
        return
    rows = [(name.replace("_", " "), f"{value:.10g}") for name, value in found.items()]
    rows = [
        (f"{name}  <- solved" if name.replace(" ", "_") == missing else name, value) for name, value in rows
    ]
    output.print_table("calibrated", {"quantity": "left", "value": "right"}, rows)
    output.print_line()
    output.print_text(str(promise))
