"""What keeps the project readable and portable, held by a machine so that nobody has to remember it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "reticent"

LONGEST = 400  # lines of a module
LONGER_ON_PURPOSE: dict[str, str] = {}  # path below the root -> the reason why it is one file
VAGUE = {"utils", "util", "helpers", "helper", "common", "base", "manager", "engine", "misc"}

SOURCES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))
}


@cache
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(source) for name, source in SOURCES.items()}


def tracked() -> list[Path]:
    """The files that a clone gets, or all but the caches where there is no git."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split("\0")
    files = [ROOT / name for name in listed if name]
    if not files:
        pytest.skip("needs a git checkout, to know which files belong to the project")
    return [path for path in files if path.is_file()]


def texts(paths: list[Path]) -> Iterator[tuple[str, str]]:
    for path in paths:
        try:
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def listed(offenders: Iterable[object]) -> str:
    return "\n".join(map(str, offenders))


def test_a_module_is_short_enough_to_be_read_in_one_sitting():
    lines = {name: len(source.splitlines()) for name, source in SOURCES.items()}
    too_long = {name: count for name, count in lines.items() if count > LONGEST}
    assert too_long.keys() == LONGER_ON_PURPOSE.keys(), f"a long module holds two ideas: {too_long}"


def test_a_module_is_named_for_what_it_holds():
    vague = [name for name in SOURCES if VAGUE & set(name.removesuffix(".py").split("/"))]
    assert not vague, listed(vague)


def test_a_module_says_what_it_is_for():
    silent = [name for name, tree in trees().items() if not ast.get_docstring(tree)]
    assert not silent, listed(silent)


def index_of(tree: ast.Module) -> set[str]:
    """The modules and folders that a package lists in its docstring: `name   what it is`."""
    rows = re.findall(r"^(\w+(?:, \w+)*)/? {2,}\S", ast.get_docstring(tree) or "", re.MULTILINE)
    return {name for row in rows for name in row.split(", ")}


def contents_of(package: Path) -> set[str]:
    modules = {path.stem for path in package.glob("*.py")} - {"__init__"}
    return modules | {path.parent.name for path in package.glob("*/__init__.py")}


def test_an_index_names_modules_that_are_there():
    wrong = []
    for name, tree in trees().items():
        known, strange = contents_of((ROOT / name).parent), index_of(tree)
        is_index = name.endswith("/__init__.py") and len(strange & known) >= len(strange - known)
        if is_index and strange - known:
            wrong.append(f"{name}: {sorted(strange - known)}")
    assert not wrong, listed(wrong)


def test_the_index_of_runs_is_complete():
    assert index_of(trees()["reticent/runs/__init__.py"]) == contents_of(PACKAGE / "runs")


def test_a_function_fits_on_a_page():
    too_long = [
        f"{name}: {node.name}"
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= 75
    ]
    assert not too_long, listed(too_long)


def types_of(tree: ast.Module) -> list[str]:
    """The public types that a module defines: classes, and aliases such as `Loss = Callable[...]`."""
    found = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    for node in tree.body:
        if isinstance(node, ast.Assign) and not ast.unparse(node.value).startswith("TypeVar("):
            found += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return [name for name in found if name[0].isupper() and not name.isupper()]


# Names that two types still share; each is to be renamed, none may be added.
SHARED_NAMES: set[str] = set()


def test_two_types_never_share_a_name():
    homes: dict[str, list[str]] = {}
    for name, tree in trees().items():
        if not name.startswith("reticent/cli/"):  # whose aliases are the options of a command, not types
            for found in types_of(tree):
                homes.setdefault(found, []).append(name)
    shared = {name: where for name, where in homes.items() if len(where) > 1 and name not in SHARED_NAMES}
    assert not shared, listed(shared.items())


def test_a_second_type_of_a_name_would_be_noticed():
    tree = ast.parse(
        "Loss = Callable[[Any], Any]\nTree = TypeVar('Tree')\nMOST = 3\nclass _Own: ...\nclass Fit: ..."
    )
    assert types_of(tree) == ["Fit", "Loss"]


# What may not be written anywhere

