"""Losses and metrics against formulas worked out by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.core.errors import InvalidArgument
from reticent.models import Model, accuracy, classification_loss, linear, squared_loss
from reticent.models.initialisers import zeros

# A model that returns its parameters: what a loss does with outputs, and nothing else.
ECHO = Model(name="echo", description="", starts=zeros(3), apply=lambda params, x: params)


def test_the_loss_is_the_negative_logarithm_of_the_label_s_probability():
    logits = jnp.log(jnp.array([0.2, 0.5, 0.3])) + 7.0  # a constant more changes no probability
    loss = classification_loss(ECHO)
    for label, probability in enumerate([0.2, 0.5, 0.3]):
        assert float(loss(logits, {"x": 0, "y": label})) == pytest.approx(-np.log(probability), rel=1e-5)


def test_the_gradient_is_probability_less_label():
    logits = jnp.log(jnp.array([0.2, 0.5, 0.3]))
    gradient = jax.grad(classification_loss(ECHO))(logits, {"x": 0, "y": 1})
    np.testing.assert_allclose(gradient, [0.2, -0.5, 0.3], atol=1e-6)


def test_huge_logits_give_a_finite_loss_and_gradient():
    loss, gradient = jax.value_and_grad(classification_loss(ECHO))(
        jnp.array([1e30, -1e30, 0.0]), {"x": 0, "y": 1}
    )
    assert jnp.isfinite(loss)
    np.testing.assert_allclose(gradient, [1, -1, 0])


def test_places_without_a_label_count_for_nothing():
    logits = jnp.log(jnp.array([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1], [0.1, 0.1, 0.8]]))
    labels = jnp.array([0, -1, 1])
    expected = -(np.log(0.2) + np.log(0.1)) / 2
    loss, gradient = jax.jit(jax.value_and_grad(classification_loss(ECHO)))(logits, {"x": 0, "y": labels})
    assert float(loss) == pytest.approx(expected, rel=1e-5)
    np.testing.assert_array_equal(gradient[1], 0)


def test_an_example_without_any_label_has_loss_zero():
    nothing = {"x": 0, "y": jnp.array([-1, -1])}
    assert float(classification_loss(ECHO)(jnp.ones((2, 3)), nothing)) == 0
    assert float(accuracy(ECHO)(jnp.ones((2, 3)), nothing)) == 0


def test_accuracy_is_one_for_the_largest_logit_only():
    logits = jnp.array([0.1, 2.0, -1.0])
    assert [float(accuracy(ECHO)(logits, {"x": 0, "y": label})) for label in range(3)] == [0, 1, 0]
    places = jnp.array([[3.0, 0.0], [3.0, 0.0], [3.0, 0.0]])
    assert float(accuracy(ECHO)(places, {"x": 0, "y": jnp.array([0, 1, -1])})) == 0.5


def test_the_squared_loss_is_half_a_squared_distance():
    assert float(squared_loss(ECHO)(jnp.array([1.0, 2.0, 3.0]), {"x": 0, "y": jnp.zeros(3)})) == 7.0
    model = linear(2, 1)
    params = {"w": jnp.array([[1.0], [2.0]]), "b": jnp.array([0.5])}
    assert float(squared_loss(model)(params, {"x": jnp.array([1.0, 1.0]), "y": jnp.float32(1.5)})) == 2.0


def test_labels_and_targets_of_another_shape_are_errors():
    with pytest.raises(InvalidArgument, match="not one-hot"):
        classification_loss(ECHO)(jnp.zeros(3), {"x": 0, "y": jnp.array([0, 0, 1])})
    with pytest.raises(InvalidArgument, match="predicts 3 numbers, and the target has 2"):
        squared_loss(ECHO)(jnp.zeros(3), {"x": 0, "y": jnp.zeros(2)})
