"""Fixtures that every test can ask for."""

from __future__ import annotations

import gc
import hashlib
import os
import platform
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from reticent.data.catalog import RowCounts, Splits

pytest_plugins = ["chance"]

# Most of what the suite waits for is a compiler that polishes small programs which run a few times. Tests and
# the processes that they start ask it for plain code. Tests of the numbers themselves, to the last bit or in
# law, ask for `compiled_as_shipped`.
_AS_SHIPPED = {"xla_backend_optimization_level": 3, "xla_llvm_disable_expensive_passes": False}
_QUICKLY = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
if tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 11):  # newer ones end the process at this flag
    _AS_SHIPPED |= {"xla_cpu_use_fusion_emitters": True, "xla_cpu_parallel_codegen_split_count": 32}
    # In one piece: a fifth less work than in 32, which are for who has cores to spare.
    _QUICKLY += " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
if _QUICKLY not in os.environ.get("XLA_FLAGS", ""):  # JAX reads it when it is imported, so it is set before
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_QUICKLY}".strip()

# Python reads the sources once, whatever the environment says: each process that a test starts imports the
# package, and pytest rewrites the assertions of 300 files.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Runs that tests make are marked with a key of their own, not with that of whoever runs the tests.
os.environ.setdefault("RETICENT_CONFIG", tempfile.mkdtemp(prefix="reticent-tests-"))

# A program is compiled once, whichever test, process or run asks for it first. JAX names it after all that it
# is compiled from: code, options, versions and devices. JAX writes without a lock, so here an entry appears
# whole or not at all, and no process that a test starts, and may kill, knows of the folder.
_ROOM = 2**30  # bytes that stay for the next run


def pytest_collection_finish(session: pytest.Session) -> None:
    # What was imported and collected stays to the end: nobody looks through it for garbage, and less often.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    if "jax" not in sys.modules or (folder := _programs(session.config)) is None:
        return
    import jax
    from jax._src import compilation_cache, lru_cache

    lru_cache.LRUCache.put = _put_whole
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    compilation_cache.reset_cache()  # what was compiled during collection had none


def _programs(config: pytest.Config) -> Path | None:
    """The folder for programs of this machine: another one's may hold instructions that it does not know."""
    cache, processor = getattr(config, "cache", None), Path("/proc/cpuinfo")
    if cache is None or not processor.exists():
        return None
    features = re.search(r"^(?:flags|Features)\b.*$", processor.read_text(), re.MULTILINE)
    machine = f"{platform.machine()} {features and features[0]}"
    return cache.mkdir(f"programs-{hashlib.sha256(machine.encode()).hexdigest()[:16]}")


def _put_whole(self: Any, key: str, value: bytes) -> None:
    goal = Path(self.path) / f"{key}-cache"
    if not goal.exists():
        unfinished = goal.parent / f"{goal.name}.{os.getpid()}"
        unfinished.write_bytes(value)
        unfinished.replace(goal)


def pytest_unconfigure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or (folder := _programs(config)) is None:
        return
    room = _ROOM
    entries = [(path.stat(), path) for path in folder.iterdir()]
    for status, path in sorted(entries, key=lambda entry: -entry[0].st_atime):
        room -= status.st_size
        if room < 0:
            path.unlink(missing_ok=True)


_BESIDE_THE_REPOSITORY = Path(__file__).resolve().parents[1].parent / "shared" / "data"


@pytest.fixture(scope="module")
def compiled_as_shipped() -> Iterator[None]:
    """What a module compiles is compiled as for a user, and nothing that was compiled otherwise is used.

    The flags are read once in the life of a process, and JAX has no public switch for what it compiles later.
    """
    import jax
    from jax._src import compiler

    quickly, calls = compiler.get_compile_options, []

    def as_shipped(*given: Any, env_options_overrides: Mapping[str, Any] | None = None, **rest: Any) -> Any:
        calls.append(given)
        return quickly(*given, env_options_overrides={**_AS_SHIPPED, **(env_options_overrides or {})}, **rest)

    jax.clear_caches()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "get_compile_options", as_shipped)
        jax.jit(lambda: 0)()
        assert calls, (
            "JAX asks for its options elsewhere now: these tests would run on other code than users do"
        )
        yield
    jax.clear_caches()


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """The folder of a full-size dataset, or a skip that says which one is missing.

    shared_data("adult") / "adult.data.gz"
    """
    named = os.environ.get("RETICENT_DATA")
    roots = [Path(named)] if named else []
    roots.append(_BESIDE_THE_REPOSITORY)

    def folder_of(name: str) -> Path:
        for root in roots:
            if (root / name).is_dir():
                return root / name
        pytest.skip(f"needs the full-size dataset '{name}' in RETICENT_DATA or ../shared/data")

    return folder_of


@pytest.fixture
def load_files(tmp_path: Path) -> Callable[[str, str, Mapping[str, bytes], RowCounts], Splits]:
    """Loads a named dataset from files that a test made up, as if it had as many rows as they hold.

    load_files("names", "lines", {"names.txt": b"emma"}, RowCounts(1))
    """
    from reticent.data import catalog
    from reticent.data.catalog import readers

    def load_files(name: str, reader: str, files: Mapping[str, bytes], rows: RowCounts) -> Splits:
        for file, body in files.items():
            (tmp_path / file).write_bytes(body)
        form = catalog.Form(reader=reader, rows=rows)
        entry = replace(catalog.describe(name), forms=(form,))
        paths = {file: tmp_path / file for file in files}
        return readers.read(entry, catalog.Location(source="cache", folder=tmp_path, form=form, paths=paths))

    return load_files


@pytest.fixture(scope="session", name="home")
def home_of_a_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table of 400 rows (`t.csv`), its domain, and a finished run on it (`run`).

    All tests share it: copy what you change.
    """
    import numpy as np

    from reticent.core.keys import Keys
    from reticent.data.domain import Domain, Label, Number
    from reticent.runs.fit import fit
    from reticent.runs.request import Request

    home = tmp_path_factory.mktemp("somewhere-in-the-clinic")
    points = np.random.default_rng(0).uniform(-1, 1, (400, 2))
    lines = [f"{a:.2f},{b:.2f},{'yes' if a > b else 'no'}" for a, b in points]
    (home / "t.csv").write_text("\n".join(["a,b,y", *lines, ""]))
    columns = {"a": Number(bounds=(-1, 1)), "b": Number(bounds=(-1, 1)), "y": Label(values=("no", "yes"))}
    Domain(columns=columns, target="y").write(home / "domain.toml")
    request = Request(
        source=str(home / "t.csv"), target="y", domain=str(home / "domain.toml"), epsilon=2.0, method="output"
    )
    fit(request, home / "run", keys=Keys.seeded(1))
    return home
