"""What holds for every model: sizes, shapes, finite gradients, and a bound on what one record can move."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from reticent import models
from reticent.core.keys import Keys
from reticent.data.sampling import FullBatch
from reticent.mechanisms.adjacency import Adjacency
from reticent.models import Model, accuracy, classification_loss
from reticent.training.clipping import flat
from reticent.training.gradients import Strategy, clipped_gradient_sum
from reticent.training.loop import train
from reticent.training.plan import Plan

ROWS = 5
MAX_NORM = 0.01  # shorter than any gradient here, so that every record is clipped
# Compiling takes most of the time, and a third of it this way; the same arithmetic is done either way.
QUICK_TO_COMPILE = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}


class Case(NamedTuple):
    """A small model with inputs that fit it. The last record is as unusual as it can be."""

    model: Model
    x: np.ndarray
    outputs: tuple[int, ...]


def _pixels(*shape: int) -> np.ndarray:
    images = np.random.default_rng(0).integers(0, 256, (ROWS, *shape), dtype=np.uint8)
    images[-1] = 255
    return images


def _numbers(*shape: int) -> np.ndarray:
    rows = np.random.default_rng(1).normal(size=(ROWS, *shape)).astype(np.float32)
    rows[-1] *= 1e4
    return rows


def _tokens(symbols: int, length: int) -> np.ndarray:
    rows = np.random.default_rng(2).integers(0, symbols, (ROWS, length))
    rows[-1] = 1
    return rows


CASES = {
    "linear": lambda: Case(models.linear(6, 3), _numbers(6), (3,)),
    "mlp": lambda: Case(models.mlp((6, 5, 3), jnp.tanh), _numbers(6), (3,)),
    "course_cnn": lambda: Case(models.course_cnn(), _pixels(28, 28), (10,)),
    "tanh_cnn": lambda: Case(models.tanh_cnn(), _pixels(28, 28, 1), (10,)),
    "tanh_cnn_colour": lambda: Case(models.tanh_cnn_colour(), _pixels(32, 32, 3), (10,)),
    "wide_resnet": lambda: Case(models.wide_resnet(10, 1, classes=4, groups=4), _pixels(8, 8, 3), (4,)),
    "text_bag": lambda: Case(models.text_bag(20, 3, width=4), _tokens(20, 7), (3,)),
    "transformer": lambda: Case(
        models.transformer(20, 3, length=8, width=8, layers=1, heads=2), _tokens(20, 6), (3,)
    ),
    "language_model": lambda: Case(
        models.language_model(20, length=8, width=8, layers=1, heads=2), _tokens(20, 6), (6, 20)
    ),
    "scattering_linear": lambda: Case(models.scattering_linear(), _numbers(7, 7, 81), (10,)),
    "scattering_cnn": lambda: Case(models.scattering_cnn(), _numbers(7, 7, 81), (10,)),
    "scattering_cnn_colour": lambda: Case(models.scattering_cnn_colour(), _numbers(8, 8, 243), (10,)),
}
ONE_OF_EACH_LAYER = ["mlp", "course_cnn", "wide_resnet", "text_bag", "language_model"]

case_of = cache(lambda name: CASES[name]())


@cache
def params_of(name: str) -> Any:
    """Fresh parameters, moved a little, so that layers that start at zero have a gradient too."""
    fresh = case_of(name).model.init(jax.random.key(3))
    leaves, structure = jax.tree.flatten(fresh)
    rng = np.random.default_rng(4)
    moved = [np.asarray(leaf) + 0.05 * rng.normal(size=leaf.shape).astype(np.float32) for leaf in leaves]
    return jax.tree.unflatten(structure, moved)


def batch_of(name: str) -> dict[str, np.ndarray]:
    case = case_of(name)
    shape = (ROWS, *case.outputs[:-1])
    return {"x": case.x, "y": np.random.default_rng(5).integers(0, case.outputs[-1], shape)}


@cache
def sum_of(name: str, strategy: Strategy) -> Callable[..., Any]:
    loss = classification_loss(case_of(name).model)
    total = clipped_gradient_sum(loss, max_norm=MAX_NORM, strategy=strategy)
    return jax.jit(total, compiler_options=QUICK_TO_COMPILE)


def test_every_model_of_the_package_is_tried_here():
    factories = {
        name for name in vars(models)["__all__"] if name[0].islower() and callable(getattr(models, name))
    }
    others = {"accuracy", "classification_loss", "squared_loss", "scattering_features", "normalise_features"}
    others |= {"random_shapes", "random_strokes", "random_scenes", "whitening"}
    others |= {"patches_of", "patch_features", "on_public_scale", "with_public_scale", "wide_resnet_features"}
    assert set(CASES) == factories - others


@pytest.mark.parametrize("name", CASES)
def test_a_model_is_called_what_its_factory_is(name: str):
    assert case_of(name).model.name == name
    assert f"{case_of(name).model.size} parameters" in repr(case_of(name).model)


@pytest.mark.parametrize(
    ("model", "size", "source"),
    [
        (models.linear(784, 10), 7_850, "784 * 10 + 10"),
        (models.mlp((784, 512, 512, 10)), 669_706, "by hand"),
        (models.course_cnn(), 26_010, "TensorFlow Privacy and Opacus MNIST examples"),
        (models.tanh_cnn(), 26_010, "Tramèr and Boneh: 26K"),
        (models.tanh_cnn_colour(), 550_570, "Tramèr and Boneh: 0.55M"),
        (models.wide_resnet(16, 1), 175_066, "WRN-16-1: 0.2M"),
        (models.wide_resnet(16, 2), 691_674, "WRN-16-2: 0.7M"),
        (models.wide_resnet(16, 4), 2_748_890, "Zagoruyko and Komodakis: 2.7M"),
        (models.wide_resnet(40, 4), 8_949_210, "Zagoruyko and Komodakis: 8.9M"),
        (models.text_bag(10_000, 2, 16), 160_034, "10,000 * 16 + 16 * 2 + 2"),
        (models.scattering_linear((7, 7, 81)), 39_700, "Tramèr and Boneh: 39.7K"),
        (models.scattering_linear((8, 8, 243)), 155_530, "Tramèr and Boneh: 155.5K"),
        (models.scattering_cnn(), 33_066, "Tramèr and Boneh: 33K"),
        (models.scattering_cnn_colour(), 187_210, "Tramèr and Boneh: 187K"),
    ],
    ids=lambda value: value.name if isinstance(value, Model) else "",
)
def test_the_size_is_the_published_one(model: Model, size: int, source: str):
    assert model.size == size, source


@pytest.mark.parametrize(
    ("model", "x", "maps"),
    [
        (models.course_cnn(), (28, 28), [(14, 14, 16), (5, 5, 32)]),
        (models.tanh_cnn(), (28, 28), [(13, 13, 16), (5, 5, 32)]),
        (
            models.tanh_cnn_colour(),
            (32, 32, 3),
            [(32, 32, 32), (32, 32, 32), (16, 16, 64), (16, 16, 64), (8, 8, 128), (8, 8, 128)],
        ),
        (
            models.wide_resnet(10, 2),
            (32, 32, 3),
            # the stem, then in each block the shortcut and two convolutions
            [(32, 32, 16), *[(32, 32, 32)] * 3, *[(16, 16, 64)] * 3, *[(8, 8, 128)] * 3],
        ),
        (models.scattering_cnn(), (7, 7, 81), [(4, 4, 16), (4, 4, 32)]),
        (models.scattering_cnn_colour(), (8, 8, 243), [(8, 8, 64), (4, 4, 64)]),
    ],
    ids=lambda value: value.name if isinstance(value, Model) else "",
)
def test_images_shrink_from_convolution_to_convolution_as_published(
    model: Model, x: tuple[int, ...], maps: list[tuple[int, ...]]
):
    params = jax.eval_shape(model.init, jax.random.key(0))
    traced = jax.make_jaxpr(model.apply)(params, jax.ShapeDtypeStruct(x, jnp.float32))
    convolutions = [line for line in traced.jaxpr.eqns if line.primitive.name == "conv_general_dilated"]
    assert [line.outvars[0].aval.shape[1:] for line in convolutions] == maps


@pytest.mark.parametrize("name", CASES)
def test_outputs_have_their_shape_in_a_compiled_batch(name: str):
    case = case_of(name)
    apply = jax.jit(jax.vmap(case.model.apply, in_axes=(None, 0)))
    outputs = jax.eval_shape(apply, params_of(name), case.x)
    assert (outputs.shape, outputs.dtype) == ((ROWS, *case.outputs), jnp.float32)


@pytest.mark.parametrize("name", CASES)
def test_the_loss_and_the_accuracy_of_one_example_are_numbers(name: str):
    case = case_of(name)
    example = jax.tree.map(lambda rows: rows[0], batch_of(name))
    for measure in (classification_loss(case.model), accuracy(case.model)):
        shape = jax.eval_shape(measure, params_of(name), example)
        assert (shape.shape, shape.dtype) == ((), jnp.float32)


@pytest.mark.parametrize("name", CASES)
def test_parameters_come_from_the_key_alone(name: str):
    init = case_of(name).model.init
    once, again, other = (jax.tree.leaves(init(jax.random.key(seed))) for seed in (0, 0, 1))
    assert all(np.array_equal(left, right) for left, right in zip(once, again, strict=True))
    starts_at_zero = name in {"linear", "scattering_linear"}
    differ = any(not np.array_equal(left, right) for left, right in zip(once, other, strict=True))
    assert differ is not starts_at_zero


@pytest.mark.parametrize("name", CASES)
def test_one_record_moves_the_clipped_sum_by_its_bound_and_no_more(name: str):
    batch, gradient_sum = batch_of(name), sum_of(name, "auto")
    total, unreleased = gradient_sum(params_of(name), batch, np.ones(ROWS, bool))
    assert np.isfinite(_vector(total)).all()
    assert np.all(np.asarray(unreleased.norms) > 2 * MAX_NORM), (
        "the bound has to bind for the test to mean much"
    )
    for gone in (0, ROWS - 1):
        # The neighbour's row is padding, and holds what another record holds.
        without = {key: _replaced(rows, gone) for key, rows in batch.items()}
        left, _ = gradient_sum(params_of(name), without, np.arange(ROWS) != gone)
        moved = np.linalg.norm(_vector(total) - _vector(left))
        assert 0.99 * MAX_NORM < moved <= MAX_NORM * (1 + 1e-4)


@pytest.mark.parametrize("name", ONE_OF_EACH_LAYER)
def test_both_strategies_find_the_same_sum(name: str):
    everyone = np.ones(ROWS, bool)
    expected, by_vmap = sum_of(name, "vmap")(params_of(name), batch_of(name), everyone)
    found, by_auto = sum_of(name, "auto")(params_of(name), batch_of(name), everyone)
    difference = np.linalg.norm(_vector(expected) - _vector(found))
    assert difference <= 1e-4 * np.linalg.norm(_vector(expected))
    np.testing.assert_allclose(by_vmap.norms, by_auto.norms, rtol=1e-4)


def _vector(tree: Any) -> np.ndarray:
    return np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(tree)])


def _replaced(rows: np.ndarray, gone: int) -> np.ndarray:
    rows = rows.copy()
    rows[gone] = rows[(gone + 1) % ROWS]
    return rows


@pytest.fixture
def _quick_to_compile() -> Iterator[None]:
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.mark.usefixtures("_quick_to_compile")
@pytest.mark.parametrize("name", ["mlp", "text_bag"])
def test_replaying_a_run_without_one_record_differs_by_its_clipped_share(name: str):
    """The same run and the same randomness, with and without the unusual record, through the public door."""
    recipe = Plan(
        sampler=FullBatch(examples=ROWS),
        clipping=flat(MAX_NORM),
        noise_multiplier=1.0,
        steps=1,
        delta=1e-3,
        adjacency=Adjacency.ADD_OR_REMOVE,
    )

    def moved(rows: int) -> list[np.ndarray]:
        batch = {key: array[:rows] for key, array in batch_of(name).items()}
        loss = classification_loss(case_of(name).model)
        options = {"optimizer": optax.sgd(float(ROWS)), "keys": Keys.seeded(6)}
        found = train(loss, params_of(name), batch, recipe, **options).params
        return [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(found)]

    squares = [np.sum((a - b) ** 2) for a, b in zip(moved(ROWS), moved(ROWS - 1), strict=True)]
    assert 0.5 * MAX_NORM < np.sqrt(sum(squares)) <= MAX_NORM * (1 + 1e-3)
