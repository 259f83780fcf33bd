"""A run on disk: the model, what it is, what it cost. Never a pickle; nothing in it is executed.

    run.json             what was asked for, the event, the guarantee, metrics with their labels, versions
    domain.toml          what is public about the table
    model.safetensors    the parameters
    checkpoint           the state of an unfinished run

Whatever is read back is checked: JSON by field, tensors by name, shape, type and digest.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from reticent.core.errors import DataError, IntegrityError
from reticent.training.checkpoint import write_whole

VERSION = 1
RUN, DOMAIN, MODEL, CHECKPOINT = "run.json", "domain.toml", "model.safetensors", "checkpoint"

_STATES = ("started", "paid", "finished")


def create(folder: Path) -> None:
    """A new, empty folder.

    Raises:
        DataError: it exists already, or cannot be made.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(
            f"{folder} exists already, and may hold a model that was paid for.",
            remedy="Choose another name, or go on with it: --resume.",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"Cannot make the folder {folder}: {error.strerror}.", remedy="Choose a place you may write to."
        ) from error


def write_record(folder: Path, record: dict[str, Any]) -> None:
    write_whole(folder / RUN, (json.dumps(record, indent=2, allow_nan=False) + "\n").encode())


def read_record(folder: Path) -> dict[str, Any]:
    """What `run.json` says.

    Raises:
        DataError: there is no run here. IntegrityError: it is not one that this version can read.
    """
    path = folder / RUN
    try:
        record = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise DataError(
            f"{folder} holds no run: there is no {RUN} in it.",
            remedy="Give the folder that train wrote (-o).",
        ) from None
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror}.", remedy="Check the path.") from error
    except (ValueError, RecursionError):
        raise IntegrityError(f"{path} is damaged.", remedy="Restore it from a copy.") from None
    if not isinstance(record, dict) or record.get("version") != VERSION or record.get("state") not in _STATES:
        raise IntegrityError(
            f"{path} is not the record of a run that this version can read.",
            remedy="Read it with the version of reticent that wrote it.",
        )
    return record


def write_model(folder: Path, leaves: dict[str, np.ndarray]) -> str:
    """Saves named tensors, and returns the digest that goes into the record."""
    from safetensors.numpy import save

    content = save({name: np.ascontiguousarray(leaf) for name, leaf in leaves.items()})
    write_whole(folder / MODEL, content)
    return hashlib.sha256(content).hexdigest()


def read_model(folder: Path, digest: str, like: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """The tensors of a model.

    Args:
        like: the name and the shape of each tensor that has to be there.

    Raises:
        IntegrityError: the file is not the one that the record tells of, or holds something else.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    path = folder / MODEL
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"Cannot read {path}: {error.strerror}.", remedy="Is the run finished? See: reticent show."
        ) from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise IntegrityError(
            f"{path} is not the model that {RUN} tells of: it was changed or damaged.",
            remedy="Restore both files from the same copy.",
        )
    try:
        found = load(content)
    except (SafetensorError, ValueError, KeyError) as error:
        raise IntegrityError(f"{path} is no safetensors file.", remedy="Restore it from a copy.") from error
    shapes = {name: leaf.shape for name, leaf in found.items()}
    if shapes != like or any(
        leaf.dtype != np.float32 or not np.isfinite(leaf).all() for leaf in found.values()
    ):
        raise IntegrityError(
            f"{path} holds other tensors than the model of this run has.", remedy="Restore it from a copy."
        )
    return found


def remove_checkpoint(folder: Path) -> None:
    (folder / CHECKPOINT).unlink(missing_ok=True)


def is_writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK)
