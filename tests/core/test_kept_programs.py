"""Programs are kept between processes: in a folder of the user's own, and with no row or key in them."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from reticent.core import folders, kept_programs
from reticent.core.kept_programs import KeptPrograms, keep_programs


def test_the_cache_is_where_the_operating_system_wants_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("RETICENT_CACHE", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert folders.cache_folder() == tmp_path / "reticent"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert folders.cache_folder() == tmp_path / ".cache" / "reticent"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert folders.cache_folder() == tmp_path / "Library" / "Caches" / "reticent"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert folders.cache_folder() == tmp_path / "local" / "reticent" / "cache"
    monkeypatch.setenv("RETICENT_CACHE", "~/elsewhere")
    assert folders.cache_folder() == tmp_path / "elsewhere"


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A process that has not imported JAX, with an empty cache; the folder of its programs."""
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    monkeypatch.setenv("RETICENT_CACHE", str(tmp_path / "cache"))
    for name in ("JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE", *kept_programs._OPTIONS):
        monkeypatch.setenv(name, "")  # so that what is set here is taken back
        monkeypatch.delenv(name)
    return tmp_path / "cache" / "programs" / kept_programs._machine()


def test_jax_is_told_of_a_folder_that_is_the_users_alone(fresh: Path):
    kept = keep_programs()
    assert kept is not None
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(kept.folder) == str(fresh)
    assert fresh.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_may_write_to_is_not_used(fresh: Path, tmp_path: Path):
    fresh.mkdir(parents=True)
    for mode in (0o770, 0o707, 0o755):
        fresh.chmod(mode)
        assert keep_programs() is None
    fresh.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    fresh.symlink_to(tmp_path / "elsewhere")
    assert keep_programs() is None
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ


@pytest.mark.parametrize(
    "said", [("JAX_ENABLE_COMPILATION_CACHE", "false"), ("JAX_COMPILATION_CACHE_DIR", "x")]
)
def test_jaxs_own_variables_decide(fresh: Path, monkeypatch: pytest.MonkeyPatch, said: tuple[str, str]):
    monkeypatch.setenv(*said)
    assert keep_programs() is None
    assert not fresh.exists()


def test_the_oldest_programs_make_room_and_damaged_ones_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
):
    for age in range(4):
        entry = tmp_path / f"{age}-cache"
        entry.write_bytes(bytes(100))
        os.utime(entry, (1e9 - age, 1e9 - age))
    monkeypatch.setattr(kept_programs, "ROOM", 250)
    kept = KeptPrograms(tmp_path)
    kept.tidy()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0-cache", "1-cache"]
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    kept.hear()
    warnings.showwarning(UserWarning("Error reading persistent compilation cache entry for 'x': zlib"), *HERE)
    assert kept.is_damaged
    kept.tidy()
    assert not list(tmp_path.iterdir())
    warnings.showwarning(UserWarning("another"), *HERE)
    assert [str(each.message) for each in recwarn] == ["another"]


HERE = (UserWarning, "file.py", 1)


def test_no_program_of_a_run_or_of_attacks_on_it_holds_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Constants are a part of a program: every one that is lowered is searched for the rows."""
    from jax._src.interpreters import mlir

    from reticent.runs.attacks.membership import attack_run
    from reticent.runs.fit import fit
    from reticent.runs.reopen import open_again
    from reticent.runs.request import Request

    rng = np.random.default_rng(0)
    marks = rng.uniform(-1, 1, (400, 2)).astype(np.float32).round(6)
    lines = [f"{a},{b},{'yes' if a > b else 'no'}" for a, b in marks.tolist()]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,c", *lines]) + "\n")
    numbers: list[np.ndarray] = []
    keys: list[list[int]] = []
    check = mlir.check_jaxpr_constants

    def collect(closed: Any) -> None:
        for each in closed.consts:
            if jax.numpy.issubdtype(getattr(each, "dtype", np.dtype(int)), jax.dtypes.prng_key):
                keys.append(np.asarray(jax.random.key_data(each)).ravel().tolist())
            else:
                numbers.append(np.asarray(each))
        check(closed)

    monkeypatch.setattr(mlir, "check_jaxpr_constants", collect)
    bounds = {"a": (-1.0, 1.0), "b": (-1.0, 1.0)}
    asked = Request(
        source=str(tmp_path / "t.csv"), target="c", epsilon=8.0, model="linear", bounds=bounds, test=0.5
    )
    fit(asked, tmp_path / "run")
    assert not keys, "a key of the run; those of attackers are fixed numbers"
    again = open_again(tmp_path / "run")
    attack_run(again, shadows=6, attacks=("likelihood", "label_only"))
    rows = {float(each) for side in (again.train_on, again.held_out) for each in np.unique(side["x"])}
    assert numbers, "nothing was lowered"
    floats = [set(each.ravel().tolist()) for each in numbers if each.dtype.kind == "f"]
    assert not [held for held in floats if len(held & rows) > 2]
