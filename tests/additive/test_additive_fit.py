"""Curves are learned, bands are honest, and what cannot be learned is not invented."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from reticent.additive import AdditiveFit, AdditivePlan, Columns, fit
from reticent.additive.bins import PARTS, bins_of_numbers, bins_of_words, finer_parts, parts_of_numbers
from reticent.additive.columns import NUMBER_CELLS, STEPS
from reticent.additive.curves import features_of
from reticent.additive.smoothing import smooth
from reticent.additive.sums import Noisy
from reticent.additive.targets import MOST, UNIT, ClassTarget, NumberTarget
from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys, Stream

_ROWS = 8000


def _table(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two numbers that bend, one that tells nothing, and a word of three: no line explains the target."""
    source = np.random.default_rng(seed)
    numbers = source.uniform(-1, 1, (_ROWS, 3))
    words = source.integers(0, 3, _ROWS)
    y = np.cos(3 * numbers[:, 0]) + numbers[:, 1] ** 2 + np.array([0.0, 0.8, -0.8])[words]
    return np.column_stack([numbers, np.eye(3)[words]]), y + source.normal(0, 0.2, _ROWS)


def _fit(x: Any, y: Any, target: Any, epsilon: float = 1.0, kinds: Any = (-1, -1, -1, 3)) -> AdditiveFit:
    plan = AdditivePlan.for_budget(epsilon=epsilon, delta=1e-6, examples=_ROWS)
    return fit(
        x, y, target, columns=Columns(kinds), plan=plan, examples=_ROWS, delta=1e-6, keys=Keys.seeded(7)
    )


def _explained(found: AdditiveFit, target: NumberTarget, x: np.ndarray, y: np.ndarray) -> float:
    predicted = found.model.scores(x)[:, 0] * target.half + target.middle
    return float(1 - np.mean((predicted - y) ** 2) / np.var(y))


def test_a_curved_table_is_learned_where_lines_fail():
    x, y = _table()
    target = NumberTarget((-2.5, 3.5))
    found = _fit(x, y, target)
    assert found.guarantee.epsilon <= 1
    lines = np.linalg.lstsq(np.column_stack([x, np.ones(_ROWS)]), y, rcond=None)[0]
    by_lines = 1 - np.mean((np.column_stack([x, np.ones(_ROWS)]) @ lines - y) ** 2) / np.var(y)
    unseen, wanted = _table(seed=1)
    assert by_lines < 0.65
    assert _explained(found, target, unseen, wanted) > 0.9  # the noise of the target leaves 0.96


def test_classes_are_learned_two_or_more():
    x, y = _table()
    for cuts in ([0.6], [0.0, 1.2]):
        labels = np.searchsorted(cuts, y)
        found = _fit(x, labels, ClassTarget(len(cuts) + 1))
        scores = found.model.scores(x)
        chosen = (scores[:, 0] > 0).astype(int) if len(cuts) == 1 else scores.argmax(axis=1)
        assert np.mean(chosen == labels) > np.bincount(labels).max() / _ROWS + 0.2


def test_bands_are_about_as_wide_as_the_noise():
    """The same rows, fitted again with other noise: curves differ by about what their bands say."""
    x, y = _table()
    plan = AdditivePlan.for_budget(epsilon=1.0, delta=1e-6, examples=_ROWS, passes=20)
    fits = [
        fit(
            x,
            y,
            NumberTarget((-2.5, 3.5)),
            columns=Columns((-1, -1, -1, 3)),
            plan=plan,
            examples=_ROWS,
            delta=1e-6,
            keys=Keys.seeded(seed),
        )
        for seed in range(6)
    ]
    curves = np.stack([found.model.curve for found in fits])
    said = np.mean([found.model.deviation.mean() for found in fits])
    assert 0.4 < np.std(curves, axis=0, ddof=1).mean() / said < 2.5


def test_a_column_that_tells_nothing_stays_flat():
    x, y = _table()
    shapes = _fit(x, y, NumberTarget((-2.5, 3.5)), epsilon=4.0).model.shapes()
    spans = [float(np.ptp(shape.values[:-1])) for shape in shapes]
    assert spans[2] < 0.1 * min(spans[0], spans[1])