_REGISTRY = "|".join(["pypi" + r"\.org", "python" + r"hosted\.org", "conda" + r"\.anaconda\.org"])
_OPTIONS = "|".join(
    ["--index" + "-url", "--extra-index" + "-url", "--trusted" + "-host", "--find" + "-links"]
)
_MACHINE = r"(?<![\w.~/-])/(?:home|Users|root|work|opt|mnt|srv)/[\w.-]+"
FORBIDDEN = {
    "a package registry": re.compile(f"{_REGISTRY}|{_OPTIONS}"),
    "a path of one machine": re.compile(_MACHINE),
    "64-bit arithmetic in JAX, which is global": re.compile("jax_enable" + "_x64|JAX_ENABLE" + "_X64"),
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_of_the_project_names(what: str):
    found = [
        f"{name}: {match[0]}" for name, text in texts(tracked()) for match in FORBIDDEN[what].finditer(text)
    ]
    assert not found, listed(found)


def test_a_clone_holds_no_link():
    listed_by_git = subprocess.run(
        ["git", "ls-files", "--stage"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout
    links = [line for line in listed_by_git.splitlines() if line.startswith("120000")]
    assert not links, f"a link names a place that only one machine has:\n{listed(links)}"


@pytest.mark.parametrize(
    ("what", "example"),
    [
        ("a package registry", "https://files.python" + "hosted.org/packages"),
        ("a package registry", "pip install --index" + "-url http://mirror"),
        ("a path of one machine", 'open("/ho' + 'me/ada/data.csv")'),
        ("a path of one machine", "see /Us" + "ers/ada/data"),
        ("64-bit arithmetic in JAX, which is global", 'jax.config.update("jax_enable' + '_x64", True)'),
    ],
)
def test_each_of_these_would_be_noticed(what: str, example: str):
    assert FORBIDDEN[what].search(example)


@pytest.mark.parametrize(
    "example", ["https://example.org/ho" + "me/page", "../shared/data", "~/ho" + "me/x", "tests/ro" + "ot/a"]
)
def test_an_address_is_no_path_of_a_machine(example: str):
    assert not FORBIDDEN["a path of one machine"].search(example)


# Nothing a stranger wrote is ever executed


def executing_calls(tree: ast.Module) -> list[str]:
    """The calls that run what they read: unpickling, eval, shells."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        says = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        module, _, function = called.rpartition(".")
        is_unpickling = module in {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"} and (
            function in {"load", "loads", "Unpickler", "open"}
        )
        is_eval = called in {"eval", "exec", "os.system"} or says.get("shell") == "True"
        if is_unpickling or is_eval or says.get("allow_pickle", "False") != "False":
            found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found


# path below the root -> the one word that its owner has to say first, as the value of the keyword
ON_REQUEST = {"reticent/attacks/foreign_files.py": "allow_pickle=trust"}


def test_the_package_executes_nothing_that_it_reads():
    found = {name: calls for name, tree in trees().items() if (calls := executing_calls(tree))}
    assert found.keys() == ON_REQUEST.keys(), found
    unasked = [f"{name}, {call}" for name in found for call in found[name] if ON_REQUEST[name] not in call]
    assert not unasked, listed(unasked)


@pytest.mark.parametrize(
    "line",
    [
        "pickle.load(file)",
        "np.load(path, allow_pickle=True)",
        "joblib.load(path)",
        "eval(text)",
        "subprocess.run(text, shell=True)",
    ],
)
def test_a_call_that_executes_what_it_reads_would_be_noticed(line: str):
    assert executing_calls(ast.parse(line))


# Dependencies

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONSTRAINTS = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
IMPORTED_AS = {"scikit-learn": "sklearn", "pillow": "PIL", "python-flint": "flint"}


def name_in(requirement: str) -> str:
    return re.split(r"[\[<>=!~ ;]", requirement)[0]


def declared() -> list[str]:
    """Every dependency that the project names: to build, to run, to develop."""
    extras = PROJECT["project"]["optional-dependencies"].values()
    wanted = [*PROJECT["build-system"]["requires"], *PROJECT["project"]["dependencies"], *chain(*extras)]
    return [name for name in map(name_in, wanted) if name != PROJECT["project"]["name"]]  # which `all` names


def runtime_modules() -> set[str]:
    """What the package may import: what it needs, and what its extras add."""
    names = map(name_in, PROJECT["project"]["dependencies"])
    return {IMPORTED_AS.get(name, name) for name in names} | optional_modules()


def optional_modules() -> set[str]:
    extras = PROJECT["project"]["optional-dependencies"].items()
    names = {name_in(wanted) for extra, packages in extras if extra != "dev" for wanted in packages}
    # `cuda` and `tpu` ask for another build of JAX, and `all` for the project itself.
    always = {PROJECT["project"]["name"], *map(name_in, PROJECT["project"]["dependencies"])}
    return {IMPORTED_AS.get(name, name) for name in names - always}


def imported(tree: ast.Module) -> set[str]:
    """The top-level modules that a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


@cache
def imports() -> dict[str, set[str]]:
    """What each module of the package imports."""
    return {name: imported(tree) for name, tree in trees().items()}


def test_the_constraints_are_names_and_versions_only():
    for line in CONSTRAINTS:
        assert line.startswith("#") or re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.+!]*", line), line


def test_the_constraints_are_sorted_and_have_no_doubles():
    names = [line.partition("==")[0].lower() for line in CONSTRAINTS if not line.startswith("#")]
    assert names == sorted(set(names))


def test_every_declared_dependency_is_pinned():
    # The pins of Flower are older than ours: what it brings is pinned in a file of its own.
    of_flower = (ROOT / "constraints-flower.txt").read_text().splitlines()
    pinned = {line.partition("==")[0].lower().replace("_", "-") for line in [*CONSTRAINTS, *of_flower]}
    assert {name.lower().replace("_", "-") for name in declared()} - pinned == set()


def test_a_module_imports_declared_dependencies_only():
    allowed = runtime_modules() | {"reticent"} | set(sys.stdlib_module_names)
    strange = [f"{name}: {unknown}" for name, found in imports().items() if (unknown := found - allowed)]
    assert not strange, listed(strange)


def test_what_an_extra_adds_is_imported_only_when_it_is_needed():
    early = [
        f"{name}: {found}"
        for name, tree in trees().items()
        if name.startswith("reticent/")
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        and (found := imported(ast.Module(body=[node], type_ignores=[])) & optional_modules())
    ]
    assert not early, listed(early)


def test_no_pickling_module_is_imported():
    pickling = {"pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"}
    risky = [name for name, found in imports().items() if found & pickling]
    assert not risky, listed(risky)


def test_every_dependency_earns_its_place():
    assert runtime_modules() - set().union(*imports().values()) == set(), "nothing imports these"
