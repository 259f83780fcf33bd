"""Exponentials are as exact as certificates take them to be."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

from reticent.convex import losses
from reticent.convex.elementary import exp_below, expit

KINDS = [np.float64, np.longdouble]


def places(kind: type) -> np.ndarray:
    draw = np.random.default_rng(0)
    near = math.log(2) * (np.arange(-40, 0)[:, None] + np.array([0.5, 0.0])).ravel()  # where k changes
    around = near * (1 + draw.normal(size=near.shape) * 2.0**-50)
    tiny = -(10.0 ** draw.uniform(-300, 0, 200))
    found = np.concatenate([[0.0, -0.0, -708.0], tiny, -draw.uniform(0, 700, 300), near, around])
    return found.astype(kind) * (1 + draw.normal(size=len(found)).astype(kind) * kind(2.0**-60))


def exact(x: np.floating) -> Decimal:
    top, bottom = x.as_integer_ratio()
    return Decimal(top) / Decimal(bottom)


@pytest.mark.parametrize("kind", KINDS)
def test_an_exponential_is_off_by_at_most_16_half_units(kind: type):
    half_unit = Decimal(float(np.finfo(kind).eps)) / 2
    with localcontext() as context:
        context.prec = 60
        x = places(kind)
        for given, found in zip(x, exp_below(x), strict=True):
            true = exact(given).exp()
            assert abs(exact(found) - true) <= 16 * half_unit * true
        for given, found in zip(x, expit(x), strict=True):
            true = 1 / (1 + (-exact(given)).exp())
            assert abs(exact(found) - true) <= 20 * half_unit * true
        for given, found in zip(x, expit(-x), strict=True):
            assert abs(exact(found) - 1 / (1 + exact(given).exp())) <= 20 * half_unit


def test_what_is_far_below_is_nothing():
    assert exp_below(np.array([-1e300, -800.0, -np.inf])).tolist() == [0.0, 0.0, 0.0]
    assert 0 < exp_below(np.array([-740.0]))[0] < 1e-320
    assert expit(np.array([-1e300, 1e300])).tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    "loss", [losses.logistic(), losses.logistic(0.5), losses.softmax(4)], ids=lambda loss: loss.name
)
def test_slopes_are_right_to_the_units_that_certificates_add(loss: losses.Loss):
    """Against the same slopes in longer floats."""
    draw = np.random.default_rng(0)
    scores = draw.normal(size=(2000, loss.outputs)) * 10.0 ** draw.uniform(-3, 2, size=(2000, 1))
    labels = draw.integers(0, max(loss.outputs, 2), 2000).astype(float)
    long = loss.gradient(scores.astype(np.longdouble), labels)
    off = np.abs(loss.gradient(scores, labels) - long).max()
    assert off <= (64 + 4 * loss.outputs) * 2.0**-53 * loss.lipschitz
