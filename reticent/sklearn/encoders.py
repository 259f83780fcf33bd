"""Columns of words, and whole tables, as numbers: what is not declared is found for a price."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from reticent.accounting import calibrate
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.core.errors import CannotMeet, InvalidArgument
from reticent.data.domain import Category, Column, Domain, Ignored, Label, Number
from reticent.data.encoding import Encoder
from reticent.data.files.frames import FrameTable
from reticent.data.files.table import RowBatch
from reticent.data.preparation import prepare, releases_for, require_enough_rows
from reticent.data.preparation.noise import PreparationNoise
from reticent.sklearn.private import PrivateEstimator, declared_examples
from reticent.sklearn.spending import Spending

# scikit-learn calls a matrix of rows X, in signatures that callers may use by name.
# ruff: noqa: N803

PUBLIC_TYPES = "the names and types of the columns are public"


class _Encoder(TransformerMixin, PrivateEstimator):
    """What both encoders share: a domain that is completed by paid releases, and rows encoded by it."""

    domain_: Domain
    norm_: float
    feature_names_in_: np.ndarray

    def fit(self, X: Any, y: Any = None) -> Any:
        """Finds what is not declared, and pays for it first.

        Raises:
            BudgetExceeded: the budget does not cover it.
            CannotMeet: there are too few rows to find anything at this price; nothing was paid.
        """
        table = self._read(X, reset=True)
        rows = self.content_mark(table)
        spending = self._open(rows)
        spending.assumptions.append(PUBLIC_TYPES)
        declared = self._declaration(table)
        found, ignored = (), ()
        if releases_for(declared):
            table = FrameTable(table.content, examples=declared_examples(self.examples, rows))
            declared, found, ignored = self._find(table, declared, spending)
        self.domain_ = declared
        self._encoder = Encoder(declared)
        self.norm_ = _longest_row(declared, self._encoder)
        self._close(spending, None, (*found, *ignored))
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The rows as float64, (rows, features): each depends on its own cells and on `domain_`."""
        check_is_fitted(self)
        table = self._read(X, reset=False)
        batch = table.content.select(list(self._encoder.columns))
        features = np.zeros((batch.num_rows, len(self._encoder.feature_names)))
        self._encoder.fill(RowBatch(0, batch, 1.0), table, features, None)
        return features

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """What each column of the result stands for."""
        check_is_fitted(self)
        return np.array(self._encoder.feature_names, object)

    @staticmethod
    def content_mark(table: FrameTable) -> np.ndarray:
        """An array with as many rows as the table, whose content stands for that of the table."""
        digest = hashlib.blake2b(table.content.serialize(), digest_size=16).digest()
        return np.broadcast_to(np.frombuffer(digest, np.uint64), (table.content.num_rows, 2))

    def _declaration(self, table: FrameTable) -> Domain:
        """What is declared of the table's columns; what is not has no value, or a kind to be found."""
        raise NotImplementedError

    def _find(
        self, table: FrameTable, declared: Domain, spending: Spending
    ) -> tuple[Domain, tuple[str, ...], tuple[str, ...]]:
        """Pays for the releases that complete a domain, and makes them."""
        if spending.delta == 0:
            raise InvalidArgument(
                "What a table holds is found by Gaussian noise, which has no pure guarantee.",
                remedy="Declare it, or pass a delta above 0.",
            )
        releases = releases_for(declared)
        # A replaced row may take its words away and bring others: each half costs its own delta.
        hidden = min(0.5 * spending.delta / spending.adjacency.reach, 0.05)

        def with_noise(multiplier: float) -> PreparationNoise:
            return PreparationNoise(
                noise_multiplier=multiplier, delta=hidden, releases=releases, adjacency=spending.adjacency
            )

        noise = with_noise(
            calibrate.noise_for(
                lambda value: with_noise(value).event,
                Neighbours(spending.adjacency),
                epsilon=spending.epsilon,
                delta=spending.delta,
                guess=5 / spending.epsilon,
            )
        )
        self._require_enough_rows(table, noise, declared)
        spending.pay(noise.event, f"fit {type(self).__name__}")
        prepared = prepare(table, noise, spending.keys, domain=declared, keeps_rest=False)
        return prepared.domain, prepared.found, prepared.ignored

    @staticmethod
    def _require_enough_rows(table: FrameTable, noise: PreparationNoise, declared: Domain) -> None:
        try:
            require_enough_rows(table, noise, table.row_count, declared)
        except CannotMeet as refused:
            raise CannotMeet(
                refused.happened,
                remedy="Declare the columns, columns={'age': rt.data.Number(bounds=(0, 120)), ...}, or ask "
                "for a larger epsilon.",
            ) from None

    def _read(self, X: Any, *, reset: bool) -> FrameTable:
        table = FrameTable(X)
        if table.content.num_rows < 1:
            raise InvalidArgument(
                f"{type(self).__name__} found array with 0 sample(s) while a minimum of 1 is required.",
                remedy="Pass at least one row.",
            )
        if reset:
            self.n_features_in_ = len(table.names)
            self.feature_names_in_ = np.array(table.names, object)
            return table
        is_matrix = not (isinstance(X, Mapping) or hasattr(X, "columns"))
        missing = [name for name in self._encoder.columns if name not in table.names]
        if missing or (is_matrix and len(table.names) != self.n_features_in_):
            raise InvalidArgument(
                f"X has {len(table.names)} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input{f': {missing[0]!r} is missing' * bool(missing)}.",
                remedy="Pass the columns that were fitted.",
            )
        return table

    def __getstate__(self) -> Any:
        """Without the encoder, which follows from the domain."""
        state: Any = super().__getstate__()
        return {key: value for key, value in state.items() if key != "_encoder"}

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        if "domain_" in state:
            self._encoder = Encoder(self.domain_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = tags.input_tags.string = True
        return tags


class PrivateEncoder(_Encoder):
    """Columns of words as columns of zeros and ones, one for each word.

    scikit-learn's `OneHotEncoder` reads its words from the rows, and a word that only one row has then shows.
    This one takes words that are declared, or finds those that enough rows have, for a price.

    Args:
        categories: the words of each column: a list of lists in the order of the columns, or a mapping from
            names. A column without any, or with None, has its words found, and the whole of epsilon goes
            into that.
        epsilon, delta, examples, adjacency, random_state, budget: as for `PrivateLogisticRegression`.

    Edge cases:
        a word that is not declared   a column of its own, "(other)"; of found words, only if there are many
        a missing cell                a column of its own, "(missing)"; where words were found, likewise
        no word is frequent enough    the column is left out, and `notes_` says so

    Guarantee:
        Publishing `domain_`, and with it the encoding, costs `event_`; declared words cost nothing. What is
        transformed is as private as it was before. A row has a length of at most `norm_`.

    Example:
        >>> encoder = PrivateEncoder(categories=[["red", "green"]])
        >>> encoder.fit_transform([["red"], ["green"], ["blue"]]).tolist()
        [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]
        >>> encoder.get_feature_names_out().tolist()
        ['x0 = red', 'x0 = green', 'x0 = (other)', 'x0 = (missing)']
    """

    def __init__(
        self,
        epsilon: float = 0.1,
        *,
        delta: float | None = None,
        examples: int | None = None,
        categories: Any = None,
        adjacency: str = "add-or-remove",
        random_state: Any = None,
        budget: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.examples = examples
        self.categories = categories
        self.adjacency = adjacency
        self.random_state = random_state
        self.budget = budget

    def _declaration(self, table: FrameTable) -> Domain:
        given = self.categories
        if given is None:
            given = {}
        if not isinstance(given, Mapping):
            if len(given) != len(table.names):
                raise InvalidArgument(
                    f"categories has {len(given)} lists, and X has {len(table.names)} columns.",
                    remedy="Pass one list per column, or a mapping from names to lists.",
                )
            given = dict(zip(table.names, given, strict=True))
        _require_known(given, table)
        words = {name: given.get(name) for name in table.names}
        return Domain(
            columns={
                name: Category(values=None if known is None else tuple(map(str, known)), missing=True)
                for name, known in words.items()
            },
            source="categories",
        )


class PrivateTableEncoder(_Encoder):
    """A mixed table as numbers, as `reticent train` encodes it.

    Numbers are clipped to bounds and scaled to [-1, 1], words become zeros and ones, dates are days, and
    missing cells have a column of their own or count as what is typical. What is not declared is found: which
    columns hold numbers, words or dates, the bounds of numbers, and the words that enough rows have.

    Args:
        columns: what is declared: a `Domain`, the file of one, or a mapping from names to kinds such as
            `Number(bounds=(0, 120))` and `Category(values=("yes", "no"))`. Columns that a mapping does not
            name are found. Columns that a domain does not name are not used, and nor is its target.
        epsilon, delta, examples, adjacency, random_state, budget: as for `PrivateLogisticRegression`. Where
            something is found, the whole of epsilon goes into that.

    Guarantee:
        Publishing `domain_`, and with it the encoding, costs `event_`; what is declared costs nothing. What
        is transformed is as private as it was before. A row has a length of at most `norm_`: declare that as
        the `norm` of the next estimator.

    Example:
        >>> from reticent.data import Category, Number
        >>> encoder = PrivateTableEncoder(
        ...     columns={"age": Number(bounds=(0, 100)), "job": Category(values=("nurse", "clerk"))}
        ... )
        >>> encoder.fit_transform({"age": [25, 150], "job": ["clerk", "nurse"]}).tolist()
        [[-0.5, 0.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0]]
    """

    def __init__(
        self,
        epsilon: float = 0.1,
        *,
        delta: float | None = None,
        examples: int | None = None,
        columns: Any = None,
        adjacency: str = "add-or-remove",
        random_state: Any = None,
        budget: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.examples = examples
        self.columns = columns
        self.adjacency = adjacency
        self.random_state = random_state
        self.budget = budget

    def _declaration(self, table: FrameTable) -> Domain:
        given = self.columns
        if isinstance(given, (str, os.PathLike)):
            given = Domain.read(given)
        if isinstance(given, Domain):
            kept = {name: column for name, column in given.columns.items() if name != given.target}
            _require_known(kept, table)
            return replace(given, columns=kept, target=None)
        given = {} if given is None else dict(given)
        _require_known(given, table)
        unknown = Number(looked_up=frozenset({"kind"}))
        columns: dict[str, Column] = {name: given.get(name, unknown) for name in table.names}
        if wrong := [name for name, column in columns.items() if isinstance(column, Label)]:
            raise InvalidArgument(
                f"'{wrong[0]}' is a label, and X holds no target.", remedy="Declare a category instead."
            )
        return Domain(columns=columns, ignore_case=not given, source="columns")


def _longest_row(domain: Domain, encoder: Encoder) -> float:
    """No row is longer: a column adds at most 1 to the square, and so do a date's month and weekday."""
    columns = [domain.columns[name] for name in encoder.columns]
    return math.sqrt(sum(1 + len(getattr(column, "parts", ())) for column in columns))


def _require_known(given: Mapping[str, Any], table: FrameTable) -> None:
    for name, column in given.items():
        if name not in table.names and not isinstance(column, Ignored):
            table.require([name])
