"""What `train` is given, looked at before anything is traced: of the wrong kind, it is refused in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np

from reticent.core.errors import DataError, InvalidArgument, ReticentError
from reticent.data.dataset import Dataset
from reticent.mechanisms.events import Event
from reticent.training.checkpoint import Checkpoints
from reticent.training.execution import Execution
from reticent.training.loss_keys import key_use

_PARTITION = (
    "Pass the leaves that are trained. Of an Equinox model: params, static = eqx.partition(model, "
    "eqx.is_inexact_array), and eqx.combine(params, static) inside the loss."
)
_NUMBERS = (jnp.floating, jnp.integer, jnp.bool_)


def as_params(params: Any) -> Any:
    """The same tree, of arrays of JAX.

    Raises:
        InvalidArgument: a leaf is not an array, or there is none.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(params)
    odd = [(path, leaf) for path, leaf in leaves if not _is_array(leaf)]
    if odd:
        path, leaf = odd[0]
        raise InvalidArgument(
            f"params{jax.tree_util.keystr(path)} is not an array: it is {_kind_of(leaf)} "
            f"({len(odd)} of {len(leaves)} leaves).",
            remedy=_PARTITION,
        )
    if not leaves:
        raise InvalidArgument(
            f"params has no leaf that could be trained: it is {type(params).__name__}.",
            remedy="Pass a tree of arrays, such as {'w': jnp.zeros((64, 10))}.",
        )
    return jax.tree.unflatten(structure, [jnp.asarray(leaf) for _, leaf in leaves])


def _is_array(leaf: Any) -> bool:
    if isinstance(leaf, np.ndarray | np.generic):
        return _is_number(leaf.dtype)
    is_number = isinstance(leaf, jax.Array | bool | int | float | complex)
    return is_number or hasattr(leaf, "__jax_array__") or hasattr(leaf, "__array__")


def _kind_of(leaf: Any) -> str:
    named = getattr(leaf, "__name__", "")
    return f"{type(leaf).__name__} {named}".strip() if callable(leaf) else repr(leaf)[:40]


def _is_number(dtype: Any) -> bool:
    return any(jnp.issubdtype(dtype, kind) for kind in _NUMBERS)


def require_numbers(data: Dataset) -> Dataset:
    """The same rows, if they hold numbers.

    Raises:
        DataError: text, dates or objects, which no loss can compute with.
    """
    for name in data:
        if not _is_number(data[name].dtype):
            raise DataError(
                f"Array '{name}' of dataset '{data.name}' holds {data[name].dtype}, not real numbers.",
                remedy="Turn it into numbers by a public rule, such as np.searchsorted(['no', 'yes'], "
                "labels), or leave it out.",
            )
    return data


def require_rows(data: Dataset) -> Dataset:
    """The same rows, if there are any. Coins may leave none to evaluate on; to train on, there must be some.

    Raises:
        DataError: there are none.
    """
    if not len(data):
        raise DataError(f"Dataset '{data.name}' has no rows.", remedy="Pass one row at least.")
    return data


def require_options(
    loss: Any, metrics: Any, project: Any, budget: Any, checkpoints: Any, execution: Any, beside: Any
) -> None:
    """
    Raises:
        InvalidArgument: one of them is of another kind than `train` takes.
    """
    _require_callable(loss, "loss", "Write loss(params, example), the loss of one example.")
    key_use(loss)
    if metrics is not None and not isinstance(metrics, Mapping):
        _refuse("metrics", metrics, "Name them: metrics={'accuracy': accuracy}.")
    for name, metric in (metrics or {}).items():
        _require_callable(metric, f"metrics[{name!r}]", "Write it as metric(params, example).")
    if project is not None:
        _require_callable(project, "project", "Pass for example rt.training.onto_ball(10.0).")
    if budget is not None and not callable(getattr(budget, "charge", None)):
        remedy = "Pass ledger.for_dataset('name') of an rt.Ledger; the plan says how much is spent."
        _refuse("budget", budget, remedy)
    if checkpoints is not None and not (isinstance(checkpoints, Checkpoints) and checkpoints.path.name):
        _refuse("checkpoints", checkpoints, "Name a file: checkpoints='run.checkpoint'.")
    if execution is not None and not isinstance(execution, Execution):
        _refuse("execution", execution, "Pass rt.Execution(...).")
    if beside is not None and not isinstance(beside, get_args(Event)):
        _refuse("beside", beside, "Pass an event: what else was released, not what it cost.")


def _require_callable(given: Any, name: str, remedy: str) -> None:
    if not callable(given):
        _refuse(name, given, remedy)


def _refuse(name: str, given: Any, remedy: str) -> None:
    raise InvalidArgument(f"{name} cannot be {repr(given)[:60]} ({type(given).__name__}).", remedy=remedy)


@contextmanager
def explain_errors(call: str, **shown: Any) -> Iterator[None]:
    """Says, beside an error that somebody's own function raises, how it was called and with what.

    The error stays what it is: its own message names the line.
    """
    try:
        yield
    except ReticentError:
        raise
    except Exception as error:
        listed = "; ".join(f"{name} is {shapes_in_words(value)}" for name, value in shown.items())
        error.add_note(f"reticent called {call}, where {listed}.")
        raise


def shapes_in_words(tree: Any) -> str:
    """
    Example:
        >>> shapes_in_words({"x": np.zeros((3, 2), np.float32), "y": np.int32(1)})
        '{x: float32[3,2], y: int32[]}'
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    said = [f"{_path(path)}{leaf.dtype}[{','.join(map(str, leaf.shape))}]" for path, leaf in leaves[:8]]
    return f"{{{', '.join([*said, '...'] if len(leaves) > 8 else said)}}}"


def _path(path: Any) -> str:
    name = jax.tree_util.keystr(path, simple=True, separator="/")
    return f"{name}: " if name else ""


def call_of(loss: Callable[..., Any]) -> str:
    """How a loss is called, in words."""
    draws = key_use(loss) != "never"
    return (
        "the loss of one example as loss(params, example, key)"
        if draws
        else ("the loss of one example as loss(params, example)")
    )
