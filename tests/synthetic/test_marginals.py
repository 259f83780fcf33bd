"""Counts, choices and the model of them: each mechanism on two neighbouring tables, and with planted bugs."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chi2, chisquare

from reticent.core.errors import InvalidArgument
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import ExponentialMechanism, Gaussian
from reticent.mechanisms.whole import normal_grid
from reticent.synthetic.tables import column_pairs
from reticent.synthetic.tables.column_pairs import (
    STEP,
    candidates,
    choose_at,
    errors,
    joins,
    select,
    small_enough,
)
from reticent.synthetic.tables.graphical import GraphicalModel, estimate
from reticent.synthetic.tables.junction import JunctionTree
from reticent.synthetic.tables.marginals import Marginal, combine, count, measure
from reticent.synthetic.tables.merging import merging_of

SIZES = (3, 2, 4)
PAIRS = list(itertools.combinations(range(3), 2))


def neighbours(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A table, and the same without one of its records."""
    source = np.random.default_rng(seed)
    codes = np.stack([source.integers(0, size, 30) for size in SIZES], axis=1)
    return codes, np.delete(codes, source.integers(30), axis=0)


# Counting


@pytest.mark.parametrize("columns", [(0,), (1, 2), (0, 1, 2)])
def test_a_record_is_in_one_cell_of_a_marginal(columns: tuple[int, ...]) -> None:
    for seed in range(20):
        more, fewer = (count(codes, columns, SIZES) for codes in neighbours(seed))
        assert np.linalg.norm((more - fewer).ravel()) == 1
        assert np.abs(more - fewer).sum() == 1


def noise_is_as_said(measured: list[Marginal], codes: np.ndarray, deviation: float) -> bool:
    """A two-sided chi-square test of the variance, with a false alarm in a million."""
    noise = np.concatenate([(found.counts - count(codes, (0, 2), SIZES)).ravel() for found in measured])
    low, high = chi2.ppf([5e-7, 1 - 5e-7], len(noise))
    return bool(low < (noise**2).sum() / deviation**2 < high)


def test_noise_has_the_deviation_of_its_event() -> None:
    codes, _ = neighbours(0)
    source, event = np.random.default_rng(0), Gaussian(noise_multiplier=7.0)
    found = [measure(codes, (0, 2), SIZES, event, source) for _ in range(500)]
    assert noise_is_as_said(found, codes, 7.0)
    assert all(item.deviation == 7.0 for item in found)
    halved = [measure(codes, (0, 2), SIZES, Gaussian(noise_multiplier=3.5), source) for _ in range(500)]
    assert not noise_is_as_said(halved, codes, 7.0)
    exact = [
        Marginal((0, 2), count(codes, (0, 2), SIZES), 7.0) for _ in range(500)
    ]  # frequencies as they are
    assert not noise_is_as_said(exact, codes, 7.0)


def test_empty_cells_have_noise_too() -> None:
    codes = np.zeros((5, 3), np.int32)
    found = measure(codes, (0, 1, 2), SIZES, Gaussian(noise_multiplier=1.0), np.random.default_rng(0))
    assert (found.counts != np.round(found.counts)).all()


def test_counts_are_whole_parts_of_one_that_are_public() -> None:
    event = Gaussian(noise_multiplier=7.3)
    _, step = normal_grid(12, max_norm=1.0, deviation=7.3, are_whole=True)
    assert 2**12 * step < 7.3
    for codes in neighbours(0):
        found = measure(codes, (0, 2), SIZES, event, np.random.default_rng(0)).counts * round(1 / step)
        assert found == pytest.approx(np.rint(found), abs=1e-6)
        assert len(np.unique(np.rint(found) % 1000)) > 6  # and no coarser


def test_marginals_of_the_same_columns_are_averaged_by_precision() -> None:
    first, second = Marginal((0,), np.array([1.0, 2.0]), 1.0), Marginal((0,), np.array([4.0, 5.0]), 2.0)
    (found,) = combine([first, second])
    assert found.counts == pytest.approx([1.6, 2.6])
    assert found.deviation == pytest.approx(math.sqrt(0.8))


