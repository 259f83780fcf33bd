"""Runs that are killed at any moment, by anybody, are resumed; nothing is charged or released twice."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from released import released

from reticent import convex
from reticent.core.errors import DataError
from reticent.data.domain import Domain, Label, Number
from reticent.mechanisms.events import NonPrivate
from reticent.runs import folder as folders
from reticent.runs.fit import fit, resume
from reticent.runs.predict import Predictor
from reticent.runs.record import RecipeRecord, RunRecord, as_requested
from reticent.runs.request import Request

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")

KILLS = 4  # one of each way; 50 and more by hand: python tests/runs/killing_runs.py FOLDER 50


def test_killed_runs_are_finished_charged_once_and_release_nothing_twice(tmp_path: Path) -> None:
    """The judgement of each run is in `killing_runs.py`, where it stops at the first that fails."""
    script = Path(__file__).with_name("killing_runs.py")
    done = subprocess.run(
        [sys.executable, script, tmp_path / "place", str(KILLS)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["kills"] == dict.fromkeys(("time", "disk", "ledger", "run"), KILLS // 4)


def steps(who: int, first: int, stop: int) -> dict[str, object]:
    return {"who": who, "what": "steps", "first": first, "stop": stop}


def load(who: int, digest: str | None) -> dict[str, object]:
    return {"who": who, "what": "load", "digest": digest}


def named(who: int, name: str, digest: str, step: int = sys.maxsize) -> list[dict[str, object]]:
    return [
        {"who": who, "what": "writing", "name": name, "digest": digest, "step": step},
        {"who": who, "what": "written", "digest": digest},
    ]


def test_a_run_that_goes_on_from_its_checkpoint_releases_every_step_once() -> None:
    first = [load(1, None), steps(1, 0, 5), *named(1, "checkpoint", "a", 5), steps(1, 5, 10)]
    second = [load(2, "a"), steps(2, 5, 10), *named(2, "checkpoint", "b", 10)]
    found = released([*first, *second, *named(2, "model.safetensors", "m")])
    assert found.twice == []
    assert found.steps == {step: {1} if step < 5 else {2} for step in range(10)}


def noise(who: int) -> dict[str, object]:
    return {"who": who, "what": "noise"}


SAID = {"who": 1, "what": "said", "line": "found privately: x", "has_domain": False}
SEEN = {"who": 1, "what": "seen", "digest": "a"}
FIRST = (load(1, None), steps(1, 0, 2))
SECOND = (load(2, None), steps(2, 0, 4), *named(2, "model.safetensors", "m"))
PLANTED = {
    "a checkpoint is not looked for": (
        [*FIRST, *named(1, "checkpoint", "a", 2), *SECOND],
        ["step 0", "step 1"],
    ),
    "only whoever looked after the kill saw it": (
        [*FIRST, named(1, "checkpoint", "a", 1)[0], SEEN, *SECOND],
        ["step 0"],
    ),
    "what was found is looked for again": (
        [noise(1), *named(1, "domain.toml", "a"), noise(2), *named(2, "domain.toml", "b")],
        ["preparation"],
    ),
    "what was found is said before it is written": (
        [noise(1), SAID, noise(2), *named(2, "domain.toml", "b")],
        ["preparation"],
    ),
}


@pytest.mark.parametrize(("diary", "twice"), PLANTED.values(), ids=PLANTED)
def test_what_is_released_twice_is_noticed(diary: list[dict[str, object]], twice: list[str]) -> None:
    assert released(diary).twice == twice


def test_a_model_that_has_its_name_is_not_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A method without steps keeps no checkpoint: the model itself is what a stopped run goes on from."""
    table, domain, folder = tmp_path / "t.csv", tmp_path / "t.toml", tmp_path / "run"
    table.write_text("x,y\n" + "".join(f"{n % 10},{'yes' if n % 10 > 4 else 'no'}\n" for n in range(500)))
    columns = {"x": Number(bounds=(0.0, 9.0)), "y": Label(values=("no", "yes"))}
    Domain(columns=columns, target="y").write(domain)
    order = Request(source=str(table), target="y", epsilon=2.0, method="output", domain=str(domain))

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        # Between the model and the record.
        patch.setattr(importlib.import_module("reticent.runs.fit"), "score", stop)
        with pytest.raises(KeyboardInterrupt):
            fit(order, folder)
    model = (folder / folders.MODEL).read_bytes()
    monkeypatch.setattr(convex, "fit", stop)
    record = resume(folder).record
    assert (folder / folders.MODEL).read_bytes() == model
    assert record.result.guarantee.epsilon <= 2.0
    assert Predictor(folder).record.result.metrics["accuracy"] > 0.5


_HOLDER = """
import sys, time
from pathlib import Path
from reticent.runs.folder import hold
with hold(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_second_process_is_kept_out_until_the_first_is_gone(tmp_path: Path) -> None:
    record = RunRecord(
        kind="model",
        state="paid",
        number="17",
        request=as_requested(Request(source="t.csv", target="y", epsilon=1.0, delta=1e-5)),
        records=100,
        rows=80,
        recipe=RecipeRecord(method="sgd", in_words="steps", settings={}),
        preparation=None,
        event=NonPrivate(),
        versions={},
    )
    folders.write_record(tmp_path, record)
    with subprocess.Popen([sys.executable, "-c", _HOLDER, tmp_path], stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            with pytest.raises(DataError, match=r"Another process is at work on the run in .* Wait until"):
                resume(tmp_path)
        finally:
            holder.send_signal(signal.SIGKILL)
    assert (tmp_path / folders.LOCK).exists()  # the file outlives its holder, the lock does not
    with folders.hold(tmp_path):
        pass
    assert not (tmp_path / folders.LOCK).exists()


def test_a_lock_is_let_go_after_a_failure_and_needs_no_system_that_has_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match="planted"), folders.hold(tmp_path):
        raise DataError("planted", remedy="None.")
    monkeypatch.setitem(sys.modules, "fcntl", None)  # as on Windows
    with folders.hold(tmp_path), folders.hold(tmp_path):
        assert not list(tmp_path.iterdir())


def test_a_lock_whose_file_was_taken_away_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder before removes the file between our opening it and our locking it."""
    import fcntl

    flock, calls = fcntl.flock, []

    def late(descriptor: int, operation: int) -> None:
        if not calls:
            (tmp_path / folders.LOCK).unlink()
        calls.append(descriptor)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with folders.hold(tmp_path):
        assert len(calls) == 2
        monkeypatch.undo()
        with pytest.raises(DataError, match="Another process"), folders.hold(tmp_path):
            pass
