"""Rows scaled to norm 1, with the constant feature among them: what every proof starts from.

A row x becomes (x / norm, s) / sqrt(1 + s^2), where the constant s stands for the intercept, so that no row
is longer than 1. The intercept is then one weight like the others: regularised, noised, inside the proof.

The proofs take the rows that are computed here as exact. So "no longer than 1" is meant of the floats: all
are shrunk by what rounding may have added.

The number of records is a declared one. Neighbours may have a different number of rows, and each proof
compares two objectives with the same divisor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from reticent.convex.losses import Loss
from reticent.core import checks
from reticent.core.errors import DataError, InvalidArgument

INTERCEPT = 0.25  # the constant feature, beside rows of norm 1: fixed, so public
_SMALLEST_NORM, _LARGEST_NORM = 1e-300, 1e300
_SPARSE_BELOW = 0.1  # the share of entries that are not zero
_ROWS_AT_ONCE = 1 << 16
_BLOCK = 256  # rows that are added up together
_UNIT = 2.0**-52  # twice the largest relative error of an operation


@dataclass(frozen=True, kw_only=True)
class ConvexProblem:
    """A loss and rows of norm at most 1.

    Args:
        rows: (row_count, features), the constant feature last; dense, or sparse where that pays.
        examples: the declared, public number of records: what sums over rows are divided by.
        clipped: how many rows were longer than the norm: private.
    """

    loss: Loss
    rows: Any
    labels: np.ndarray
    norm: float
    has_intercept: bool
    examples: int
    clipped: int

    @classmethod
    def of(
        cls,
        loss: Loss,
        x: Any,  # (rows, features), dense or sparse
        y: ArrayLike,  # (rows,)
        *,
        norm: float,
        intercept: bool = True,
        examples: int | None = None,
    ) -> ConvexProblem:
        """Checks the data, shortens what is longer than `norm`, and rescales.

        Args:
            examples: the declared number of records. There may be fewer rows, even none, and more. Unless
                given, it is the number of rows.

        Guarantee:
            Every row has length at most 1, for all finite entries. The computed length of d numbers is off by
            a factor of less than 1 + (d + 8) 2^-53, and the product with it by less: rows are shrunk by
            1 - (d + 16) 2^-52.

        Raises:
            DataError: an entry is NaN or infinite, or the shapes do not fit together.
            InvalidArgument: the norm is so small or large that floats cannot divide by it.
        """
        checks.positive(norm=norm)
        if not _SMALLEST_NORM <= norm <= _LARGEST_NORM:
            raise InvalidArgument(
                f"A norm of {norm:g} is beyond what floats can divide by.",
                remedy=f"Scale the features so that it is between {_SMALLEST_NORM:g} and {_LARGEST_NORM:g}.",
            )
        if examples is not None:
            checks.count(examples=examples)
        x, labels = _matrix(x, fewest=1 if examples is None else 0), loss.check_labels(y)
        if x.shape[0] != len(labels):
            raise DataError(
                f"There are {x.shape[0]} rows and {len(labels)} labels.", remedy="Pass one label per row."
            )
        lengths = _lengths(x, norm)
        constant = INTERCEPT if intercept else 0.0
        shrunk = 1 - (x.shape[1] + 16) * _UNIT
        factors = shrunk / math.hypot(1.0, constant) / norm / np.maximum(lengths, 1.0)
        column = np.full((len(labels), int(intercept)), shrunk * constant / math.hypot(1.0, constant))
        return cls(
            loss=loss,
            rows=_rescale(x, factors, column),
            labels=labels,
            norm=norm,
            has_intercept=intercept,
            examples=len(labels) if examples is None else examples,
            clipped=int(np.count_nonzero(lengths > 1 + 1e-12)),
        )

    @property
    def row_count(self) -> int:
        """How many rows there are: private, since a neighbour may have one more or one less."""
        return self.rows.shape[0]

    @property
    def features(self) -> int:
        """The number of columns, the constant one included."""
        return self.rows.shape[1]

    @property
    def parameters(self) -> int:
        return self.features * self.loss.outputs

    @cached_property
    def transposed(self) -> Any:  # (features, row_count)
        return self.rows.T.tocsr() if sparse.issparse(self.rows) else self.rows.T

    def risk(self, weights: np.ndarray) -> float:
        """The mean loss over all rows, and 0 for none: private."""
        total = float(self.loss.value(self.rows @ weights, self.labels).sum())
        return total / max(self.row_count, 1)

    def in_users_units(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (features, outputs) and intercept (outputs,) for rows as they were given."""
        constant = INTERCEPT if self.has_intercept else 0.0
        weights = weights / math.hypot(1.0, constant)
        if not self.has_intercept:
            return weights / self.norm, np.zeros(self.loss.outputs)
        return weights[:-1] / self.norm, constant * weights[-1]

    def every(self, stride: int) -> ConvexProblem:
        """Each `stride`-th record, to start a search from."""
        return ConvexProblem(
            loss=self.loss,
            rows=self.rows[::stride].copy(),
            labels=self.labels[::stride],
            norm=self.norm,
            has_intercept=self.has_intercept,
            examples=max(round(self.examples / stride), 1),
            clipped=0,
        )


