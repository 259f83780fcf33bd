"""Whoever asks for help on a public name gets an example, and `test_snippets` runs it."""

from __future__ import annotations

import enum
import inspect
from types import ModuleType
from typing import Any

import reticent
from reticent.core.errors import ReticentError
from reticent.core.pages import Page

TOP: Any = reticent
LEAST = 0.9  # of the public functions and classes that somebody calls

# Without an example in its docstring: too slow or too large for one, and where it is shown instead.
ELSEWHERE = {
    "attacks.defences.compare": "docs/attacks_other.md shows it on a model",
    "attacks.defences.compare_shadows": "docs/attacks_other.md shows it on shadow models",
    "attacks.infer_property": "trains 192 models; docs/attacks_other.md has it",
    "attacks.leakage.gradient_matcher": "600 steps of a search; docs/attacks_other.md has it",
    "attacks.leakage.noise_curve": "docs/attacks_other.md has it",
    "attacks.train_shadows": "docs/attacks.md trains some",
    "attacks.plain_recipe": "docs/attacks.md trains shadow models with it",
    "audit.arithmetic": "hundreds of releases; docs/audit.md has it",
    "audit.arithmetic_plan": "hundreds of releases; docs/audit.md has it",
    "audit.replay_plan": "compiles a step; docs/audit.md has it",
    "audit.train_with_canaries": "trains; docs/audit.md has it",
    "data.catalog.fetch": "needs a network",
    "data.prepare": "needs a table and a price; docs/data.md has the commands that call it",
    "runs.fit": "trains; docs/runs.md has it",
    "runs.Predictor": "needs a finished run; docs/runs.md has it",
    "runs.resume": "needs a run that was stopped; docs/runs.md has it",
    "train": "its own page is full: the example is that of the `Run` it returns",
    "synthetic.embedding.fit": "makes a basis from thousands of drawings; docs/synthetic.md has the command",
    "synthetic.gan.fit": "trains two networks; docs/synthetic.md has the command",
}


def has_example(found: Any) -> bool:
    """Whether a function, or a class or one of its methods, has an example in its docstring."""
    parts = [found, *vars(found).values()] if inspect.isclass(found) else [found]
    return any(">>> " in (inspect.getdoc(part) or "") for part in parts if _has_own_doc(part))


def _has_own_doc(part: Any) -> bool:
    return (
        isinstance(part, staticmethod | classmethod | property)
        or inspect.isroutine(part)
        or inspect.isclass(part)
    )


def is_called(found: Any) -> bool:
    """Not an error, a protocol, a list of words or a result: those are caught, implemented or read."""
    if inspect.isfunction(found):
        return True
    if not inspect.isclass(found) or issubclass(found, ReticentError | enum.Enum):
        return False
    return not getattr(found, "_is_protocol", False) and not is_result(found)


def is_result(found: type) -> bool:
    """A plain record of what a function returns, which nobody makes by hand: fields, and how they print."""
    is_record = hasattr(found, "__dataclass_fields__") or hasattr(found, "_fields")
    return is_record and not {"__post_init__", "__call__"} & set(vars(found))


def public() -> dict[str, Any]:
    """The functions and classes of all pages and of the modules on them, by the shortest name."""
    found: dict[int, tuple[str, Any]] = {}
    for page, home in sorted(TOP.__homes__.items()):
        part = getattr(TOP, page)
        if home != "reticent":
            found.setdefault(id(part), (page, part))
        elif isinstance(part, Page):
            for name in part.__homes__:
                _collect(found, f"{page}.{name}", getattr(part, name))
    return {name: part for name, part in found.values() if is_called(part)}


def _collect(found: dict[int, tuple[str, Any]], name: str, part: Any) -> None:
    if not isinstance(part, ModuleType):
        found.setdefault(id(part), (name, part))
        return
    for inner, value in vars(part).items():
        if not inner.startswith("_") and getattr(value, "__module__", None) == part.__name__:
            found.setdefault(id(value), (f"{name}.{inner}", value))


def test_nearly_every_public_function_and_class_has_an_example():
    called = {name: part for name, part in public().items() if name not in ELSEWHERE}
    silent = sorted(name for name, part in called.items() if not has_example(part))
    share = 1 - len(silent) / len(called)
    assert share >= LEAST, f"{len(called) - len(silent)} of {len(called)} have an example, not: {silent}"


def test_an_exception_is_public_and_still_needed():
    known = public()
    assert not [name for name in ELSEWHERE if name not in known], "not on a page"
    assert not [name for name in ELSEWHERE if has_example(known[name])], "these have an example after all"


def test_an_example_is_found_where_there_is_one():
    class Shown:
        def method(self) -> None:
            """>>> 1"""

    class Silent:
        """Nothing."""

    assert has_example(Shown)
    assert has_example(TOP.training.Run)
    assert not has_example(Silent)
