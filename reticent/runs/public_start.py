"""Public weights that a run starts from: what learns of them, and the model that this makes.

`dense` learns one product on the features of the public model, which are computed once. The other ways train
the network itself, with a new last layer: `all` of it, its `biases` and scales, or low-rank factors (`lora`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from reticent.core.errors import DataError, InvalidArgument
from reticent.core.trees import ArrayTree
from reticent.models import Model
from reticent.models.wide_resnet import fold
from reticent.pretraining.overlap import count_overlap, row_hashes
from reticent.pretraining.public_model import PublicModel, read_public
from reticent.runs.problem import Problem
from reticent.training.gradients import LossFunction
from reticent.training.trainable import lora
from reticent.training.trainable.division import Division, divide

Learn = Literal["dense", "all", "biases", "lora"]
LEARN = get_args(Learn)
FEATURES, NETWORK = "public-features", "public-network"
OVERLAP_IS_PUBLIC = "records that are among the public ones are public"

_RANK = 8


@dataclass(frozen=True, kw_only=True)
class PublicStart:
    """Public weights, and what a run learns of them."""

    weights: PublicModel
    learn: Learn

    @classmethod
    def read(cls, folder: Path, learn: str, digest: str | None) -> PublicStart:
        """
        Raises:
            DataError: there are no weights. IntegrityError: they are damaged, or others than were recorded.
            InvalidArgument: they have no network, and one is to be trained.
        """
        weights = read_public(folder, digest=digest)
        if learn not in LEARN:
            raise InvalidArgument(f"learn='{learn}' is not known.", remedy=f"Choose {', '.join(LEARN)}.")
        if learn != "dense" and not weights.has_network:
            raise InvalidArgument(
                f"The public weights in {folder} are patches without a network: there is nothing to train "
                f"with --learn {learn}.",
                remedy="Use --learn dense, or pre-train a network: reticent pretrain --model wide_resnet.",
            )
        return cls(weights=weights, learn=learn)  # type: ignore[arg-type]  # checked above

    @property
    def model_name(self) -> Literal["public-features", "public-network"]:
        return FEATURES if self.learn == "dense" else NETWORK

    @property
    def in_words(self) -> str:
        what = {
            "dense": "one product on features that stay as they are",
            "all": "all layers",
            "biases": "biases, scales and the last layer",
            "lora": f"factors of rank {_RANK} beside each weight, and the last layer",
        }[self.learn]
        return f"{what} of public weights ({self.weights.name}, {self.weights.about.dataset})"

    def require_images(self, problem: Problem) -> None:
        """
        Raises:
            DataError: the rows are not images of the shape that the public ones had.
        """
        if problem.shape != tuple(self.weights.about.shape) or not problem.is_classification:
            raise DataError(
                f"The public weights take images of shape {tuple(self.weights.about.shape)}, and a row here "
                f"has shape {problem.shape}.",
                remedy="Start from weights that were learned from such images, or leave out --from.",
            )

    def require_no_overlap(self, rows: Any, *, is_public: bool) -> None:
        """Looks for private records among the public ones; the result is not released.

        Args:
            is_public: whoever asks declares such records public.

        Raises:
            DataError: there are some.
        """
        if is_public:
            return
        found = count_overlap(self.weights.row_hashes, row_hashes(np.asarray(rows)))
        if found:
            raise DataError(
                f"{found:,} of the private records are among the public ones "
                f"({self.weights.about.dataset}), byte for byte: the public weights have seen them, and "
                "nothing can be promised to them.",
                remedy="Take them out of the public rows and pre-train again, or declare that they are "
                "public: --overlap-is-public.",
            )


@dataclass(frozen=True, kw_only=True)
class StartedModel(Model):
    """A model that starts from given arrays instead of random ones."""

    given: Any = field(repr=False)

    def init(self, key: jax.Array) -> Any:
        return self.given

    @property
    def size(self) -> int:
        return sum(leaf.size for leaf in jax.tree.leaves(self.given))


def whole_network(start: PublicStart, classes: int) -> StartedModel:
    """The public network with a new last layer of zeros, for these classes."""
    is_folded = start.learn == "lora"  # factors stand beside filters as they are used
    model = start.weights.network(classes, is_folded=is_folded)
    params = fold(start.weights.params()) if is_folded else start.weights.params()
    last = params["dense"]
    params["dense"] = {"w": jnp.zeros((last["w"].shape[0], classes)), "b": jnp.zeros(classes)}
    return StartedModel(
        name=NETWORK, description=start.in_words, starts=model.starts, apply=model.apply, given=params
    )


class PartOfNetwork:
    """What learns of a public network: its model, whose parameters are that part alone.

    Args:
        loss: of the whole network.
    """

    def __init__(self, start: PublicStart, problem: Problem, model: StartedModel, loss: LossFunction) -> None:
        self._start, self._problem, self._whole, self._loss = start, problem, model, loss

    @cached_property
    def _division(self) -> Division:
        row = {
            "x": jax.ShapeDtypeStruct(self._problem.shape, jnp.uint8),
            "y": jax.ShapeDtypeStruct((), jnp.int32),
        }
        chosen = _learns if self._start.learn == "biases" else lora(_RANK, also=_is_last)
        return divide(self._loss, self._whole.given, row, chosen)

    def loss(self, params: ArrayTree, example: ArrayTree) -> jax.Array:
        return self._division.loss(params, example)

    @property
    def model(self) -> StartedModel:
        division = self._division
        return replace(
            self._whole,
            given=division.params,
            apply=lambda params, x: self._whole.apply(division.whole(params), x),
        )


def _is_last(path: str) -> bool:
    return path.split("/")[0] == "dense"


def _learns(path: str) -> bool:
    return _is_last(path) or path.split("/")[-1] in ("b", "shift", "scale")
