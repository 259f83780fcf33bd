"""What a row can do to a release is bounded for every float, and the noise is as large as was priced."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from reticent.additive import AdditivePlan, Columns, sums
from reticent.additive import fit as fit_module
from reticent.additive.targets import MOST, UNIT, ClassTarget, NumberTarget
from reticent.core.keys import Keys

_WORST = [0.0, -0.0, 1.0, -1.0, 1e-300, 1e308, -1e308, math.inf, -math.inf, math.nan, 0.5, 5e-324, 3.4e38]


@pytest.fixture
def no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "whole_normals", lambda source, shape, *, levels: np.zeros(shape, np.int64))


def _columns() -> Columns:
    return Columns((-1, -2, 3))


def _hostile_rows() -> np.ndarray:
    """Rows of every hostile float in every place, as a table never encodes them."""
    rows = [list(row) for row in itertools.product(_WORST, repeat=2)]
    return np.array([[a, b, b, a, b, a] for a, b in rows], np.float64)


def test_every_float_has_a_cell():
    cells = _columns().cells_of(_hostile_rows())
    assert (cells >= 0).all()
    assert (cells < np.array(_columns().sizes)).all()
    single = np.concatenate([_columns().cells_of(row[None]) for row in _hostile_rows()])
    assert np.array_equal(cells, single)  # by itself a row is in the same cells


def test_a_cell_is_the_same_in_jax_and_numpy():
    import jax.numpy as jnp

    rows = np.random.default_rng(0).uniform(-1.2, 1.2, (500, 6)).astype(np.float32)
    assert np.array_equal(_columns().cells_of(rows), np.asarray(_columns().cells_of(rows, jnp)))


@pytest.mark.parametrize(
    "target", [NumberTarget((-2.0, 5.0)), NumberTarget((0.0, 1e308)), ClassTarget(2), ClassTarget(5)]
)
def test_residuals_are_bounded_for_every_target_and_every_score(target: Any):
    source = np.random.default_rng(1)
    if isinstance(target, NumberTarget):
        y = np.array(_WORST * 20)
    else:
        y = np.tile([-1, 0, 1, target.count - 1, target.count, 2**31 - 1, -(2**31)], 20)
    for scale in (0, 10, 2**16, 2**20, 2**40):
        scores = (source.uniform(-1, 1, (len(y), target.outputs)) * scale).astype(np.int64)
        for reach in (1, 1311, UNIT):
            found, is_inside = target.residuals(y, scores, reach)
            assert np.array_equal(found, np.trunc(found))
            assert (np.square(found).sum(axis=1) <= MOST**2).all()
            assert is_inside.dtype == bool
            one, _ = target.residuals(y[3:4], scores[3:4], reach)
            assert np.array_equal(one, found[3:4])  # by itself a row has the same residual
    start = target.start_sums(y)
    assert (np.square(start.astype(float)).sum(axis=1) <= MOST**2).all()


def test_a_row_without_a_target_adds_nothing():
    for target, y in ((NumberTarget((0.0, 1.0)), np.array([np.nan])), (ClassTarget(3), np.array([-1]))):
        residuals, is_inside = target.residuals(y, np.full((1, target.outputs), UNIT), UNIT)
        assert not residuals.any()
        assert not target.start_sums(y).any()
        assert not (isinstance(target, NumberTarget) and is_inside.any())


@pytest.mark.parametrize("constant", [sums.LEAST_CONSTANT, sums.WEIGHT])
@pytest.mark.parametrize("most", [1, 7])  # rows of a user: 1, or from 1 to 7, all alike for the longest user
def test_neighbours_sums_are_no_further_apart_than_the_bound(no_noise: None, constant: int, most: int):
    """Brute force: every unit is removed in turn, and the exact sums move by no more than was promised."""
    source = np.random.default_rng(2)
    bins = [source.integers(0, 5, 40), source.integers(0, 3, 40)]
    tables = sums.whole_tables(
        [source.uniform(-1, 1, (5, 4)) / 2, source.uniform(-1, 1, (3, 2)) / math.sqrt(2)],
        np.sqrt([0.3, 0.7]),
    )
    target = NumberTarget((-1.0, 1.0))
    y = np.array((_WORST * 4)[:40])
    residuals, is_inside = target.residuals(y, source.integers(-UNIT, UNIT, (40, 1)), UNIT // 3)
    users = (
        np.arange(40) if most == 1 else np.array([*source.permutation(np.repeat(range(9), 4))[:33], *[9] * 7])
    )
    if most > 1:
        alike = int(np.abs(residuals[:, 0]).argmax())
        for part in (*bins, residuals, is_inside):
            part[33:] = part[alike]

    def exact(rows: np.ndarray) -> np.ndarray:
        siblings = None if most == 1 else sums.rows_of_own_user(users[rows])
        own = [part[rows] for part in bins]
        return _exact(own, tables, residuals[rows], is_inside[rows], constant, siblings)

    everybody = exact(np.arange(40))
    bound, longest = MOST * sums.longest_row(tables, constant), 0.0
    for user in np.unique(users):
        without = exact(np.flatnonzero(users != user))
        longest = max(longest, float(np.linalg.norm(everybody - without)))
    assert 0.5 * bound < longest <= bound


def test_a_user_is_counted_once_in_each_column_and_starts_as_one_row(no_noise: None):
    """The rows of the worst user are all alike; without them every sum moves by no more than one row's."""
    source = np.random.default_rng(0)
    for rows in (1, 3, 1000):
        siblings = sums.rows_of_own_user(np.zeros(rows))
        place = [np.full(rows, 2), np.full(rows, 4)]
        counted = sums.release_counts(source, place, [3, 5], 1.0, siblings)
        length = math.hypot(*(float(np.linalg.norm(part.values)) for part in counted))
        assert 0.7 * math.sqrt(2) < length <= math.sqrt(2)
        start = sums.release_start(source, np.full((rows, 1), MOST), 1.0, siblings).values
        assert 0.7 * MOST < float(start[0]) <= MOST


