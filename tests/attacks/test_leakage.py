"""Gradient leakage: exact where it should be, through clipping as well, and destroyed by noise."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from reticent.attacks.reconstruction.leakage import (
    gradient_matcher,
    mean_squared_error,
    noise_curve,
    psnr,
    recover_analytically,
    recover_from_outputs,
    recover_label,
    released_gradient,
)
from reticent.attacks.reconstruction.malicious import (
    compare_with_batch,
    even_thresholds,
    read_trap,
    trap_parameters,
)
from reticent.core.errors import DataError, InvalidArgument
from reticent.models import classification_loss, mlp

MODEL = mlp((36, 48, 5), jnp.tanh)
LOSS = classification_loss(MODEL)
PARAMS = MODEL.init(jax.random.key(3))


def examples(count: int, *, seed: int = 0) -> dict[str, np.ndarray]:
    """Blurred spots, of different brightness."""
    random = np.random.default_rng(seed)
    row, column = random.uniform(0, 5, (2, count, 1, 1))
    grid = np.arange(6)
    spots = np.exp(-((grid[:, None] - row) ** 2 + (grid - column) ** 2) / random.uniform(2, 8, (count, 1, 1)))
    return {"x": spots.astype(np.float32), "y": random.integers(0, 5, count)}


def one(number: int) -> dict[str, np.ndarray]:
    return {name: values[number : number + 1] for name, values in examples(20).items()}


@pytest.mark.parametrize("max_norm", [None, 0.01])
def test_division_gives_the_example_back_to_five_digits_clipped_or_not(max_norm: float | None):
    for number in range(5):
        example = one(number)
        gradient = released_gradient(LOSS, PARAMS, example, max_norm=max_norm)
        found = recover_analytically(gradient["dense1"], shape=(6, 6))
        np.testing.assert_allclose(found, example["x"][0], atol=1e-5)
        assert recover_label(gradient) == example["y"][0]


def test_a_batch_gives_a_mixture_only():
    gradient = released_gradient(LOSS, PARAMS, examples(8))
    found = recover_analytically(gradient["dense1"], shape=(6, 6), box=(0, 1))
    assert max(psnr(x, found) for x in examples(8)["x"]) < 25


def test_noise_destroys_what_division_finds():
    rows = noise_curve(
        LOSS,
        PARAMS,
        examples(20),
        lambda gradient: recover_analytically(gradient["dense1"]),
        noise_multipliers=(0.0, 1e-3, 1e-2, 1e-1, 1.0),
    )
    quality = [row.psnr.value for row in rows]
    assert quality == sorted(quality, reverse=True)
    assert quality[0] > 90
    assert quality[-1] < 12
    assert rows[0].label.value == 1
    assert rows[-1].label.value < 0.7
    assert rows[0].recovered.shape == (20, 6, 6)
    assert rows[0].to_json()["psnr"]["value"] == quality[0]


def test_the_noise_has_the_promised_size():
    """A planted bug, noise that forgets the clipping norm, would be four times too large."""
    clean = released_gradient(LOSS, PARAMS, one(0), max_norm=0.25)
    noised = released_gradient(
        LOSS, PARAMS, one(0), max_norm=0.25, noise_multiplier=2.0, key=jax.random.key(1)
    )
    added = jnp.concatenate(
        [jnp.ravel(a - b) for a, b in zip(*map(jax.tree.leaves, (noised, clean)), strict=True)]
    )
    assert added.size == 2021
    # Of 2,021 normals: outside 0.45 to 0.55 with probability below 1e-9.
    assert 0.45 < float(jnp.std(added)) < 0.55


def test_gradients_are_matched_where_nothing_can_be_divided():
    def no_bias(params, example):
        hidden = jnp.tanh(example["x"].ravel() @ params["layer1"]["w"])
        logits = hidden @ params["layer2"]["w"] + params["layer2"]["b"]
        return optax.softmax_cross_entropy_with_integer_labels(logits, example["y"])

    params = {"layer1": {"w": PARAMS["dense1"]["w"]}, "layer2": PARAMS["dense2"]}
    example = one(3)
    gradient = released_gradient(no_bias, params, example, max_norm=0.1)
    with pytest.raises(DataError, match="Only a dense layer with a bias"):
        recover_analytically(gradient["layer1"])
    match = gradient_matcher(no_bias, shape=(6, 6), steps=300, restarts=1)
    found = match(params, gradient)
    assert psnr(example["x"][0], found) > 25
    hidden = released_gradient(
        no_bias, params, example, max_norm=0.1, noise_multiplier=1.0, key=jax.random.key(0)
    )
    found = match(params, hidden)
    assert psnr(example["x"][0], found) < 15


# A malicious server


@pytest.mark.parametrize("sizes", [(36, 200, 5), (36, 200, 8, 5)])
def test_malicious_parameters_rob_a_whole_batch_through_clipping(sizes: tuple[int, ...]):
    model = mlp(sizes)
    loss = classification_loss(model)
    public = examples(500, seed=9)["x"].mean(axis=(1, 2))
    batch = examples(16, seed=1)
    params = trap_parameters(model.init(jax.random.key(0)), even_thresholds(public, 200))

    def robbed(noise_multiplier: float):
        gradient = released_gradient(
            loss, params, batch, max_norm=1.0, noise_multiplier=noise_multiplier, key=jax.random.key(5)
        )
        return compare_with_batch(read_trap(gradient["dense1"]), batch["x"])

    assert robbed(0.0).recognisable.value > 0.8
    assert np.median(robbed(0.0).psnr) > 40
    assert robbed(1.0).recognisable.value == 0
    honest = released_gradient(loss, model.init(jax.random.key(0)), batch, max_norm=1.0)
    assert compare_with_batch(read_trap(honest["dense1"]), batch["x"]).recognisable.value < 0.3


def test_traps_that_cannot_be_set_are_refused():
    with pytest.raises(DataError, match="48 units"):
        trap_parameters(PARAMS, np.arange(5))
    with pytest.raises(DataError, match="no dense layer 'dense9'"):
        trap_parameters(PARAMS, np.arange(48), following="dense9")
    with pytest.raises(DataError, match="do not spread"):
        even_thresholds(np.ones(10), 4)


# Bad input


def test_noise_needs_a_norm_and_a_key():
    with pytest.raises(InvalidArgument, match="Noise has no scale"):
        released_gradient(LOSS, PARAMS, one(0), noise_multiplier=1.0)
    with pytest.raises(InvalidArgument, match="max_norm must be"):
        released_gradient(LOSS, PARAMS, one(0), max_norm=-1.0)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ({"w": np.ones((3, 2))}, "with a bias"),
        ({"w": np.ones((3, 2)), "b": np.ones(3)}, "do not fit together"),
        ({"w": np.full((3, 2), np.nan), "b": np.ones(2)}, "not finite"),
        ({"w": np.zeros((3, 2)), "b": np.zeros(2)}, "every bias is zero"),
    ],
)
def test_gradients_that_cannot_be_divided_are_refused(layer: dict, message: str):
    with pytest.raises(DataError, match=message):
        recover_analytically(layer)


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(DataError, match="no bias from which"):
        recover_label({"w": np.ones((2, 2))})
    with pytest.raises(DataError, match="cannot be compared"):
        mean_squared_error(np.ones(3), np.ones(4))
    with pytest.raises(DataError, match="cannot be measured"):
        noise_curve(LOSS, PARAMS, {"x": np.full((3, 6, 6), 9.0), "y": np.zeros(3, int)}, lambda g: g)
    assert psnr(np.ones(3), np.ones(3)) == 120


def test_one_product_without_a_bias_gives_the_direction_and_the_label_away():
    random = np.random.default_rng(0)
    for label in range(4):
        record = random.normal(0, 1, 12)
        answers = random.dirichlet(np.ones(4))
        gradient = 0.01 * np.outer(record, answers - np.eye(4)[label])
        found, read = recover_from_outputs(gradient, length=float(np.linalg.norm(record)))
        assert read == label
        np.testing.assert_allclose(found, record, atol=1e-9)
    with pytest.raises(DataError, match="holds no example"):
        recover_from_outputs(np.zeros((3, 2)), length=1.0)


def test_what_is_recovered_may_be_something_else_than_the_input():
    """Pictures that are twice as bright as what the model was given."""
    some = examples(4)
    (row,) = noise_curve(
        LOSS,
        PARAMS,
        some,
        lambda gradient: 2 * recover_analytically(gradient["dense1"]),
        noise_multipliers=(0.0,),
        truth=2 * some["x"],
        box=(0.0, 2.0),
        read_label=lambda gradient: -1,
    )
    assert row.psnr.value > 90
    assert row.label.value == 0
