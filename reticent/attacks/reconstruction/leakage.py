"""Gradient leakage: recovers an example and its label from the gradient that a client sends.

In federated learning records stay with the clients, and gradients go to the server. A gradient is nearly a
copy of its record. Where the first layer is dense with a bias, it holds the record times a number, and
division gives the record back. Elsewhere the server looks for a record with the same gradient. Clipping only
scales a gradient and hides nothing; noise does.

    gradient = released_gradient(loss, params, example, max_norm=1.0, noise_multiplier=0.1, key=key)
    recover_analytically(gradient["dense1"])

What a server can read when it chooses the parameters itself is in `malicious`.

Reference:
    Phong et al. (2018), Section III (division by the bias); Zhu, Liu and Han (2019), arXiv:1906.08935;
    Zhao, Mopuri and Bilen (2020), arXiv:2001.02610 (labels); Geiping et al. (2020), arXiv:2003.14053.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import ArrayLike
from scipy.stats import t as student

from reticent.attacks.metrics import Estimate, clopper_pearson
from reticent.attacks.reconstruction.inversion import roughness
from reticent.attacks.reconstruction.layer_order import in_layer_order
from reticent.core import checks
from reticent.core.errors import DataError, InvalidArgument
from reticent.core.keys import leaf_keys
from reticent.core.trees import ArrayTree

ExampleLoss = Callable[[Any, Any], jax.Array]  # (params, example) -> scalar
Gradient = Any  # a tree like the parameters
Recover = Callable[[Gradient], Any]  # from a gradient to an example
Match = Callable[..., np.ndarray]  # (params, gradient, label or None) -> example

_MOST_PSNR = 120.0  # decibels: what float32 can tell from a perfect copy


# What a client sends


def released_gradient(
    loss: ExampleLoss,
    params: ArrayTree,
    batch: Mapping[str, Any],
    *,
    max_norm: float | None = None,
    noise_multiplier: float = 0.0,
    key: jax.Array | None = None,
) -> Gradient:
    """The average gradient of a batch: raw, with every example clipped, or clipped and noised as in DP-SGD.

    Args:
        batch: `x` and `y` with a first axis of examples.
        key: of the noise, if there is any.

    Example:
        >>> def loss(w, example):
        ...     return (example["x"] @ w - example["y"]) ** 2
        >>> batch = {"x": jnp.array([[1.0, 0.0]]), "y": jnp.array([1.0])}
        >>> released_gradient(loss, jnp.zeros(2), batch).tolist()
        [-2.0, -0.0]
        >>> released_gradient(loss, jnp.zeros(2), batch, max_norm=1.0).round(3).tolist()
        [-1.0, -0.0]
    """
    checks.not_negative(noise_multiplier=noise_multiplier)
    if noise_multiplier and (max_norm is None or key is None):
        raise InvalidArgument(
            "Noise has no scale without a clipping norm, and no randomness without a key.",
            remedy="Give max_norm and key as well, or no noise_multiplier.",
        )
    if max_norm is not None:
        checks.positive(max_norm=max_norm)
    x, y = jnp.asarray(batch["x"]), jnp.asarray(batch["y"])
    total = _clipped_sum(loss, params, x, y, math.inf if max_norm is None else max_norm)
    if noise_multiplier and max_norm is not None and key is not None:
        total = add_noise(total, noise_multiplier * max_norm, key)
    return jax.tree.map(lambda leaf: leaf / len(y), total)


@partial(jax.jit, static_argnums=0)
def _clipped_sum(
    loss: ExampleLoss, params: ArrayTree, x: jax.Array, y: jax.Array, max_norm: jax.Array
) -> Gradient:
    def one(x: jax.Array, y: jax.Array) -> Gradient:
        gradient = jax.grad(loss)(params, {"x": x, "y": y})
        factor = jnp.minimum(1.0, max_norm / jnp.maximum(optax.tree.norm(gradient), 1e-12))
        return jax.tree.map(lambda leaf: leaf * factor, gradient)

    return jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), jax.vmap(one)(x, y))


@jax.jit
def add_noise(gradient: Gradient, deviation: float, key: jax.Array) -> Gradient:
    """Adds independent normal noise to every number."""
    return jax.tree.map(
        lambda leaf, key: leaf + deviation * jax.random.normal(key, leaf.shape),
        gradient,
        leaf_keys(key, gradient),
    )


# What the server reads


def recover_analytically(
    layer: Mapping[str, Any], *, shape: tuple[int, ...] | None = None, box: tuple[float, float] | None = None
) -> np.ndarray:
    """Recovers the one example behind the gradient of a first dense layer with bias.

    For every unit, the gradient of its weights is the example times that of its bias: together they are a
    matrix of rank one. Its direction is exact without noise, however the gradient was clipped, and with noise
    the nearest such matrix averages it over all units. Of several examples, a mixture comes out.

    Args:
        layer: gradients `w` (inputs, units) and `b` (units,).
        shape: of the example; flat unless given.
        box: where examples lie; the guess is cut to it.

    Raises:
        DataError: no bias, other shapes, or a gradient that is zero: no unit saw the example.

    Example:
        >>> example, pull = np.array([0.2, 0.9]), np.array([0.5, -1.0, 0.1])
        >>> recover_analytically({"w": np.outer(example, pull), "b": pull}).round(3).tolist()
        [0.2, 0.9]
    """
    if "w" not in layer or "b" not in layer or np.ndim(layer["w"]) != 2:
        raise DataError(
            "Only a dense layer with a bias can be divided.",
            remedy="Give its gradients as {'w': (inputs, units), 'b': (units,)}, or match gradients instead.",
        )
    w, b = np.asarray(layer["w"], float), np.asarray(layer["b"], float)
    if b.shape != w.shape[1:] or not (np.isfinite(w).all() and np.isfinite(b).all()):
        raise DataError(
            f"Gradients of weights {w.shape} and biases {b.shape} do not fit together, or are not finite.",
            remedy="Give both of one layer: (inputs, units) and (units,).",
        )
    if not np.any(b):
        raise DataError(
            "The gradient of every bias is zero: no unit of this layer saw the example.",
            remedy="Ask for a gradient at other parameters.",
        )
    direction = np.linalg.svd(np.vstack([w, b]), full_matrices=False)[0][:, 0]  # of (example, 1)
    found = direction[:-1] / (direction[-1] or np.finfo(float).tiny)
    found = found if box is None else np.clip(found, *box)
    return found if shape is None else found.reshape(shape)


def recover_from_outputs(w: Any, *, length: float) -> tuple[np.ndarray, int]:
    """Recovers the example and the label behind the gradient of a model that is one product without a bias.

    The gradient is the example times (probabilities - label), a matrix of rank one. Only the entry of the
    label is negative there, and it is the largest: that tells the label, and the sign of the example. The
    length of the example cannot be told.

    Args:
        w: (inputs, classes).
        length: of a usual example, which this one is given.

    Raises:
        DataError: another shape, or a gradient that is zero or not finite.

    Example:
        >>> example, pull = np.array([0.6, 0.8]), np.array([0.3, -0.7, 0.4])
        >>> found, label = recover_from_outputs(np.outer(example, pull), length=1.0)
        >>> found.round(3).tolist(), label
        ([0.6, 0.8], 1)
    """
    matrix = np.asarray(w, float)
    if matrix.ndim != 2 or not np.isfinite(matrix).all() or not np.any(matrix):
        raise DataError(
            f"A gradient of shape {matrix.shape} holds no example, or is zero or not finite.",
            remedy="Give that of one product, (inputs, classes).",
        )
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    label = int(np.argmax(np.abs(right[0])))
    return -np.sign(right[0, label]) * length * left[:, 0], label


def recover_label(gradient: Gradient) -> int:
    """Recovers the label of one example: its bias alone has a negative gradient under cross-entropy.

    The last bias is the last array of one axis, layers taken in the order of their names.

    Example:
        >>> recover_label({"dense1": {"w": np.ones((2, 3)), "b": np.array([0.2, -0.5, 0.3])}})
        1
    """
    biases = [leaf for leaf in in_layer_order(gradient) if np.ndim(leaf) == 1]
    if not biases:
        raise DataError(
            "The gradient has no bias from which to read a label.",
            remedy="Try every label, and keep the one whose gradient fits best.",
        )
    return int(np.argmin(np.asarray(biases[-1])))


def gradient_matcher(
    loss: ExampleLoss,
    *,
    shape: tuple[int, ...],
    box: tuple[float, float] = (0.0, 1.0),
    steps: int = 600,
    rate: float = 0.05,
    smoothness: float = 1e-3,
    restarts: int = 2,
    seed: int = 0,
) -> Match:
    """Makes an attack that searches for the example whose gradient has the direction of a given one.

    It descends on the angle between the two, which does not change by clipping. Of all restarts the one with
    the smallest angle is kept. The attack, match(params, gradient, label), is compiled once; without a label
    it reads it off the gradient.

    Args:
        smoothness: how much neighbouring pixels are kept alike; 0 for records that are not pictures.
    """
    checks.count(steps=steps, restarts=restarts)
    checks.positive(rate=rate)
    checks.not_negative(smoothness=smoothness)
    low, high = box
    optimizer = optax.adam(optax.cosine_decay_schedule(rate * (high - low), steps))
    pixels = math.prod(shape)

    def misfit(x: jax.Array, aim: jax.Array, params: ArrayTree, label: jax.Array) -> jax.Array:
        ours = _flat(jax.grad(loss)(params, {"x": x, "y": label}))
        return 1 - jnp.vdot(ours, aim) / jnp.maximum(jnp.linalg.norm(ours) * jnp.linalg.norm(aim), 1e-12)

    def cost(x: jax.Array, *known: Any) -> jax.Array:
        return misfit(x, *known) + smoothness * roughness(x) / (pixels * (high - low))

    @jax.jit
    def descend(key: jax.Array, *known: Any) -> tuple[jax.Array, jax.Array]:
        start = jax.random.uniform(key, shape, minval=low, maxval=high)

        def step(state: ArrayTree, _: None) -> tuple[Any, None]:
            x, moments = state
            updates, moments = optimizer.update(jnp.sign(jax.grad(cost)(x, *known)), moments)
            return (jnp.clip(x + updates, low, high), moments), None

        (x, _), _ = jax.lax.scan(step, (start, optimizer.init(start)), None, length=steps)
        return x, misfit(x, *known)

    keys = jax.random.split(jax.random.key(seed, impl="threefry2x32"), restarts)

    def match(params: ArrayTree, gradient: Gradient, label: int | None = None) -> np.ndarray:
        known = jnp.int32(recover_label(gradient) if label is None else label)
        found = [descend(key, _flat(gradient), params, known) for key in keys]
        best = min(found, key=lambda pair: float(pair[1]) if np.isfinite(pair[1]) else math.inf)
        return np.asarray(best[0])

    return match


def _flat(tree: ArrayTree) -> jax.Array:
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)])


# How good it is


def mean_squared_error(truth: ArrayLike, found: ArrayLike) -> float:
    """The mean squared difference of two arrays of one shape.

    Example:
        >>> mean_squared_error([0.0, 1.0], [0.0, 0.5])
        0.125
    """
    truth, found = np.asarray(truth, float), np.asarray(found, float)
    if truth.shape != found.shape:
        raise DataError(
            f"An example of shape {truth.shape} cannot be compared with one of shape {found.shape}.",
            remedy="Give both the same shape.",
        )
    return float(np.mean((truth - found) ** 2))


def psnr(truth: ArrayLike, found: ArrayLike, *, peak: float = 1.0) -> float:
    """Peak signal-to-noise ratio in decibels: above 20 a clear copy, below 10 noise, 120 if it is perfect.

    Example:
        >>> round(psnr([0.0, 1.0], [0.1, 0.9]), 1), psnr([0.0, 1.0], [0.0, 1.0])
        (20.0, 120.0)
    """
    error = mean_squared_error(truth, found)
    return _MOST_PSNR if error == 0 else min(10 * math.log10(peak**2 / error), _MOST_PSNR)


@dataclass(frozen=True, kw_only=True)
class LeakAt:
    """What is left of examples at one noise multiplier.

    Args:
        psnr: the mean over examples with its interval, in decibels.
        label: the share of labels that were read right.
        recovered: (examples, *shape).
    """

    noise_multiplier: float
    psnr: Estimate
    label: Estimate
    recovered: np.ndarray = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        return {
            "noise_multiplier": self.noise_multiplier,
            "psnr": self.psnr._asdict(),
            "label": self.label._asdict(),
        }


def noise_curve(
    loss: ExampleLoss,
    params: ArrayTree,
    examples: Mapping[str, Any],
    recover: Recover,
    *,
    noise_multipliers: Sequence[float] = (0.0, 0.001, 0.01, 0.1, 1.0),
    max_norm: float = 1.0,
    box: tuple[float, float] = (0.0, 1.0),
    read_label: Callable[[Gradient], int] = recover_label,
    truth: ArrayLike | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> tuple[LeakAt, ...]:
    """Measures how noise stops leakage: each example alone, clipped, noised and attacked at each multiplier.

    One example per gradient is the worst case: in a batch, others hide it as well.

    Args:
        examples: `x`, as numbers inside the box, and `y`; at least two.
        recover: from a gradient to an example; cut to the box before it is measured.
        truth: what should be recovered, inside the box, where that is not `x` itself: the picture whose
            features `x` are.
    """
    x, y = np.asarray(examples["x"], float), np.asarray(examples["y"])
    aims = x if truth is None else np.asarray(truth, float)
    if not 2 <= len(x) == len(y) == len(aims) or aims.min() < box[0] or aims.max() > box[1]:
        raise DataError(
            f"{len(x)} examples with {len(y)} labels, from {aims.min():g} to {aims.max():g}, cannot be "
            "measured.",
            remedy=f"Give at least two, as numbers from {box[0]:g} to {box[1]:g}, each with a label.",
        )
    clean = [
        released_gradient(loss, params, {"x": record[None], "y": label[None]}, max_norm=max_norm)
        for record, label in zip(x.astype(np.float32), y, strict=True)
    ]
    root = jax.random.key(seed, impl="threefry2x32")
    rows = []
    for noise_multiplier in noise_multipliers:
        checks.not_negative(noise_multiplier=noise_multiplier)
        # The same noise at every multiplier, only larger: the curve falls because of its size alone.
        sent = [
            add_noise(gradient, noise_multiplier * max_norm, jax.random.fold_in(root, number))
            for number, gradient in enumerate(clean)
        ]
        recovered = np.stack([np.clip(recover(gradient), *box).reshape(aims.shape[1:]) for gradient in sent])
        quality = [psnr(a, b, peak=box[1] - box[0]) for a, b in zip(aims, recovered, strict=True)]
        right = sum(read_label(gradient) == label for gradient, label in zip(sent, y, strict=True))
        rows.append(
            LeakAt(
                noise_multiplier=noise_multiplier,
                psnr=mean_of(quality, confidence=confidence),
                label=clopper_pearson(right, len(y), confidence=confidence),
                recovered=recovered,
            )
        )
    return tuple(rows)


def mean_of(values: Sequence[float], *, confidence: float = 0.95) -> Estimate:
    """The mean of measurements of independent examples, with Student's interval.

    Example:
        >>> print(mean_of([1.0, 2.0, 3.0]))
        2 [-0.4841, 4.484]
    """
    mean, deviation = float(np.mean(values)), float(np.std(values, ddof=1))
    reach = float(student.isf((1 - confidence) / 2, len(values) - 1)) * deviation / math.sqrt(len(values))
    return Estimate(mean, mean - reach, mean + reach)