def _matrix(x: Any, *, fewest: int) -> Any:  # (rows, features)
    """Checks a matrix: float64 without NaN, at least `fewest` rows, dense or in compressed rows."""
    try:
        matrix: Any = x.tocsr().astype(np.float64) if sparse.issparse(x) else np.asarray(x, np.float64)
        if sparse.issparse(matrix):
            matrix.sum_duplicates()  # an entry that is stored in parts counts as their sum
    except (TypeError, ValueError):
        raise DataError(
            "The rows hold something that is not a number.", remedy="Encode categories as numbers first."
        ) from None
    if matrix.ndim != 2 or not (matrix.shape[0] >= fewest and matrix.shape[1] >= 1):
        raise DataError(
            f"Rows are a table with at least one row and one column; these have shape {matrix.shape}.",
            remedy="Pass a matrix (rows, features). It may have no rows if `examples` is declared.",
        )
    if sparse.issparse(matrix) and matrix.shape[0] == 0:
        return matrix.toarray()  # SciPy takes no maximum of nothing
    values = matrix.data if sparse.issparse(matrix) else matrix
    if not np.isfinite(values).all():
        raise DataError("A row holds NaN or infinity.", remedy="Fill the gaps or remove such rows first.")
    return matrix


def _lengths(x: Any, norm: float) -> np.ndarray:  # (rows,)
    """Each row's norm over `norm`, without overflow: a length that underflows would escape the clip."""
    if sparse.issparse(x):
        largest = abs(x).max(axis=1).toarray().ravel()
    else:
        largest = np.maximum(x.max(axis=1), -x.min(axis=1))
    unit = np.where(largest > 0, largest, 1.0)
    if sparse.issparse(x):
        # Divided and not multiplied by 1 / unit, which for the smallest floats is infinite.
        in_units = sparse.csr_array(
            (x.data / np.repeat(unit, np.diff(x.indptr)), x.indices, x.indptr), x.shape
        )
        squares = np.asarray(in_units.multiply(in_units).sum(axis=1)).ravel()
    else:
        squares = np.empty(len(x))
        for start in range(0, len(x), _ROWS_AT_ONCE):
            part = x[start : start + _ROWS_AT_ONCE] / unit[start : start + _ROWS_AT_ONCE, None]
            squares[start : start + _ROWS_AT_ONCE] = np.einsum("ij,ij->i", part, part)
    with np.errstate(over="ignore"):  # what is infinitely long becomes zeros
        return (unit / norm) * np.sqrt(squares) * (largest > 0)


def _rescale(x: Any, factors: np.ndarray, column: np.ndarray) -> Any:
    """The rows times their factors, beside the constant column."""
    if sparse.issparse(x):
        if x.nnz < _SPARSE_BELOW * x.shape[0] * x.shape[1]:
            return sparse.hstack([sparse.diags_array(factors) @ x, sparse.csr_array(column)], format="csr")
        x = x.toarray()
    rows = np.empty((x.shape[0], x.shape[1] + column.shape[1]))
    np.multiply(x, factors[:, None], out=rows[:, : x.shape[1]])
    rows[:, x.shape[1] :] = column
    return rows


def sum_over_rows(count: int, of_block: Callable[[slice], Any], block: int = _BLOCK) -> Any:
    """The sum of `of_block` over blocks of rows, and of blocks in pairs.

    A sum of m numbers in any order is off by at most about m 2^-53 times the sum of their sizes. With blocks
    of 256 rows, added up as a tree, m is little more than 256 for any number of rows. Larger blocks take
    less time.

    Guarantee:
        Where `of_block` adds up products over its rows, in any order, an entry is off the exact sum by at
        most `roundings(count, block)` times half a unit in the last place of the sum of the products' sizes.
    """

    def between(first: int, last: int) -> Any:
        if last - first == 1:
            return of_block(slice(first * block, min(last * block, count)))
        middle = (first + last) // 2
        return between(first, middle) + between(middle, last)

    return between(0, _blocks(count, block))


def roundings(count: int, block: int = _BLOCK) -> int:
    """How often a product that enters the sum is rounded on its way: a block, the tree and itself."""
    return block + math.ceil(math.log2(_blocks(count, block))) + 2


def _blocks(count: int, block: int) -> int:
    return max(-(-count // block), 1)
