"""Callbacks that write the history of a run somewhere.

    rt.train(..., on_progress=rt.callbacks.json_lines("log.jsonl"))

Metrics on held-out rows carry no noise, and no guarantee covers them. So every name under which they are
logged begins with `unreleased`, and nothing leaves the machine unless you connect a server yourself.
"""

from __future__ import annotations

import json
import math
import os
from importlib import import_module
from pathlib import Path
from typing import Any

from reticent.core.errors import Unavailable
from reticent.training.evaluation import Moment
from reticent.training.reporting import Callback


def figures(moment: Moment) -> dict[str, float]:
    """The numbers of a moment under the names that all callbacks here log them by.

    Example:
        >>> figures(Moment(step=20, epoch=1.0, epsilon=0.7, held_out={"accuracy": 0.9}, unreleased={}))
        {'epoch': 1.0, 'epsilon': 0.7, 'unreleased/held-out accuracy': 0.9}
    """
    held_out = {f"unreleased/held-out {name}": value for name, value in moment.held_out.items()}
    training = {f"unreleased/{name.removeprefix('unreleased ')}": v for name, v in moment.unreleased.items()}
    return {"epoch": moment.epoch, "epsilon": moment.epsilon, **held_out, **training}


def json_lines(path: str | Path) -> Callback:
    """Appends one JSON object per moment to a file that only its owner can read.

    Numbers that JSON does not have, such as infinity, become null.

    Example:
        >>> import tempfile
        >>> log = Path(tempfile.mkdtemp()) / "log.jsonl"
        >>> json_lines(log)(Moment(step=20, epoch=1.0, epsilon=math.inf, held_out={}, unreleased={}))
        >>> log.read_text()
        '{"step": 20, "epoch": 1.0, "epsilon": null}\\n'
    """

    def write(moment: Moment) -> None:
        found = {name: value if math.isfinite(value) else None for name, value in figures(moment).items()}
        line = json.dumps({"step": moment.step, **found}, allow_nan=False)
        place = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(place, "a", encoding="utf-8") as file:
            file.write(line + "\n")

    return write


def tensorboard(folder: str | Path) -> Callback:
    """Writes scalars for TensorBoard into a folder, with `tensorboardX` or PyTorch's writer.

    Raises:
        Unavailable: neither is installed.
    """
    module = _first_of({"tensorboardX": "tensorboardX", "torch.utils.tensorboard": "torch and tensorboard"})
    writer = module.SummaryWriter(str(folder), flush_secs=1)

    def write(moment: Moment) -> None:
        for name, value in _finite(moment).items():
            writer.add_scalar(name, value, moment.step)
        writer.flush()

    return write


def mlflow(run_id: str | None = None) -> Callback:
    """Logs metrics to MLflow: to the active run, or to the run of this id.

    Where that is stored is MLflow's own setting, `mlflow.set_tracking_uri`.

    Raises:
        Unavailable: `mlflow` is not installed.
    """
    module = _first_of({"mlflow": "mlflow"})

    def write(moment: Moment) -> None:
        module.log_metrics(_finite(moment), step=moment.step, run_id=run_id)

    return write


def wandb(run: Any = None) -> Callback:
    """Logs to a run of Weights & Biases; by default to a new one that stays on this machine.

    Args:
        run: what `wandb.init` returned. One that is online sends unreleased figures to its server.

    Raises:
        Unavailable: `wandb` is not installed.
    """
    if run is None:
        run = _first_of({"wandb": "wandb"}).init(mode="offline")

    def write(moment: Moment) -> None:
        run.log(_finite(moment), step=moment.step, commit=True)  # with a step, it would wait for the next

    return write


def _finite(moment: Moment) -> dict[str, float]:
    return {name: value for name, value in figures(moment).items() if math.isfinite(value)}


def _first_of(modules: dict[str, str]) -> Any:
    """The first module that can be imported; the values say what to install for it."""
    for name in modules:
        try:
            return import_module(name)
        except ImportError:
            continue
    raise Unavailable(
        f"This callback needs {' or '.join(modules)}, which is not installed.",
        remedy=f"Install it: pip install {next(iter(modules.values()))}.",
    )
