"""A frozen model that turns one record into numbers.

An extractor is given one record at a time, and never a batch. So no row of features depends on another
record, whatever the model does with a batch, and no compiler rounds a record by its neighbours or its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from reticent.core.errors import DataError

Takes = Literal["images", "texts", "rows"]

_AT_ONCE = 64  # rows of one compiled loop


@dataclass(frozen=True, kw_only=True)
class Extractor:
    """A public model and how it is asked.

    Args:
        name: what people call it; it stands in the guarantee's sentence.
        digest: of the model and of all settings that change what it says, in hexadecimal.
        apply: one record to one row of numbers. Not a batch.
        width: how many numbers; None if the first record shows it.
        side: height and width in pixels of the images that it takes, where it takes no others.
        takes: what a record is, where that is known.
        is_model: something was learned from data; not so of a hash.
        apply_rows: a faster way for `at_once` rows that still computes each by itself.

    Example:
        >>> mean = Extractor(name="mean", digest="00", apply=lambda image: image.mean(keepdims=True))
        >>> mean.assumption
        'the model that makes the features (mean, digest 00) never saw a private record'
    """

    name: str
    digest: str
    apply: Callable[[Any], Any]
    width: int | None = None
    side: tuple[int, int] | None = None
    takes: Takes | None = None
    is_model: bool = True
    apply_rows: Callable[[np.ndarray], np.ndarray] | None = None
    at_once: int = _AT_ONCE

    @property
    def assumption(self) -> str:
        """What the guarantee of a model on these features takes for granted."""
        return (
            f"the model that makes the features ({self.name}, digest {self.digest[:16]}) never saw a "
            "private record"
        )

    def row(self, record: Any) -> np.ndarray:
        """The features of one record, (width,) float32; zeros where the model gave no finite number.

        Raises:
            DataError: the model did not give one row of numbers.
        """
        try:
            found = np.asarray(self.apply(record), np.float32)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"'{self.name}' does not make numbers of a record: {error}.",
                remedy="Give a function from one record to a row of numbers.",
            ) from error
        if found.ndim != 1 or not found.size:
            raise DataError(
                f"'{self.name}' makes an array of shape {found.shape} of one record.",
                remedy="Give a function from one record, not from a batch, to one row of numbers.",
            )
        if self.width is not None and len(found) != self.width:
            raise DataError(
                f"'{self.name}' makes {len(found)} numbers of a record, and made {self.width} of another.",
                remedy="Give a function that makes as many of each.",
            )
        return finite_rows(found)


def finite_rows(rows: np.ndarray) -> np.ndarray:
    """The same, with zeros for numbers that are not finite: such a record must not fail a run."""
    return np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0)


def from_function(function: Callable[[Any], Any], *, name: str, digest: str) -> Extractor:
    """A function of one record as an extractor.

    Args:
        function: from one record (an image, a text, a row) to a row of numbers. It has no memory: what it
            says of a record may not depend on what it was asked before.
        digest: of the weights behind it: features are kept under it, so it changes when they do.

    Example:
        >>> extractor = from_function(lambda text: [len(text), text.count(" ")], name="lengths", digest="1")
        >>> extractor.row("one two").tolist()
        [7.0, 1.0]
    """
    return Extractor(name=name, digest=digest, apply=function)


def from_jax(function: Callable[[Any], Any], *, name: str, digest: str) -> Extractor:
    """A JAX function of one record as an extractor: compiled once, as a loop that sees one row at a time.

    Example:
        >>> import jax.numpy as jnp
        >>> extractor = from_jax(lambda x: jnp.stack([x.sum(), x.max()]), name="two", digest="2")
        >>> extractor.row(np.array([1.0, 2.0], np.float32)).tolist()
        [3.0, 2.0]
    """
    import jax

    one = jax.jit(function)

    @jax.jit
    def loop(rows: jax.Array) -> jax.Array:
        # Not vmap: a batch may be rounded by its rows' places.
        return jax.lax.map(function, rows)

    return Extractor(
        name=name, digest=digest, apply=one, apply_rows=lambda rows: finite_rows(np.asarray(loop(rows)))
    )