def test_shapes_hold_everything_that_is_predicted():
    x, y = _table()
    model = _fit(x, y, NumberTarget((-2.5, 3.5))).model
    total = np.full(len(x), float(model.constant[0]))
    for shape, column in zip(model.shapes(), range(4), strict=True):
        if shape.cells:
            place = x[:, 3:].argmax(axis=1)
            owner = {cell: at for at, group in enumerate(shape.cells) for cell in group}
            total += shape.values[[owner[int(cell)] for cell in place], 0]
        else:
            bins = np.clip(np.searchsorted(shape.edges, x[:, column], side="right") - 1, 0, None)
            total += shape.values[np.minimum(bins, len(shape.edges) - 2), 0]
    assert np.mean(np.abs(total - model.scores(x)[:, 0])) < 1e-3  # edges lie between cells


def test_no_rows_and_hostile_rows_are_fitted():
    for rows in (0, 1, 50):
        x = np.full((rows, 6), 1e308)
        found = _fit(x, np.full(rows, np.inf), NumberTarget((0.0, 1.0)))
        assert np.isfinite(found.model.curve).all()
        assert np.isfinite(_fit(x, np.full(rows, 9), ClassTarget(3)).model.curve).all()


def test_nothing_is_released_before_it_is_paid():
    def refuse(event: Any) -> None:
        raise PermissionError

    keys = Keys.seeded(0)
    plan = AdditivePlan(passes=8, noise_multiplier=1.0)
    terms: dict[str, Any] = {"plan": plan, "examples": 10, "delta": 1e-5, "keys": keys, "pay": refuse}
    with pytest.raises(PermissionError):
        fit(np.zeros((10, 1)), np.zeros(10), NumberTarget((0, 1)), columns=Columns((-1,)), **terms)
    keys.take(Stream.NOISE, steps=range(1))  # no key was used


def test_too_many_columns_are_refused_before_anything_is_paid():
    plan = AdditivePlan(passes=200, noise_multiplier=1.0)
    with pytest.raises(InvalidArgument, match="too many for 200 passes"):
        fit(
            np.zeros((10, 250)),
            np.zeros(10),
            ClassTarget(30),
            columns=Columns.of_numbers(250),
            plan=plan,
            examples=10,
            delta=1e-5,
            keys=Keys.seeded(0),
            pay=lambda event: pytest.fail("paid"),
        )


# Bins


def test_bins_are_finer_where_rows_are():
    source = np.random.default_rng(0)
    cells = Columns((-1,)).cells_of(source.exponential(0.02, (20_000, 1)) * 2 - 1)[:, 0]
    coarse = Noisy(np.bincount(parts_of_numbers()[cells], minlength=PARTS + 1), 10.0)
    parts = finer_parts(coarse, 20_000)
    assert (np.diff(parts) >= 0).all()
    counts = Noisy(np.bincount(parts[cells], minlength=parts[-1] + 1), 10.0)
    bins = bins_of_numbers(parts, coarse, counts, 20_000)
    assert len(bins.mass) > 15
    assert bins.mass.sum() == pytest.approx(1)
    assert (np.diff(bins.of_cell) >= 0).all()
    assert len(bins.of_cell) == NUMBER_CELLS == STEPS + 2


def test_loud_counts_never_make_one_bin_of_a_column():
    """Noise of 60 rows in each part, on 1,000 rows: by the counts alone, most rows often lay in one part."""
    source, parts = np.random.default_rng(0), parts_of_numbers()
    for low, high in ((-1.0, 1.0), (-0.5, 0.25)) * 20:
        cells = Columns((-1,)).cells_of(source.uniform(low, high, (1000, 1)))[:, 0]
        counts = [np.bincount(each[cells], minlength=each[-1] + 1) for each in (parts, parts)]
        first, second = (Noisy(count + source.normal(0, 60, len(count)), 60.0) for count in counts)
        bins = bins_of_numbers(parts, first, second, 1000)
        assert len(bins.mass) >= 5
        within = bins.mass[np.unique(bins.of_cell[cells])].sum()
        assert within > 0.5  # most of the estimated mass is where rows are


