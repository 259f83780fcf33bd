"""Figures of papers and of jax_privacy 2.0.0 for correlated noise, to their digits."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.tight_epsilon import upper_bound
from reticent.core.errors import Unproven
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Gaussian
from reticent.noise import (
    Participation,
    matrix_error,
    matrix_sensitivity,
    optimal_buffers,
    optimal_matrix,
    optimal_toeplitz,
    square_root,
    toeplitz_error,
    toeplitz_sensitivity,
)
from reticent.noise.named import tree
from reticent.noise.series import inverse

SQUARE_ROOTS = {4: 1.48828125, 16: 1.9438788471567705, 100: 2.53135211263557, 1000: 3.2650030806724315}
FULL_RMSE = {16: 1.796814439785239, 100: 2.370658207297161, 1000: 3.1022390635289763}
BANDED_RMSE = {(16, 4): 3.8823907568452, (100, 10): 9.610999308158835, (2000, 400): 7.9494950871855625}
BANDED_RMSE |= {(2052, 342): 8.97816281968853}
TOEPLITZ_RMSE = {(16, 4): 3.87506, (100, 10): 9.31766, (2000, 400): 7.84910, (2052, 342): 8.80410}
ONCE = Participation(times=1)


def of_toeplitz(column: np.ndarray, steps: int, part: Participation):
    return toeplitz_error(column, steps, toeplitz_sensitivity(column, steps, part))


def test_the_square_root_of_the_prefix_sum_and_its_inverse() -> None:
    assert square_root(5).tolist() == [1, 1 / 2, 3 / 8, 5 / 16, 35 / 128]
    assert inverse(square_root(5), 5).tolist() == [1, -1 / 2, -1 / 8, -1 / 16, -5 / 128]


@pytest.mark.parametrize("steps", [*SQUARE_ROOTS, 2048])
def test_one_epoch_of_the_square_root(steps: int) -> None:
    column, squared = square_root(steps), {**SQUARE_ROOTS, 2048: 3.493228600678002}[steps]
    found = of_toeplitz(column, steps, ONCE)
    assert toeplitz_sensitivity(column, steps, ONCE) ** 2 == pytest.approx(squared, rel=1e-11)
    assert found.largest == pytest.approx(squared, rel=1e-9)
    if steps in FULL_RMSE:
        assert found.rmse == pytest.approx(FULL_RMSE[steps], rel=1e-9)


def test_minimum_separation_of_the_square_root() -> None:
    for steps, separation, times, squared in (
        (16, 4, 4, 13.802866008023432),
        (12, 3, 4, 13.383036405477469),
    ):
        part = Participation(times=times, separation=separation)
        assert toeplitz_sensitivity(square_root(steps), steps, part) ** 2 == pytest.approx(squared, rel=1e-13)
    ones = toeplitz_sensitivity(np.ones(5), 5, Participation(times=4, separation=1))
    assert ones**2 == pytest.approx(46, rel=1e-13)


def test_small_matrices() -> None:
    diagonal = np.diag([0.0, 3, 0, 1, 2])
    assert matrix_sensitivity(diagonal, Participation(times=3, separation=2)) ** 2 == pytest.approx(13)
    assert matrix_sensitivity(diagonal, ONCE) == pytest.approx(3)
    mixed = np.array([[1.0, 0, 0, 0], [2, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, -6]])
    assert matrix_sensitivity(mixed, ONCE) == pytest.approx(6)
    for separation in (2, 3):
        assert matrix_sensitivity(mixed, Participation(times=2, separation=separation)) ** 2 == pytest.approx(
            41
        )
    with pytest.raises(Unproven):
        matrix_sensitivity(mixed, Participation(times=4, separation=1))
    assert toeplitz_sensitivity(np.ones(1), 9, Participation.cyclic(9, 3)) == math.sqrt(3)
    growing, majorised = (
        toeplitz_sensitivity(np.array(column), 6, Participation(times=3, separation=1))
        for column in ([1, 0.5, 0.8], [1, 0.8, 0.8])
    )
    assert growing == majorised


@pytest.mark.parametrize(("steps", "separation"), BANDED_RMSE)
def test_banded_square_roots(steps: int, separation: int) -> None:
    part, column = Participation.cyclic(steps, separation), square_root(separation)
    assert of_toeplitz(column, steps, part).rmse == pytest.approx(BANDED_RMSE[steps, separation], rel=1e-10)
    if steps == 16:
        assert toeplitz_sensitivity(column, steps, part) ** 2 == pytest.approx(5.953125, rel=1e-13)
    if steps == 2052:
        assert of_toeplitz(np.ones(1), steps, part).rmse == pytest.approx(78.479, abs=5e-4)


@pytest.mark.parametrize(("steps", "separation"), TOEPLITZ_RMSE)
def test_optimised_toeplitz_matrices(steps: int, separation: int) -> None:
    part = Participation.cyclic(steps, separation)
    found = of_toeplitz(optimal_toeplitz(separation, steps, part), steps, part).rmse
    assert found <= TOEPLITZ_RMSE[steps, separation] + 5e-6


@pytest.mark.parametrize(
    ("steps", "times", "bands", "wanted"),
    [(16, 1, None, 1.68941), (16, 4, None, 3.67061), (16, 4, 4, 3.69739), (64, 4, None, 4.47603)],
)
def test_optimised_dense_matrices(steps: int, times: int, bands: int | None, wanted: float) -> None:
    part = Participation.cyclic(steps, steps // times)
    matrix = optimal_matrix(steps, part, bands)
    found = matrix_error(matrix, matrix_sensitivity(matrix, part)).rmse
    assert found <= wanted + 5e-6
    assert found >= 0.98 * wanted  # that of 64 steps is better here


def test_optimised_buffers() -> None:
    part = Participation.cyclic(2052, 342)
    found = optimal_buffers(3, 2052, part).column(2052)
    assert of_toeplitz(found, 2052, part).largest == pytest.approx(10.7514, abs=5e-5)


def test_two_buffers_for_a_hundred_thousand_steps() -> None:
    scales, decays = optimal_buffers(2, 100_000, ONCE)
    assert scales == pytest.approx([0.0122853, 0.1878394], rel=2e-4)
    assert decays == pytest.approx([0.9999529, 0.9857069], abs=2e-6)


def test_trees() -> None:
    assert tree().sensitivity(1600, ONCE) ** 2 == pytest.approx(11)
    for noise, epsilon in ((1.13, 17.6668), (8.83, 1.64866)):
        event = Gaussian(noise_multiplier=noise / math.sqrt(11))
        found = upper_bound(event, 1e-6, Neighbours(Adjacency.ADD_OR_REMOVE))
        assert found == pytest.approx(epsilon, rel=2e-5)
    # Kairouz et al. (2021): rho 79/98 by going through all orders of a record's steps; ours bounds each
    # level.
    part = Participation(times=6, separation=313)
    assert 79 <= tree().sensitivity(2000, part) ** 2 <= 82.001


@pytest.mark.parametrize(("rho", "epsilon"), [(0.1506840301548885, 3.42401), (0.014342572340349278, 0.99355)])
def test_published_banded_runs_of_gboard(rho: float, epsilon: float) -> None:
    """Xu et al. (2023): 400 bands with a sigma of 1.411 and 1000 bands with 8.35, at a delta of 1e-10."""
    event = Gaussian(noise_multiplier=1 / math.sqrt(2 * rho))
    found = upper_bound(event, 1e-10, Neighbours(Adjacency.ADD_OR_REMOVE))
    assert found == pytest.approx(epsilon, abs=1e-5)


def test_a_banded_run_of_two_rounds_per_device_has_its_published_rho() -> None:
    """1000 bands with columns of length 1, a sigma of 8.35, and devices that take part twice."""
    column = square_root(1000) / math.sqrt(float(np.sum(square_root(1000) ** 2)))
    reach = toeplitz_sensitivity(column, 2000, Participation(times=2, separation=1000))
    assert reach**2 / (2 * 8.35**2) == pytest.approx(0.014342572340349278, rel=1e-12)
