"""From public images to a public model. Nothing here is private, and none of it may see a private record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np

from reticent.core import checks
from reticent.core.errors import DataError, InvalidArgument
from reticent.core.observer import NOBODY, Observer
from reticent.data import catalog
from reticent.models.colours import with_public_scale
from reticent.models.patches import patches_of
from reticent.models.whitening import whitening
from reticent.models.wide_resnet import wide_resnet
from reticent.pretraining.learning import learn_without_privacy
from reticent.pretraining.overlap import row_hashes
from reticent.pretraining.public_model import About, PublicModel

MODELS = ("patches", "wide_resnet", "wide_resnet+patches")
EPOCHS = 8
_DEPTH, _WIDTH, _STEM_STRIDE = 10, 2, 2  # of the network: 0.3 million parameters
_PATCHES = 800
_KEPT = {"patches": 2000, "wide_resnet": 400}  # directions of the whitened features
_RIDGE = {"patches": 1e-4, "wide_resnet": 1e-4}
_WHITENED_BY = 8000  # images


def pretrain(
    dataset: str,
    *,
    model: str = "wide_resnet",
    epochs: int = EPOCHS,
    rows: int | None = None,
    kept: Path | None = None,
    observer: Observer = NOBODY,
) -> PublicModel:
    """Learns features from a public dataset of images, WITHOUT privacy.

    Args:
        dataset: of the catalog, with images and labels.
        model: `wide_resnet`, a network that learns the labels; `patches`, which learns nothing and takes
            small pieces of the images as they are; or `wide_resnet+patches`, the features of both.
        epochs: of the network.
        rows: so many of the first rows are enough; by default all.
        kept: a file for unfinished training, which goes on from there if it is called again.

    Raises:
        DataError: the rows are not images with labels. Unavailable: the dataset is not at hand.
    """
    checks.one_of(MODELS, model=model)
    checks.count(epochs=epochs)
    train = catalog.load(dataset).train
    if "x" not in train or "y" not in train or np.asarray(train["x"][:1]).ndim != 4:
        raise DataError(
            f"'{dataset}' does not have colour images with labels.",
            remedy="Pre-train on images, such as those of cifar100.",
        )
    if rows is not None:
        checks.count(minimum=100, rows=rows)
        train = train.take(slice(0, rows))
    images, labels = np.asarray(train["x"]), np.asarray(train["y"])
    return pretrain_on(
        images, labels, dataset=dataset, model=model, epochs=epochs, kept=kept, observer=observer
    )


def pretrain_on(
    images: np.ndarray,
    labels: np.ndarray,
    *,
    dataset: str,
    model: str = "wide_resnet",
    epochs: int = EPOCHS,
    depth: int = _DEPTH,
    width: int = _WIDTH,
    stem_stride: int = _STEM_STRIDE,
    patches: int = _PATCHES,
    kept: Path | None = None,
    observer: Observer = NOBODY,
) -> PublicModel:
    """The same from images (n, height, width, colours) as bytes, and labels that count from 0."""
    checks.one_of(MODELS, model=model)
    if images.ndim != 4 or images.dtype != np.uint8 or min(images.shape[1:3]) < 16:
        raise InvalidArgument(
            f"Public images of shape {images.shape[1:]} and kind {images.dtype} are not photographs.",
            remedy="Give bytes (n, height, width, colours), at least 16 x 16 pixels.",
        )
    arrays: dict[str, Any] = {"rows": row_hashes(images)}
    network: dict[str, int] = {}
    accuracy, stride = None, 0
    if "wide_resnet" in model:
        network = {
            "depth": depth,
            "width": width,
            "classes": int(labels.max()) + 1,
            "stem_stride": stem_stride,
        }
        learner = with_public_scale(
            wide_resnet(depth, width, network["classes"], images.shape[3], stem_stride=stem_stride)
        )
        with observer.watch("pre-training, not private") as on_progress:
            learned = learn_without_privacy(
                learner, images, labels.astype(np.int32), epochs=epochs, kept=kept, on_progress=on_progress
            )
        accuracy = learned.accuracy
        leaves, _ = jax.tree_util.tree_flatten_with_path(learned.params)
        for path, leaf in leaves:
            name = jax.tree_util.keystr(path, simple=True, separator="/")
            arrays[f"network/{name}"] = np.asarray(leaf, np.float32)
    if "patches" in model:
        found = patches_of(images, patches)
        arrays |= {"patches/filters": found.filters, "patches/shifts": found.shifts}
        stride = found.stride
    about = About(
        dataset=dataset,
        rows=len(images),
        shape=tuple(images.shape[1:]),
        network=network,
        epochs=epochs if network else 0,
        stride=stride,
        accuracy=accuracy,
        is_mirrored=bool(network),
    )
    raw = PublicModel(about=about, arrays=arrays)
    for part in model.split("+"):
        with observer.watch(f"whitening of {part}") as on_progress:
            features = raw.raw_features(part, images[:_WHITENED_BY])
            directions = min(_KEPT[part], *features.shape)
            white = whitening(features, kept=directions, ridge=_RIDGE[part])
            arrays[f"whitening/{part}/centre"] = white.centre.astype(np.float32)
            arrays[f"whitening/{part}/directions"] = white.directions
            on_progress(1.0)
    return PublicModel(about=about, arrays=arrays)
