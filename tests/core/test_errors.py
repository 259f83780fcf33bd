"""Every error can be caught by its base, says what to do, travels between processes, and has an exit code."""

from __future__ import annotations

import ast
import copy
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import reticent
from reticent.core import errors
from reticent.core.errors import BudgetExceeded, InvalidArgument, ReticentError, suggest

PACKAGE = Path(reticent.__file__).parent


def family(kind: type[ReticentError] = ReticentError) -> list[type[ReticentError]]:
    """The error and all that descend from it, each once."""
    return [kind, *(member for child in kind.__subclasses__() for member in family(child))]


def drawn(docstring: str) -> list[tuple[str, str | None]]:
    """The tree that a docstring draws, as pairs of a name and its parent."""
    pairs, path = [], []
    for line in docstring.splitlines():
        match = re.match(r"    ([│├└─ ]*)([A-Z]\w+)  ", line)
        if match:
            depth = len(match[1]) // 4
            path[depth:] = [match[2]]
            pairs.append((match[2], path[depth - 1] if depth else None))
    return pairs


def test_the_drawn_tree_is_the_real_one():
    real = {(child.__name__, kind.__name__) for kind in family() for child in kind.__subclasses__()}
    found = drawn(errors.__doc__ or "")
    assert found[0] == ("ReticentError", None)
    assert set(found[1:]) == real
    assert len(found) == len(family())


def test_every_error_of_the_package_is_defined_in_one_place():
    assert {kind.__module__ for kind in family()} == {"reticent.core.errors"}


@pytest.mark.parametrize("kind", family())
def test_an_error_says_what_happened_and_then_what_to_do(kind: type[ReticentError]):
    error = kind("The jar is empty.", remedy="Fill it.")
    assert (error.happened, error.remedy) == ("The jar is empty.", "Fill it.")
    assert str(error) == "The jar is empty. Fill it."


@pytest.mark.parametrize("kind", family())
def test_an_error_without_a_remedy_cannot_be_made(kind: type[ReticentError]):
    with pytest.raises(TypeError, match="remedy"):
        kind("The jar is empty.")  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize("kind", family())
def test_an_error_comes_back_whole_from_another_process(kind: type[ReticentError]):
    error = kind("The jar is empty.", remedy="Fill it.")
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is kind
        assert (twin.happened, twin.remedy) == (error.happened, error.remedy)


def test_only_a_refused_budget_and_an_interrupt_have_exit_codes_of_their_own():
    assert {kind.__name__: kind.exit_code for kind in family() if kind.exit_code != 1} == {
        "BudgetExceeded": 3,
        "Interrupted": 130,
    }
    assert BudgetExceeded.exit_code == 3


def test_a_wrong_argument_is_a_value_error_too():
    assert issubclass(InvalidArgument, ValueError)


def raised() -> Iterator[tuple[str, ast.Call]]:
    """Every call in the package that makes one of these errors by its name."""
    names = {kind.__name__ for kind in family()}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
                yield f"{path.relative_to(PACKAGE)}:{node.lineno}", node


def test_no_remedy_in_the_package_is_empty():
    found = dict(raised())
    assert len(found) > 50  # the walk does see them
    for where, call in found.items():
        (remedy,) = [keyword.value for keyword in call.keywords if keyword.arg == "remedy"]
        is_empty = isinstance(remedy, ast.Constant) and not str(remedy.value).strip()
        assert not is_empty, f"{where} leaves its reader with nothing to do"


def test_what_happened_and_the_remedy_are_sentences():
    for where, call in raised():
        written = [argument for argument in call.args if isinstance(argument, (ast.Constant, ast.JoinedStr))]
        for sentence in written:
            last = sentence.values[-1] if isinstance(sentence, ast.JoinedStr) else sentence
            if isinstance(last, ast.Constant):
                assert str(last.value)[-1] in ".?!", f"{where} does not end its sentence"


@pytest.mark.parametrize(
    ("wanted", "known", "remedy"),
    [
        ("incme", ["age", "income"], "Did you mean 'income'?"),
        ("zzz", ["age", "income"], "Available: age, income."),
        ("zzz", [], "There are none to choose from."),
        (
            "zzz",
            [f"c{i}" for i in range(20)],
            "Available: c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11 and 8 more.",
        ),
        ("", ["age"], "Available: age."),
    ],
)
def test_a_name_that_is_not_there_gets_the_nearest_or_the_list(wanted: str, known: list[str], remedy: str):
    assert suggest(wanted, known) == remedy


def test_the_names_to_choose_from_may_be_read_only_once():
    assert suggest("agee", iter(["age"])) == "Did you mean 'age'?"
