"""Strategies as values: what they refuse, JSON both ways, and error no worse than that of simpler ones."""

from __future__ import annotations

import json

import numpy as np
import pytest

from reticent.core.errors import InvalidArgument
from reticent.noise import named
from reticent.noise.participation import Participation
from reticent.noise.strategies import NoiseStrategy, Toeplitz, on_grid

PART = Participation.cyclic(24, 6)
ALL: list[NoiseStrategy] = [
    *(named.independent(), named.banded(bands=4), named.toeplitz(), named.toeplitz(bands=3)),
    *(named.blt(buffers=2), named.tree(), named.tree(restart=6), named.dense(bands=3)),
]


@pytest.mark.parametrize("noise", ALL, ids=lambda noise: noise.in_words)
@pytest.mark.parametrize("is_settled", [False, True])
def test_json_goes_both_ways(noise: NoiseStrategy, is_settled: bool) -> None:
    value = noise.settle(24, PART) if is_settled else noise
    assert named.from_json(json.loads(json.dumps(named.to_json(value)))) == value


@pytest.mark.parametrize(
    "value",
    [
        *(None, 3, {}, {"kind": "banded"}, {"kind": "other"}, {"kind": "banded", "width": 0}),
        {"kind": "banded", "width": 2, "more": 1},
        {"kind": "toeplitz", "coefficients": [1.0, 2.0]},
        {"kind": "toeplitz", "coefficients": [1.0, 0.3]},
        {"kind": "toeplitz", "coefficients": "1"},
        {"kind": "toeplitz", "coefficients": [1.0, 0.5, 0.25], "width": 2},
        {"kind": "blt", "buffers": 1, "scales": [0.5], "decays": [1.5]},
        {"kind": "blt", "buffers": 2, "scales": [0.5], "decays": [0.5]},
        {"kind": "banded", "width": 2, "participation": {"times": 0}},
    ],
)
def test_json_of_nothing_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgument):
        named.from_json(value)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: named.banded(bands=0), "bands"),
        (lambda: named.banded(bands=9).settle(8, PART), "9 bands are more than the run has steps: 8"),
        (lambda: named.toeplitz(bands=9).settle(8, PART), "9 bands are more"),
        (lambda: Participation(times=2, separation=0), "separation"),
        (lambda: named.by_name("brown"), "brown"),
        (lambda: named.by_name("banded"), "--bands 8"),
        (lambda: named.by_name("tree", bands=3), "has no bands"),
        (lambda: named.by_name("tree", buffers=3), "has no buffers"),
        (lambda: named.tree(restart=0), "restart"),
        (lambda: Toeplitz(coefficients=(1.0, 0.5, 0.75)), "grow"),
        (lambda: named.blt().column(8), "settle"),
        (lambda: named.dense().settle(600, PART).matrix(600, PART), "at most 512"),
    ],
)
def test_bad_input_gets_one_clear_line(make, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        make()


def test_settled_coefficients_are_on_the_grid_and_do_not_grow() -> None:
    for noise in (named.toeplitz(), named.banded(bands=6)):
        column = noise.settle(24, PART).column(24)
        assert np.array_equal(on_grid(column), column)
        assert np.all(np.diff(column) <= 0)
    for noise in (*ALL[:1], named.toeplitz(), named.blt(buffers=3), named.tree()):  # of the shortest runs
        for steps in (1, 2):
            part = Participation.cyclic(steps, 1)
            assert noise.settle(steps, part).sensitivity(steps, part) >= np.sqrt(steps)


@pytest.mark.parametrize("steps", [24, 200])
def test_the_best_of_a_kind_is_better_than_simpler_ones(steps: int) -> None:
    part = Participation.cyclic(steps, steps // 4)

    def error(noise: NoiseStrategy) -> float:
        return noise.settle(steps, part).error(steps, part).rmse

    bands = steps // 4
    assert error(named.toeplitz()) < error(named.banded(bands=bands)) < error(named.tree())
    assert error(named.banded(bands=bands)) < 0.7 * error(named.independent())
    assert error(named.blt()) < error(named.tree())


@pytest.mark.parametrize("noise", [named.banded(bands=5), named.blt(buffers=3).settle(40, PART)])
def test_error_is_that_of_the_whole_matrix(noise: NoiseStrategy) -> None:
    steps, part = 40, Participation.cyclic(40, 8)
    column = np.concatenate([noise.column(steps), np.zeros(steps)])[:steps]  # type: ignore[attr-defined]
    matrix = np.array([[column[i - j] if i >= j else 0.0 for j in range(steps)] for i in range(steps)])
    rows = np.tril(np.ones((steps, steps))) @ np.linalg.inv(matrix)
    found, reach = noise.error(steps, part), noise.sensitivity(steps, part)
    assert found.rmse == pytest.approx(reach * np.sqrt(np.mean(np.sum(rows**2, axis=1))), rel=1e-9)
    assert found.largest == pytest.approx(reach * np.sqrt(np.max(np.sum(rows**2, axis=1))), rel=1e-9)
