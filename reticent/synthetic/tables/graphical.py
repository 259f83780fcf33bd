"""A graphical model of noisy marginals: the distribution with the most entropy that explains them.

    model = estimate(marginals, sizes, rows)
    model.sample(1000, source)                # codes (rows, columns)

The model is a product of one factor for each measured marginal, p(x) ~ exp(sum eta_i[x_i]). Its factors
minimise

    log Z(eta) - sum eta_i . y_i / n + sum (k s_i / 2n) |eta_i|^2

for counts y_i with noise of deviation s_i: entropy is maximised, and a marginal may miss its counts by k s_i
for every unit of log-odds that its factor would need to meet them. So what noise may have made is smoothed
away, and what it cannot have made is kept. The problem is smooth and strictly convex: it has one solution,
which does not depend on where the search starts. All of this is post-processing.

Why not the package `mbi`, which solves the same kind of problem: see docs/decisions.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.synthetic.tables.junction import Clique, JunctionTree
from reticent.synthetic.tables.marginals import Marginal, combine

_SMOOTHING = 0.3  # k above: by how many deviations a count is missed for a unit of log-odds
ITERATIONS = 300

Factors = Mapping[Clique, np.ndarray]


@dataclass(frozen=True)
class GraphicalModel:
    """A distribution over codes: potentials on the nodes of a junction tree."""

    tree: JunctionTree
    potentials: Sequence[np.ndarray]

    @cached_property
    def beliefs(self) -> list[np.ndarray]:
        """The probabilities of each node's columns."""
        return self.tree.calibrate(self.potentials)[0]

    def pairs(self) -> dict[Clique, np.ndarray]:
        """The probabilities of every pair of columns, exactly."""
        columns = range(len(self.tree.sizes))
        found = {}
        for first in columns:
            tables = self.tree.with_each(self.beliefs, first)
            found |= {(first, second): tables[second] for second in columns if second > first}
        return found

    def singles(self) -> list[np.ndarray]:
        """The probabilities of each column."""
        homes = [(column, self.tree.home((column,))) for column in range(len(self.tree.sizes))]
        return [
            self.beliefs[node].sum(axis=self.tree.axes_without(node, (column,)))
            for column, node in homes
            if node is not None
        ]

    def given(self, values: Mapping[int, int]) -> GraphicalModel:
        """The distribution of rows that have these codes in these columns.

        Raises:
            InvalidArgument: there is no such column or code, or no such row can be.
        """
        potentials = list(self.potentials)
        for column, code in values.items():
            if not 0 <= column < len(self.tree.sizes) or not 0 <= code < self.tree.sizes[column]:
                raise InvalidArgument(
                    f"There is no code {code} in column {column}.", remedy="Give codes of the coder's sizes."
                )
            node = self.tree.home((column,))
            assert node is not None
            allowed = np.where(np.arange(self.tree.sizes[column]) == code, 0.0, -np.inf)
            potentials[node] = potentials[node] + self.tree.spread(allowed, (column,), node)
        model = GraphicalModel(self.tree, potentials)
        if values and not all(np.isfinite(belief).all() for belief in model.beliefs):
            raise InvalidArgument("No row has these values together.", remedy="Give fewer values, or others.")
        return model

    def log_probabilities(self, codes: Int[np.ndarray, "rows columns"]) -> Float[np.ndarray, " rows"]:
        """The log probability of each row of codes, by the chain of nodes given what they share: (rows,)."""
        total = np.zeros(len(codes))
        for node, columns in enumerate(self.tree.nodes):
            chances = self.tree.conditional(self.beliefs, node, self.tree.separators[node])
            total += np.log(np.maximum(chances[tuple(codes[:, columns].T)], 1e-300))
        return total

    def sample(self, rows: int, source: np.random.Generator) -> Int[np.ndarray, "{rows} columns"]:
        """Rows of codes, (rows, columns) int32: each of them a draw from the model.

        Node by node, given what is drawn already. Among rows that agree so far the draws are evenly spread
        over the probabilities, in an order that is shuffled again for every node: the counts come closer to
        the model than independent draws would, and columns that the model says are independent, given
        what they share, are so in the sample.
        """
        checks.count(rows=rows)
        codes = np.zeros((rows, len(self.tree.sizes)), np.int32)
        for node, columns in enumerate(self.tree.nodes):
            known = self.tree.separators[node]
            new = tuple(column for column in columns if column not in known)
            chances = self.tree.conditional(self.beliefs, node, known)
            axes = [columns.index(column) for column in (*known, *new)]
            table = chances.transpose(axes).reshape(-1, int(np.prod(self.tree.shape(new))))
            groups = np.zeros(rows, int)
            if known:
                groups = np.asarray(np.ravel_multi_index(tuple(codes[:, known].T), self.tree.shape(known)))
            cells = _draw(table, groups, source)
            codes[:, new] = np.stack(np.unravel_index(cells, self.tree.shape(new)), axis=1)
        return codes