def test_smoothed_counts_are_closer_to_the_truth_and_add_up():
    source = np.random.default_rng(1)
    for truth in (np.full(32, 30.0), np.array([400.0, 300.0] + [10.0] * 30), np.zeros(32)):
        noisy = truth + source.normal(0, 60, (50, 32))
        found = np.array([smooth(each, np.full(32, 3600.0), np.ones(32), truth.sum()) for each in noisy])
        assert (found >= 0).all()
        assert found.sum(axis=1) == pytest.approx(truth.sum())
        assert np.square(found - truth).mean() < 0.4 * 3600


def test_residuals_of_two_classes_are_as_long_as_the_larger_share():
    """So there is less noise in the curves of balanced classes: the same bound stands for more."""
    target, labels = ClassTarget(2), np.array([0, 1, 1, 0, -1])
    reach = target.first_reach(np.zeros(1))
    assert reach == pytest.approx(0.55)
    assert target.first_reach(np.full(1, 9.0)) == 1.0
    steps = int(reach * UNIT)
    found, is_inside = target.residuals(labels, np.zeros((5, 1), np.int64), steps)
    assert found[:, 0] * reach / MOST == pytest.approx([-0.5, 0.5, 0.5, -0.5, 0.0], abs=1e-3)
    assert is_inside.all()
    wrong, is_inside = target.residuals(labels, np.full((5, 1), 3 * UNIT), steps)
    assert wrong[0, 0] == -MOST  # sure of the wrong class: cut
    assert is_inside.tolist() == [False, True, True, False, True]


def test_rare_words_share_a_bin():
    bins = bins_of_words(np.array([500.0, 3.0, 400.0, -5.0, 2.0]), deviation=10.0, most=16)
    assert bins.of_cell.tolist() == [0, 2, 1, 2, 2]
    assert len(bins_of_words(np.full(50, 500.0), deviation=10.0, most=16).mass) == 16


def test_features_are_bounded_and_curves_have_mean_zero():
    source = np.random.default_rng(0)
    for _ in range(20):
        mass = source.dirichlet(np.ones(12))
        counts = Noisy(np.append(mass[:8].repeat(4), 0.1) * 1e4, 1.0)
        bins = bins_of_numbers(parts_of_numbers(), counts, counts, 10_000)
        assert bins.parts is not None
        for straight, mass in ((0.0, bins.mass), (0.5, bins.parts.mass)):
            features = features_of(bins, straight=straight)
            assert np.linalg.norm(features.released, axis=1).max() <= 1 + 1e-9
            assert np.abs(mass @ features.table).max() < 1e-7  # of an eigenvalue that is 0, the root


def test_a_line_goes_on_where_hardly_any_rows_are():
    """Rows of a long tail share a bin; a straight line tells them apart."""
    source = np.random.default_rng(0)
    x = np.minimum(source.exponential(0.04, (20_000, 1)), 2.0) - 1
    x[:6, 0] = np.linspace(0.0, 1.0, 6)
    found = fit(
        x,
        x[:, 0],
        NumberTarget((-1, 1)),
        columns=Columns.of_numbers(1),
        plan=AdditivePlan(passes=60, noise_multiplier=1e-3),
        examples=20_000,
        delta=1e-6,
        keys=Keys.seeded(0),
    )
    far = found.model.scores(np.array([[0.0], [1.0]]))[:, 0]
    assert far[1] - far[0] > 0.1  # by steps alone there is no difference


def test_a_rare_word_is_told_apart_as_well_as_half_of_the_rows():
    """Of what is released, two words are twice the longest row apart, however rare one of them is."""
    for rare in (5.0, 500.0):
        features = features_of(bins_of_words(np.array([1000.0 - rare, rare, 0.0]), deviation=0.1, most=8))
        both = features.released[:2]
        assert np.linalg.norm(both, axis=1).max() <= 1 + 1e-9
        assert np.linalg.norm(both[0] - both[1]) > (1.6 if rare == 500 else 1.4)


def test_a_column_of_one_bin_is_a_flat_curve():
    bins = bins_of_words(np.array([0.0, 0.0]), deviation=10.0, most=8)
    assert not features_of(bins).table.any()