def _exact(
    bins: Any, tables: Any, residuals: np.ndarray, is_inside: Any, constant: int, siblings: Any = None
) -> np.ndarray:
    """What a pass would release without noise, in whole numbers."""
    source = np.random.default_rng(0)
    found = sums.release_pass(source, bins, tables, residuals, is_inside, 1.0, constant, siblings)
    unit = MOST * sums.WEIGHT
    parts = [part.ravel() * unit for part in found.columns]
    parts += [found.constant * MOST * constant, [found.inside * MOST * sums._INSIDE]]
    return np.rint(np.concatenate(parts))


def test_sums_are_exact_and_do_not_depend_on_the_order(no_noise: None):
    source = np.random.default_rng(3)
    bins, residuals = [source.integers(0, 7, 5000)], source.integers(-MOST, MOST + 1, (5000, 1)).astype(float)
    tables = [source.integers(-1000, 1001, (7, 3))]
    expected = np.zeros(3, object)
    for place, residual in zip(bins[0], residuals[:, 0], strict=True):
        expected += int(residual) * tables[0][place].astype(object)
    for order in (np.arange(5000), source.permutation(5000)):
        found = sums.release_pass(
            source, [bins[0][order]], tables, residuals[order], np.ones(5000, bool), multiplier=1.0
        )
        assert [int(value) for value in found.columns[0][:, 0] * MOST * sums.WEIGHT] == list(expected)


def test_a_row_that_is_too_long_is_noticed():
    with pytest.raises(AssertionError, match="more than it may"):
        sums.require_bounded(np.array([[MOST, 1.0]]))
    with pytest.raises(AssertionError, match="more than it may"):
        sums.require_bounded(np.array([[0.5]]))


def has_the_noise_that_was_priced(multiplier: float = 2.0) -> bool:
    """Whether sums of no rows vary as much as promised; wrong by chance below 1e-8 (6 deviations)."""
    tables = sums.whole_tables([np.eye(40), np.eye(2)], np.sqrt([0.5, 0.5]))
    nobody = [np.zeros(0, np.int64)] * 2
    drawn, source = [], np.random.default_rng(4)
    for _ in range(100):
        found = sums.release_pass(source, nobody, tables, np.zeros((0, 1)), np.zeros(0, bool), multiplier)
        drawn.append(np.concatenate([part.ravel() for part in found.columns]))
    values = np.concatenate(drawn)
    wanted = multiplier * sums.longest_row(tables) / sums.WEIGHT
    return bool(np.abs(np.mean(values**2) / wanted**2 - 1) < 6 * math.sqrt(2 / len(values)) + 0.04)


def test_the_noise_is_as_large_as_was_priced():
    assert has_the_noise_that_was_priced()


def test_half_the_noise_is_noticed(monkeypatch: pytest.MonkeyPatch):
    honest = sums.whole_normals
    monkeypatch.setattr(
        sums, "whole_normals", lambda source, shape, *, levels: honest(source, shape, levels=levels) // 2
    )
    assert not has_the_noise_that_was_priced()


def test_counts_have_noise_for_one_row_in_every_column():
    source, sizes = np.random.default_rng(5), [33] * 9
    found = sums.release_counts(source, [np.zeros(7, np.int64)] * 9, sizes, multiplier=10.0)
    values = np.concatenate([part.values[1:] for part in found])
    assert found[0].deviation == pytest.approx(30, rel=0.02)
    assert np.std(values) == pytest.approx(30, rel=6 / math.sqrt(2 * len(values)))


def test_every_release_of_a_fit_has_the_noise_of_its_event(monkeypatch: pytest.MonkeyPatch):
    """A second derivation of the price: what was drawn, release by release, beside what the event says."""
    drawn: list[float] = []
    honest = sums._add_noise

    def watched(source: Any, parts: Any, max_norm: float, multiplier: float) -> Any:
        found = honest(source, parts, max_norm, multiplier)
        drawn.append(found.deviation / max_norm)
        return found

    monkeypatch.setattr(sums, "_add_noise", watched)
    plan = AdditivePlan(passes=5, noise_multiplier=3.0)
    x = np.random.default_rng(6).uniform(-1, 1, (300, 2))
    fit_module(
        x,
        x[:, 0],
        NumberTarget((-1, 1)),
        columns=Columns.of_numbers(2),
        plan=plan,
        examples=300,
        delta=1e-5,
        keys=Keys.seeded(0),
    )
    assert len(drawn) == 3 + 5
    assert min(drawn) >= 3.0
    # Gaussians compose by the squares of 1 / multiplier: all together cost no more than one of 3.0.
    assert math.sqrt(1 / sum(1 / value**2 for value in drawn)) == pytest.approx(3.0, rel=0.02)
    assert math.sqrt(1 / sum(1 / value**2 for value in drawn)) >= 3.0
