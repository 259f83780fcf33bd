"""Private synthetic tables: measure what was planned, model it, sample any number of rows.

coder = Coder(domain, ignore=["name"])
codes = coder.encode(table)
made = fit(codes, plan(coder.sizes, len(codes), 1.0, 1e-9, target=coder.target), keys=Keys.from_os())
coder.decode(made.sample(10_000, seed), source)
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from jaxtyping import Float, Int

from reticent.core.errors import BudgetExceeded, DataError, InvalidArgument
from reticent.core.generators import generator
from reticent.core.keys import Keys
from reticent.core.observer import OnProgress
from reticent.distributed.consensus import require_alone
from reticent.mechanisms.events import Event, ExponentialMechanism, Gaussian
from reticent.synthetic.tables import storage
from reticent.synthetic.tables.codes import check_codes
from reticent.synthetic.tables.column_pairs import candidates, errors, joins, select, small_enough
from reticent.synthetic.tables.graphical import ITERATIONS, Factors, GraphicalModel, estimate
from reticent.synthetic.tables.junction import Clique
from reticent.synthetic.tables.marginals import Marginal, measure
from reticent.synthetic.tables.merging import Merging, merging_of
from reticent.synthetic.tables.planning import Round, TablePlan, plan

__all__ = ["TableModel", "TablePlan", "fit", "plan"]

_LOOK = 60  # iterations of the search between two rounds
_Kind = TypeVar("_Kind", Gaussian, ExponentialMechanism)


@dataclass(frozen=True)
class TableModel:
    """A distribution over rows of codes, made of noisy counts: everything in it may be published.

    Args:
        counts: the noisy counts of each column, as they were released; None in files that do not have them.
    """

    plan: TablePlan
    model: GraphicalModel
    merging: Merging
    counts: tuple[np.ndarray, ...] | None = None

    def sample(
        self, n: int, source: int | np.random.Generator, given: Mapping[int, int] | None = None
    ) -> np.ndarray:
        """Rows of codes, (n, columns) int32; any number, at no further cost.

        Args:
            source: a generator, or a seed for one.
            given: codes that some columns shall have, such as {target: 1} for rows of one class.
        """
        source = np.random.default_rng(source)
        given = dict(given or {})
        for column, code in given.items():
            if not 0 <= column < len(self.plan.sizes) or not 0 <= code < self.plan.sizes[column]:
                raise InvalidArgument(
                    f"There is no code {code} in column {column}.",
                    remedy=f"Columns count from 0 to {len(self.plan.sizes) - 1}, codes up to plan.sizes.",
                )
        groups = {column: int(self.merging.groups[column][code]) for column, code in given.items()}
        codes = self.merging.split_groups(self.model.given(groups).sample(n, source), source)
        for column, code in given.items():
            codes[:, column] = code
        return codes

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model into a file, without a seed, that `TableModel.load` reads."""
        storage.write(path, self.plan, self.model, self.merging, self.counts)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TableModel:
        """A model from its file; reading one executes nothing.

        Raises:
            DataError: there is no such file, or it is damaged.
        """
        return cls(*storage.read(path))

    def log_probabilities(self, codes: Int[np.ndarray, "rows columns"]) -> Float[np.ndarray, " rows"]:
        """How likely each row of codes is under the model: (rows,)."""
        codes = check_codes(codes, self.plan.sizes)
        shares = [share[codes[:, column]] for column, share in enumerate(self.merging.shares)]
        return self.model.log_probabilities(self.merging.merge(codes)) + np.log(shares).sum(axis=0)

    @property
    def single_deviation(self) -> float:
        """The deviation of the noise on each count of a column."""
        return self.plan.rows_per_user * self.plan.single_deviation

    def pairs(self) -> dict[Clique, np.ndarray]:
        """The probabilities of every pair of columns, by which a sample can be tested."""
        return {pair: self.merging.spread(table, pair) for pair, table in self.model.pairs().items()}

    def singles(self) -> list[np.ndarray]:
        """The probabilities of each column."""
        return [self.merging.spread(table, (at,)) for at, table in enumerate(self.model.singles())]