# Choosing


def scores_of(codes: np.ndarray, *, rows: int = 30) -> np.ndarray:
    expected = {
        pair: np.full([SIZES[c] for c in pair], 1 / math.prod(SIZES[c] for c in pair)) for pair in PAIRS
    }
    found = errors(codes, PAIRS, expected, SIZES, rows=rows, deviation=2.0)
    return np.array([found[pair] for pair in PAIRS])


def largest_move(score) -> float:
    return max(float(np.abs(np.subtract(*map(score, neighbours(seed)))).max()) for seed in range(200))


def test_a_record_moves_no_error_by_more_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly one, also where the model expects so many rows that sums of floats would round."""
    assert largest_move(scores_of) <= 1
    source = np.random.default_rng(0)
    uneven = {(0, 2): source.dirichlet(np.full(12, 0.5)).reshape(3, 4)}

    def many(codes: np.ndarray, rows: int = 2**29 + 30) -> np.ndarray:  # the sum is about a power of two
        return np.array(list(errors(codes, uneven, uneven, SIZES, rows=rows, deviation=2.0).values()))

    assert largest_move(many) <= 1
    assert (many(neighbours(0)[0]) % STEP == 0).all()
    monkeypatch.setattr(column_pairs, "_on_grid", lambda values: values)
    assert largest_move(many) > 1  # by rounding alone
    with pytest.raises(InvalidArgument, match="not exact"):
        many(neighbours(0)[0], rows=2**31)


def test_an_error_scaled_by_the_real_number_of_rows_would_be_caught() -> None:
    assert largest_move(lambda codes: scores_of(codes, rows=len(codes))) > 1 + 1e-3


def odds(epsilon: float, scores: np.ndarray) -> np.ndarray:
    exponents = epsilon / 2 * scores
    chances = np.exp(exponents - exponents.max())
    return chances / chances.sum()


def test_the_odds_of_a_choice_stay_within_its_epsilon() -> None:
    event, source = ExponentialMechanism(epsilon=0.8), np.random.default_rng(0)
    worst = 0.0
    for seed in range(100):
        more, fewer = (odds(0.8, scores_of(codes)) for codes in neighbours(seed))
        worst = max(worst, float(np.abs(np.log(more / fewer)).max()))
    assert 0.3 < worst <= 0.8
    scores = scores_of(neighbours(3)[0]) / 4  # near to each other, so that all of them are drawn
    drawn = np.bincount([choose_at(scores, event, source) for _ in range(20_000)], minlength=3)
    assert chisquare(drawn, 20_000 * odds(0.8, scores)).pvalue > 1e-6
    assert chisquare(drawn, 20_000 * odds(1.6, scores)).pvalue < 1e-6  # without the factor 2


def test_choices_are_under_add_or_remove_only() -> None:
    with pytest.raises(InvalidArgument, match="add-or-remove"):
        choose_at(
            np.zeros(2),
            ExponentialMechanism(epsilon=1.0, adjacency=Adjacency.REPLACE),
            np.random.default_rng(0),
        )


def test_spanning_choices_make_a_tree() -> None:
    pairs = candidates(6, target=2)
    assert all(2 not in pair for pair in pairs)
    source = np.random.default_rng(0)
    scores = {pair: float(source.normal()) for pair in pairs}
    chosen = select(scores, joins, [ExponentialMechanism(epsilon=1.0)] * 4, source)
    assert len(set(chosen)) == 4
    joined = {chosen[0][0]}
    while more := {c for pair in chosen if joined & set(pair) for c in pair} - joined:
        joined |= more
    assert joined == {0, 1, 3, 4, 5}


def test_adaptive_choices_keep_the_model_small() -> None:
    sizes, pairs = (20,) * 6, candidates(6, None)
    source = np.random.default_rng(0)
    fits = small_enough([], sizes, limit=4000)
    chosen = select(dict.fromkeys(pairs, 0.0), fits, [ExponentialMechanism(epsilon=1.0)] * 20, source)
    assert len(chosen) == 20  # as many as were paid for, some of them again
    assert JunctionTree.of(chosen, sizes).cells <= 4000


def test_joining_two_columns_adds_no_more_cells_than_foretold() -> None:
    source, sizes = np.random.default_rng(0), (2, 3, 4, 5, 3, 2, 4, 3)
    for _ in range(200):
        pairs = candidates(8)
        measured = [pairs[at] for at in source.choice(len(pairs), source.integers(0, 10), replace=False)]
        pair = pairs[source.integers(len(pairs))]
        tree = JunctionTree.of(measured, sizes)
        assert JunctionTree.of([*measured, pair], sizes).cells <= 1.25 * tree.cells_with(pair)
        assert tree.cells_with(pair) >= tree.cells


def test_a_choice_among_those_that_fit_has_their_odds() -> None:
    pairs = candidates(3)
    scores = dict(zip(pairs, (9.0, 1.0, 0.0), strict=True))
    event, source = ExponentialMechanism(epsilon=1.0), np.random.default_rng(0)
    runs = [select(scores, lambda _, pair: pair != pairs[0], [event], source)[0] for _ in range(4000)]
    share = runs.count(pairs[1]) / len(runs)
    assert pairs[0] not in runs
    assert share == pytest.approx(odds(1.0, np.array([1.0, 0.0]))[0], abs=0.04)  # five deviations


# Modelling


def brute_force(model: GraphicalModel) -> np.ndarray:
    """The whole joint distribution, from the potentials alone."""
    sizes = model.tree.sizes
    total = np.zeros(sizes)
    for node, potential in zip(model.tree.nodes, model.potentials, strict=True):
        total = total + potential.reshape([sizes[c] if c in node else 1 for c in range(len(sizes))])
    joint = np.exp(total - total.max())
    return joint / joint.sum()


def random_model(cliques: list[tuple[int, ...]], sizes: tuple[int, ...]) -> GraphicalModel:
    source, tree = np.random.default_rng(5), JunctionTree.of(cliques, sizes)
    return GraphicalModel(tree, [source.normal(size=tree.shape(node)) for node in tree.nodes])


@pytest.mark.parametrize(
    "cliques",
    [
        [(0, 1), (1, 2), (2, 3), (0, 3)],  # a cycle
        [(0, 1), (0, 2), (0, 3), (0, 4)],  # a star
        [(0, 1), (2, 3)],  # three parts that are not joined
        [],
    ],
)
def test_the_model_is_what_its_potentials_say(cliques: list[tuple[int, ...]]) -> None:
    model = random_model(cliques, (2, 3, 2, 4, 3))
    joint = brute_force(model)
    for pair, table in model.pairs().items():
        others = tuple(c for c in range(5) if c not in pair)
        assert np.allclose(table, joint.sum(axis=others), atol=1e-12)
    for column, table in enumerate(model.singles()):
        assert np.allclose(table, joint.sum(axis=tuple(c for c in range(5) if c != column)))
    rows = np.array(list(itertools.product(*map(range, model.tree.sizes))))
    assert np.allclose(np.exp(model.log_probabilities(rows)), joint.ravel())
    part = brute_force(model.given({1: 2, 3: 0}))
    assert np.isclose(part[:, 2, :, 0].sum(), 1)
    assert np.allclose(part[:, 2, :, 0], joint[:, 2, :, 0] / joint[:, 2, :, 0].sum())


def test_exact_counts_are_met_and_the_start_does_not_matter() -> None:
    codes, _ = neighbours(1)
    codes = np.concatenate([codes] * 40)
    marginals = [Marginal(pair, count(codes, pair, SIZES), 0.01) for pair in PAIRS]
    model, factors = estimate(marginals, SIZES, len(codes))
    for pair, table in model.pairs().items():
        assert np.allclose(len(codes) * table, count(codes, pair, SIZES), atol=0.02 * len(codes))
    noisy = [Marginal(pair, count(codes, pair, SIZES), 30.0) for pair in PAIRS]
    first, second = (
        estimate(noisy, SIZES, len(codes))[0],
        estimate(noisy, SIZES, len(codes), start=factors)[0],
    )
    assert all(np.allclose(first.pairs()[pair], second.pairs()[pair], atol=2e-3) for pair in PAIRS)


def test_what_noise_may_have_made_is_smoothed_away() -> None:
    source = np.random.default_rng(0)
    singles = [Marginal((column,), np.full(10, 1000.0), 5.0) for column in range(2)]
    noisy = Marginal((0, 1), 100 + 100 * source.standard_normal((10, 10)), 100.0)
    model, _ = estimate([*singles, noisy], (10, 10), 10_000)
    raw = np.abs(noisy.counts / 10_000 - 0.01).sum()
    assert np.abs(model.pairs()[(0, 1)] - 0.01).sum() < 0.7 * raw
    trusted, _ = estimate([*singles, noisy._replace(deviation=1.0)], (10, 10), 10_000)
    assert np.abs(trusted.pairs()[(0, 1)] - 0.01).sum() > 0.8 * raw


def test_rare_codes_are_merged_and_taken_apart() -> None:
    counts = [np.array([500.0, 3.0, 2.0, 400.0, 1.0]), np.array([5.0, 4.0, 300.0, 2.0, 200.0, 1.0])]
    merging = merging_of([Marginal((at,), item, 2.0) for at, item in enumerate(counts)], (False, True))
    assert merging.groups[0].tolist() == [0, 2, 2, 1, 2]  # rare words together
    assert merging.groups[1].tolist() == [0, 1, 2, 3, 3, 3]  # neighbouring bins, until there are enough
    source = np.random.default_rng(0)
    codes = np.stack([source.integers(0, 5, 4000), source.integers(0, 6, 4000)], axis=1)
    groups = merging.merge(codes)
    again = merging.split_groups(groups, source)
    assert np.array_equal(merging.merge(again), groups)
    drawn = np.bincount(again[groups[:, 0] == 2, 0], minlength=5)
    assert drawn[1] > drawn[2] > drawn[4] > 0  # by their counts
    spread = merging.spread(np.full((3, merging.sizes[1]), 1 / (3 * merging.sizes[1])), (0, 1))
    assert spread.shape == (5, 6)
    assert spread.sum() == pytest.approx(1)


# Sampling


def test_four_equal_cells_are_sampled_evenly() -> None:
    """A published sampler makes [500, 0, 0, 500] of this model."""
    model, _ = estimate([Marginal((0,), np.array([500.0, 500.0]), 1.0)], (2, 2), 1000)
    found = count(model.sample(1000, np.random.default_rng(0)), (0, 1), (2, 2)).ravel()
    assert found.sum() == 1000
    assert np.abs(found - 250).max() < 70  # six deviations of independent draws are 82


def test_children_of_one_parent_are_independent_given_it() -> None:
    model = random_model([(0, 1), (0, 2), (0, 3)], (3, 4, 4, 4))
    codes = model.sample(20_000, np.random.default_rng(1))
    joint = 20_000 * brute_force(model)
    found = count(codes, (0, 1, 2, 3), (3, 4, 4, 4))
    assert chisquare(found.ravel(), joint.ravel()).pvalue > 1e-6
    assert not np.array_equal(codes, model.sample(20_000, np.random.default_rng(2)))


def test_rows_given_a_value_have_it_and_the_rest_follows() -> None:
    model = random_model([(0, 1), (1, 2), (0, 2), (2, 3)], (3, 2, 3, 4))
    codes = model.given({3: 1}).sample(20_000, np.random.default_rng(1))
    assert (codes[:, 3] == 1).all()
    joint = brute_force(model)[..., 1]
    found = count(codes, (0, 1, 2), (3, 2, 3))
    assert chisquare(found.ravel(), (20_000 * joint / joint.sum()).ravel()).pvalue > 1e-6
    with pytest.raises(InvalidArgument, match="no code 4 in column 3"):
        model.given({3: 4})