def estimate(
    marginals: Iterable[Marginal],
    sizes: Sequence[int],
    rows: int,
    *,
    start: Factors | None = None,
    iterations: int = ITERATIONS,
) -> tuple[GraphicalModel, Factors]:
    """The model of noisy marginals, and its factors, with which a later search may start.

    Args:
        rows: the public number of rows.
        iterations: of the search, at most; a few are enough to see where a model is wrong.
    """
    from scipy.optimize import minimize
    from threadpoolctl import threadpool_limits

    problem = _Problem(combine(marginals), sizes, rows)
    # Its products are short: on a busy machine threads that wait for each other take four times as long.
    with threadpool_limits(limits=1, user_api="blas"):
        found = minimize(
            problem.loss,
            problem.start_from(start or {}),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": iterations, "maxcor": 20, "ftol": 1e-7, "gtol": 1e-6},
        )
    return GraphicalModel(problem.tree, problem.potentials(found.x)), problem.split(found.x)


class _Problem:
    """The convex problem: a vector of all factors, its loss and gradient."""

    def __init__(self, marginals: Sequence[Marginal], sizes: Sequence[int], rows: int) -> None:
        self.cliques = [marginal.columns for marginal in marginals]
        self.tree = JunctionTree.of(self.cliques, sizes)
        self._homes = [node for node in map(self.tree.home, self.cliques) if node is not None]
        lengths = [marginal.counts.size for marginal in marginals]
        self._ends = np.cumsum(lengths)[:-1]
        self._shares = np.concatenate([marginal.counts.ravel() for marginal in marginals]) / rows
        self._slack = np.repeat([_SMOOTHING * marginal.deviation / rows for marginal in marginals], lengths)

    def split(self, factors: np.ndarray) -> dict[Clique, np.ndarray]:
        tables = np.split(factors, self._ends)
        return {
            clique: table.reshape(self.tree.shape(clique))
            for clique, table in zip(self.cliques, tables, strict=True)
        }

    def start_from(self, known: Factors) -> np.ndarray:
        """Factors of an earlier search; a column that is new has that of its own counts, a group none."""
        shares, least = self.split(self._shares), self.split(self._slack)
        tables = []
        for clique in self.cliques:
            if clique in known:
                tables.append(known[clique])
            elif len(clique) == 1:
                tables.append(np.log(np.maximum(shares[clique], least[clique] + 1e-9)))
            else:
                tables.append(np.zeros(self.tree.shape(clique)))
        return np.concatenate([table.ravel() for table in tables])

    def potentials(self, factors: np.ndarray) -> list[np.ndarray]:
        tables = self.tree.zeros()
        for (clique, factor), node in zip(self.split(factors).items(), self._homes, strict=True):
            tables[node] += self.tree.spread(factor, clique, node)
        return tables

    def loss(self, factors: np.ndarray) -> tuple[float, np.ndarray]:
        beliefs, log_total = self.tree.calibrate(self.potentials(factors))
        expected = [
            beliefs[node].sum(axis=self.tree.axes_without(node, clique)).ravel()
            for clique, node in zip(self.cliques, self._homes, strict=True)
        ]
        penalty = self._slack * factors
        value = log_total - factors @ self._shares + 0.5 * (penalty @ factors)
        return float(value), np.concatenate(expected) - self._shares + penalty


def _draw(table: np.ndarray, groups: np.ndarray, source: np.random.Generator) -> np.ndarray:
    """A column of `table` for each row of it that `groups` names, with the probabilities of that row."""
    order = source.permutation(len(groups))
    order = order[np.argsort(groups[order], kind="stable")]  # group by group, shuffled within each
    sizes = np.bincount(groups, minlength=len(table))
    within = np.arange(len(groups)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    even = np.empty(len(groups))
    even[order] = (within + source.random(len(groups))) / np.repeat(sizes, sizes)
    steps = np.cumsum(table, axis=1)
    steps /= np.maximum(steps[:, -1:], 1e-300)
    steps[:, -1] = 1.0
    flat = (steps + np.arange(len(table))[:, None]).ravel()
    cells = np.searchsorted(flat, groups + even, side="right") - groups * table.shape[1]
    return np.clip(cells, 0, table.shape[1] - 1)