def fit(
    codes: Int[np.ndarray, "rows columns"],
    plan: TablePlan,
    *,
    keys: Keys,
    on_progress: OnProgress = lambda done: None,
) -> TableModel:
    """A model of a table, from as many noisy releases as were planned.

    Guarantee:
        Costs `plan.event` under add-or-remove, of a record, or of a user with at most `plan.rows_per_user`
        records. Every draw takes its event from the plan before it looks at the codes, in the plan's order;
        there is no other way to draw. `keys` serve nothing else.

    Raises:
        DataError: the codes do not have the plan's columns, or more than twice as many rows. Fewer are not
            an error: coins may have held out any number of them.
        KeyReuse: `keys` were used before.

    Example:
        >>> from reticent.synthetic.tables.planning import plan
        >>> codes = np.random.default_rng(0).integers(0, 3, (500, 2)).astype(np.int32)
        >>> asked = plan((3, 3), rows=500, epsilon=1.0, delta=1e-6)
        >>> fit(codes, asked, keys=Keys.seeded(0)).sample(4, 0).shape
        (4, 2)
    """
    require_alone("A generator of tables")
    codes = check_codes(codes, plan.sizes)
    if not (len(codes) <= 2 * plan.rows + 1):
        raise DataError(
            f"The plan is for {plan.rows} rows, and there are {len(codes)}.",
            remedy="Plan for the number of rows of this table.",
        )
    return _Fitting(codes, plan, generator(keys), on_progress).run()


class _Fitting:
    """The releases about one table, and what has been learned from them so far."""

    def __init__(
        self, codes: np.ndarray, plan: TablePlan, source: np.random.Generator, on_progress: OnProgress
    ) -> None:
        self._codes, self._plan, self._source, self._on_progress = codes, plan, source, on_progress
        self._planned = iter(plan.releases)
        self._stages, self._done = len(plan.rounds) + 2, 0
        self._marginals: list[Marginal] = []
        self._factors: Factors = {}

    def run(self) -> TableModel:
        plan, columns = self._plan, range(len(self._plan.sizes))
        singles = [self._measure_one(self._codes, plan.sizes, (column,)) for column in columns]
        merging = merging_of(singles, plan.ordered)
        self._marginals = [merging.counts(single) for single in singles]
        rows, sizes = merging.merge(self._codes), merging.sizes
        if plan.target is not None:
            others = [column for column in columns if column != plan.target]
            self._measure(rows, sizes, [_pair(column, plan.target) for column in others])
        for item in plan.rounds:
            self._measure(rows, sizes, self._select(rows, sizes, item))
        model = self._estimate(sizes)
        if next(self._planned, None) is not None:
            raise AssertionError("a planned release was not made")
        self._on_progress(1.0)
        return TableModel(plan, model, merging, tuple(single.counts for single in singles))

    def _next(self, kind: type[_Kind]) -> _Kind:
        """The next event of the plan, which has to be of this kind: whatever is drawn was paid for."""
        event: Event | None = next(self._planned, None)
        if not isinstance(event, kind):
            raise BudgetExceeded(
                f"A release by {kind.__name__} was not planned here.", remedy="Report this: it is a bug."
            )
        return event

    def _measure(self, rows: np.ndarray, sizes: tuple[int, ...], pairs: list[Clique]) -> None:
        self._marginals += [self._measure_one(rows, sizes, pair) for pair in pairs]

    def _measure_one(self, rows: np.ndarray, sizes: tuple[int, ...], columns: Clique) -> Marginal:
        event, each = self._next(Gaussian), self._plan.rows_per_user
        return measure(rows, columns, sizes, event, self._source, rows_per_user=each)

    def _estimate(self, sizes: tuple[int, ...], iterations: int = ITERATIONS) -> GraphicalModel:
        model, self._factors = estimate(
            self._marginals, sizes, self._plan.rows, start=self._factors, iterations=iterations
        )
        self._done += 1
        self._on_progress(min(self._done / self._stages, 0.99))
        return model

    def _select(self, rows: np.ndarray, sizes: tuple[int, ...], item: Round) -> list[Clique]:
        """The pairs of one round, by the model of everything before it."""
        is_tree = self._plan.method == "mst"
        pairs = candidates(len(sizes), self._plan.target if is_tree else None)
        expected = self._estimate(sizes, _LOOK).pairs()
        measured = [marginal.columns for marginal in self._marginals]
        is_small = small_enough(measured, sizes)

        def fits(chosen: Sequence[Clique], pair: Clique) -> bool:
            return is_small(chosen, pair) and (not is_tree or joins(chosen, pair))

        each = self._plan.rows_per_user
        scores = errors(rows, pairs, expected, sizes, rows=self._plan.rows, deviation=each * item.deviation)
        events = (self._next(ExponentialMechanism) for _ in range(item.choices))
        return select(scores, fits, events, self._source, again=measured, max_change=float(each))


def _pair(first: int, second: int) -> Clique:
    return (first, second) if first < second else (second, first)
