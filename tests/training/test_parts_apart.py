"""What divided parameters, and users on several processes, rest on: parts that can be told apart."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from reticent.core.errors import DataError, InvalidArgument
from reticent.training.devices.exchange import DividedExchange
from reticent.training.devices.mesh import Layout, user_names
from reticent.training.elementwise import require_elementwise

ELEMENTWISE = {
    "sgd": optax.sgd(0.1),
    "nesterov": optax.sgd(0.1, 0.9, nesterov=True),
    "adam": optax.adam(0.1),
    "adamw": optax.adamw(optax.cosine_decay_schedule(0.1, 100)),
    "decay of matrices": optax.adamw(0.1, mask=lambda tree: jax.tree.map(lambda leaf: leaf.ndim > 1, tree)),
    "rmsprop": optax.rmsprop(0.1, centered=True, momentum=0.9),
    "adagrad": optax.adagrad(0.1),
    "lion": optax.lion(0.1),
    "rprop": optax.rprop(0.1),
    "schedule free": optax.contrib.schedule_free_adamw(0.1),
    "clipped one by one": optax.chain(optax.clip(1.0), optax.sgd(0.1)),
    "in several steps": optax.MultiSteps(optax.adam(0.1), 5),
    "changed by hand": optax.inject_hyperparams(optax.adam)(learning_rate=0.1),
    "a schedule from a table": optax.sgd(
        optax.piecewise_interpolate_schedule("linear", 0.1, {10: 0.5, 20: 0.1})
    ),
}


def scaled(by: Any) -> optax.GradientTransformation:
    return optax.stateless(lambda updates, params: jax.tree.map(lambda leaf: leaf * by(leaf), updates))


def summed_by_rows(leaf: jax.Array) -> jax.Array:
    return jax.lax.scan(lambda total, row: (total + row, total), jnp.zeros_like(leaf[0]), leaf)[1]


JOINING = {
    "muon": optax.contrib.muon(0.1),
    "sm3": optax.sm3(0.1),
    "factored_rms": optax.scale_by_factored_rms(),
    "factored_rms of large matrices": optax.scale_by_factored_rms(min_dim_size_to_factor=2048),
    "adafactor": optax.adafactor(0.1),
    "lamb": optax.lamb(0.1),
    "lars": optax.lars(0.1),
    "a norm that is never reached": optax.chain(optax.clip_by_global_norm(1e9), optax.sgd(0.1)),
    "a norm in the fifth step": optax.MultiSteps(optax.lamb(0.1), 5),
    "nothing if one is not finite": optax.apply_if_finite(optax.sgd(0.1), 3),
    "prodigy": optax.contrib.prodigy(0.1),
    "noise": optax.add_noise(0.1, 0.5, key=jax.random.key(0)),
    "by the size": scaled(lambda leaf: 1 / leaf.size),
    "by the place": scaled(lambda leaf: jnp.arange(leaf.size).reshape(leaf.shape)),
    "the one before": scaled(lambda leaf: jnp.roll(leaf, 1)),
    "turned around": scaled(lambda leaf: leaf[::-1]),
    "added up": scaled(lambda leaf: jnp.cumsum(leaf, axis=0)),
    "row after row": scaled(summed_by_rows),
}


@pytest.mark.parametrize("optimizer", ELEMENTWISE.values(), ids=ELEMENTWISE)
def test_an_optimizer_that_treats_each_number_by_itself_may_be_divided(optimizer: Any) -> None:
    require_elementwise(optimizer)


@pytest.mark.parametrize("optimizer", JOINING.values(), ids=JOINING)
def test_an_optimizer_that_joins_numbers_of_a_leaf_is_refused(optimizer: Any) -> None:
    with pytest.raises(InvalidArgument, match="several parameters at once"):
        require_elementwise(optimizer)


def test_looking_at_an_optimizer_takes_little_time() -> None:
    require_elementwise(optax.sgd(0.1))
    before = time.process_time()
    require_elementwise(optax.adam(0.1))
    assert time.process_time() - before < 0.3


def positions(sizes: tuple[int, ...], is_divided: tuple[bool, ...], devices: int) -> list[list[int]]:
    """Where the noise of each leaf begins, by devices; no leaf is made."""
    own = [size // devices if is_cut else size for size, is_cut in zip(sizes, is_divided, strict=True)]
    leaves = [jax.ShapeDtypeStruct((size,), jnp.float32) for size in own]
    divided = DividedExchange(("devices",), devices, sizes, is_divided)

    def one(_: jax.Array) -> list[jax.Array]:
        return [jnp.asarray(part.first) for part in divided.parts(leaves)]

    found = jax.vmap(one, axis_name="devices")(jnp.zeros(devices))
    return [np.asarray(leaf).tolist() for leaf in found]


def test_noise_of_large_leaves_begins_where_that_of_the_part_before_ends() -> None:
    small, large = 1000, 3 * 2**30
    assert positions((small, large, 7), (False, True, False), 4) == [
        [0] * 4,
        [small + device * large // 4 for device in range(4)],
        [small + large] * 4,
    ]


@pytest.mark.parametrize("shapes", [[(2**32,)], [(2**16, 2**16)], [(2**31,), (2**31 - 1,), (1,)]])
def test_more_numbers_than_noise_has_places_for_are_refused(shapes: list[tuple[int, ...]]) -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("records",))
    leaves = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    with pytest.raises(InvalidArgument, match="4294967296 numbers"):
        Layout(mesh, leaves, is_divided=True)
    Layout(mesh, leaves, is_divided=False)
    Layout(mesh, [jax.ShapeDtypeStruct((2**32 - 1,), jnp.float32)], is_divided=True)


WHOLE = (np.array([1, 2]), np.array([2, 1], np.uint8), np.array([1, 2, 1], ">i4"), np.array([2, 1], object))
TEXT = (np.array(["a", "bc"]), np.array(["a", "bc"], np.dtypes.StringDType()), np.array(["bc", "a"], object))


@pytest.mark.parametrize("alike", [WHOLE, TEXT], ids=["whole numbers", "text"])
def test_users_of_one_kind_have_the_names_of_their_equals(alike: tuple[np.ndarray, ...]) -> None:
    first, *others = map(user_names, alike)
    assert all(other == first for other in others)
    assert len(first[1]) == 2


UNLIKE = {
    "whole numbers": np.array([1]),
    "float64": np.array([1.0]),
    "float32": np.array([1.0], np.float32),
    "truth values": np.array([True]),
    "text": np.array(["1"]),
    "bytes": np.array([b"1"]),
    "datetime64[D]": np.array(["2020-01-01"], "datetime64[D]"),
    "datetime64[s]": np.array(["2020-01-01"], "datetime64[s]"),
}


@pytest.mark.parametrize("kind", UNLIKE)
def test_users_that_look_alike_and_are_of_other_kinds_are_told_apart(kind: str) -> None:
    assert user_names(UNLIKE[kind])[0] == kind


def test_equal_users_have_one_name_and_others_have_others() -> None:
    assert user_names(np.array([0.0])) == user_names(np.array([-0.0]))
    assert user_names(np.array([True], object)) == user_names(np.array([True]))
    assert user_names(np.array([2**80], object)) == ("whole numbers", {str(2**80).encode()})
    assert len(user_names(np.array(["ann", "ann ", " ann", "Ann"]))[1]) == 4


@pytest.mark.parametrize(
    "users",
    [[1, "1"], [1, True], ["a", b"a"], [1, 1.0], [1.5, 2.5], [Decimal("1.0")], [(1, 2), (3,)]],
    ids=str,
)
def test_users_that_cannot_be_compared_for_certain_are_refused(users: list[Any]) -> None:
    objects = np.empty(len(users), object)
    objects[:] = users
    with pytest.raises(DataError, match="whole numbers, or all by text"):
        user_names(objects)
