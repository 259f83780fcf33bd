"""What is of the wrong kind is refused in words; errors in your functions say how those were called."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import reticent as rt
from reticent.core.errors import DataError, InvalidArgument

ROWS = {"x": np.ones((60, 4), np.float32), "y": np.zeros(60, np.int32)}
BUDGET: dict[str, Any] = {"epsilon": 3, "delta": 1e-3, "examples": 60, "batch_size": 20, "steps": 2}
PLAN = rt.Plan.for_budget(**BUDGET, max_norm=1.0)
PARAMS = {"w": jnp.zeros((4, 3))}
EVALUATE = {"x": 2 * ROWS["x"][:5], "y": ROWS["y"][:5].copy()}


def loss(params: Any, example: Any) -> jax.Array:
    return optax.softmax_cross_entropy_with_integer_labels(example["x"] @ params["w"], example["y"])


def train(loss: Any = loss, params: Any = PARAMS, data: Any = ROWS, **options: Any) -> Any:
    return rt.train(loss, params, data, PLAN, **{"optimizer": optax.sgd(0.1), **options})


@pytest.mark.parametrize(
    ("params", "said"),
    [
        (eqx.nn.MLP(4, 3, 5, 1, key=jax.random.key(0)), r"activation is not an array.*eqx\.partition"),
        ({"w": PARAMS["w"], "kind": "relu"}, r"params\['kind'\] is not an array: it is 'relu' .1 of 2"),
        ({"w": np.array(["a"])}, "is not an array"),
        ({}, "no leaf that could be trained: it is dict"),
        (None, "no leaf that could be trained: it is NoneType"),
    ],
    ids=["equinox", "text", "words", "empty", "none"],
)
def test_params_are_arrays(params: Any, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        train(params=params)


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (np.array(["no"] * 60), "Array 'y' of dataset 'data' holds <U2"),
        (np.array([[1], [2, 3]] * 30, object), "holds object"),
        (np.zeros(60, "datetime64[D]"), "datetime64"),
        (np.zeros(60, np.complex64), "complex64"),
    ],
    ids=["text", "objects", "dates", "complex"],
)
def test_rows_are_numbers(column: np.ndarray, said: str) -> None:
    with pytest.raises(DataError, match=said):
        train(data={**ROWS, "y": column})
    with pytest.raises(DataError, match="dataset 'evaluate'"):
        train(evaluate={**ROWS, "y": column})


def test_no_rows_are_refused() -> None:
    with pytest.raises(DataError, match="has no rows"):
        train(data={name: column[:0] for name, column in ROWS.items()})


def test_options_are_of_their_kind(tmp_path: Any) -> None:
    with rt.Ledger.create(tmp_path / "a.ledger") as ledger:
        for name, given in {
            "loss": "mse",
            "metrics": [loss],
            "project": "ball",
            "budget": ledger,
            "checkpoints": "",
            "execution": {"microbatch": 3},
            "beside": 1.0,
        }.items():
            with pytest.raises(InvalidArgument, match=f"^{name} cannot be"):
                train(**{name: given})
    with pytest.raises(InvalidArgument, match=r"metrics\['accuracy'\] cannot be 'exact'"):
        train(metrics={"accuracy": "exact"}, evaluate=EVALUATE)
    with pytest.raises(InvalidArgument, match=r"not \(params\) alone"):
        train(lambda params: 0.0)


def notes_of(**options: Any) -> str:
    with pytest.raises((TypeError, KeyError)) as raised:
        train(**options)
    return " ".join(raised.value.__notes__)


def test_an_error_in_a_function_says_how_it_was_called() -> None:
    one = "where params is {w: float32[4,3]}; example is {x: float32[4], y: int32[]}."
    said = notes_of(loss=lambda params, example: jnp.sum(example["image"] @ params["w"]))
    assert f"loss(params, example), {one}" in said
    said = notes_of(loss=lambda params, x, y: jnp.sum(x @ params["w"]))  # the third is taken for a key
    assert f"loss(params, example, key), {one}" in said
    said = notes_of(augment=lambda example: example)
    assert "augment(key, example), where example is {x: float32[4], y: int32[]}" in said
    said = notes_of(evaluate={"x": EVALUATE["x"]})
    assert "loss(params, example) on a row to evaluate on" in said
    assert "example is {x: float32[4]}" in said


def test_a_plan_takes_an_adjacency_by_its_name_and_clipping_by_its_kind() -> None:
    plan = rt.Plan.for_budget(**BUDGET, max_norm=1.0, adjacency="replace")
    assert plan.adjacency is rt.Adjacency.REPLACE
    assert plan == rt.Plan.for_budget(**BUDGET, max_norm=1.0, adjacency=rt.Adjacency.REPLACE)
    for change, said in (
        ({"max_norm": 1.0, "adjacency": "swap"}, "adjacency='swap' is not known. Available: add-or-remove"),
        ({"clipping": "flat"}, "clipping cannot be 'flat'"),
    ):
        with pytest.raises(InvalidArgument, match=said):
            rt.Plan.for_budget(**{**BUDGET, **change})
