"""Model inversion: a planted template comes back, and stays inside the box."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.attacks.reconstruction.inversion import Inverted, invert, likeness
from reticent.core.errors import DataError, InvalidArgument


def templates(classes: int = 4, side: int = 12) -> np.ndarray:
    """Each class is a bright square in another corner."""
    pictures = np.zeros((classes, side, side), np.float32)
    for label in range(classes):
        row, column = divmod(label, 2)
        pictures[label, 6 * row : 6 * row + 5, 6 * column : 6 * column + 5] = 1
    return pictures


TEMPLATES = templates()
WEIGHTS = jnp.asarray(TEMPLATES.reshape(4, -1) - TEMPLATES.mean(axis=0).ravel())


def knows(x: jax.Array) -> jax.Array:
    return WEIGHTS @ x.ravel() / 4


def knows_nothing(x: jax.Array) -> jax.Array:
    noise = jax.random.normal(jax.random.key(0), (4, x.size))
    return noise @ x.ravel() / 10


def test_what_the_model_knows_of_a_class_comes_back():
    found = invert(knows, (12, 12), range(4), steps=100)
    assert (found.confidences > 0.9).all()
    alike = likeness(found, TEMPLATES)
    assert alike.recognised.value == 1
    assert alike.own > 0.7
    assert alike.others < 0.1
    assert alike.to_json()["own"] == alike.own


def test_a_model_that_knows_nothing_is_sure_and_gives_nothing_away():
    found = invert(knows_nothing, (12, 12), range(4), steps=100, smoothness=0.0)
    assert (found.confidences > 0.9).all()
    assert abs(likeness(found, TEMPLATES).own) < 0.2


def test_unlabelled_records_of_the_same_kind_make_better_pictures():
    random = np.random.default_rng(0)
    public = np.clip(TEMPLATES[random.integers(0, 4, 200)] + random.normal(0, 0.1, (200, 12, 12)), 0, 1)
    # The model looks at one corner of each square only: the rest is what public records have with it.
    corners = jnp.asarray(TEMPLATES * (np.indices((12, 12)).sum(axis=0) % 6 == 2)).reshape(4, -1)

    def narrow(x: jax.Array) -> jax.Array:
        return 4 * corners @ x.ravel()

    alone = likeness(invert(narrow, (12, 12), range(4), steps=100), TEMPLATES)
    helped = likeness(invert(narrow, (12, 12), range(4), steps=100, public=public), TEMPLATES)
    assert helped.own > max(alone.own, 0.8)
    assert helped.recognised.value == 1
    with pytest.raises(DataError, match="Public records of shape"):
        invert(narrow, (12, 12), [0], public=public[:, :5])


def test_representatives_stay_inside_the_box():
    box = (-3.0, -1.0)
    found = invert(knows, (12, 12), [2, 0], box=box, steps=60)
    assert found.labels == (2, 0)
    assert found.pictures.shape == (2, 12, 12)
    assert box[0] <= found.pictures.min() <= found.pictures.max() <= box[1]


def test_rows_of_a_table_can_be_inverted_too():
    found = invert(lambda x: jnp.stack([x[0], x[1]]), (5,), [0, 1], steps=50)
    assert found.pictures[0, 0] > 0.9
    assert found.pictures[1, 0] < 0.1


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        (lambda x: x.missing, "cannot be asked about a record of shape"),
        (lambda x: np.zeros(3) + float(x.sum()), "not differentiated"),
        (lambda x: jnp.sum(x), "For one record the model gives an array of shape"),
        (lambda x: jnp.log(x.ravel()[:3] - 5), "not finite"),
    ],
)
def test_a_model_that_cannot_be_climbed_is_refused(logits, message: str):
    with pytest.raises(DataError, match=message):
        invert(logits, (4, 4), [0], steps=3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": [7]}, r"Labels \[7\] are not among the 4 classes"),
        ({"box": (1.0, 0.0)}, "box from 1 to 0 is empty"),
        ({"steps": 0}, "steps must be"),
        ({"smoothness": -1.0}, "smoothness must be"),
    ],
)
def test_bad_arguments_are_refused(change: dict, message: str):
    arguments: dict[str, Any] = {"labels": [0]} | change
    with pytest.raises(InvalidArgument, match=message):
        invert(knows, (12, 12), **arguments)


def test_class_means_of_another_shape_or_constant_are_refused():
    found = Inverted(labels=(0,), pictures=TEMPLATES[:1], confidences=np.ones(1))
    with pytest.raises(DataError, match="Class means have shape"):
        likeness(found, TEMPLATES[:, :5])
    with pytest.raises(DataError, match="constant or not finite"):
        likeness(found, np.ones_like(TEMPLATES))
