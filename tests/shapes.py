"""Checks the array shapes in signatures, such as `Float[Array, "rows features"]`, while functions run."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any

import pytest
from beartype import BeartypeConf, beartype
from jaxtyping import jaxtyped

_ARRAY = re.compile(r"\b(Bool|Float|Int|Key|Num|Shaped|UInt32)\[")
_TREE = re.compile(r"\b(ArrayTree|Params)\b")
_CHECKER = beartype(conf=BeartypeConf(is_pep484_tower=True))


def has_shapes(function: object) -> bool:
    """Whether the signature says what shape an array has."""
    return inspect.isfunction(function) and any(
        _ARRAY.search(str(text)) for text in function.__annotations__.values()
    )


def _is_checked(function: object) -> bool:
    return inspect.isfunction(function) and bool(_shapes_of(function))


def _shapes_of(function: Any) -> dict[str, str]:
    """The annotations of a function that say that something is an array of a shape, or a tree of arrays."""
    said = {name: str(text) for name, text in function.__annotations__.items()}
    return {name: text for name, text in said.items() if _ARRAY.search(text) or _TREE.search(text)}


def check_shapes(
    function: Callable[..., Any], *, on_call: Callable[[], None] = lambda: None
) -> Callable[..., Any]:
    """The function, raising `jaxtyping.TypeCheckError` for an argument or a result of another shape."""
    assert isinstance(function, FunctionType)
    copy = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
    copy.__annotations__ = _shapes_of(function)  # other annotations are the business of pyright
    checked = jaxtyped(copy, typechecker=_CHECKER)

    def call(*args: Any, **options: Any) -> Any:
        on_call()
        return checked(*args, **options)

    return call


@contextmanager
def checked_shapes(module: ModuleType) -> Iterator[dict[str, Any]]:
    """Checks all shapes in the signatures of a module; yields its checked functions by name."""
    with pytest.MonkeyPatch.context() as patch:
        checked = {}
        for name, value in list(vars(module).items()):
            if getattr(value, "__module__", None) != module.__name__:
                continue
            if _is_checked(value):
                checked[name] = check_shapes(value)
                patch.setattr(module, name, checked[name])
            elif inspect.isclass(value):
                for inner, method in list(vars(value).items()):
                    if _is_checked(method):
                        patch.setattr(value, inner, check_shapes(method))
        yield checked
