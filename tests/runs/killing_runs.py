"""Runs in children that are killed without warning, at moments nobody chose, and resumed until done.

    python killing_runs.py FOLDER KILLS

Four ways to die take turns: at a random time; at a random line on the way to the disk, or with half a file
written; at a random line or SQLite instruction of the ledger, or right after the charge; at a random line of
the run itself. Every child keeps a diary of the noise it draws and of the files it names. The children are
forked before JAX is used.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sqlite3
import stat
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import jax
import sklearn.metrics  # noqa: F401 - once here, instead of in every child
from released import Released, released

from reticent.accounting.tight_epsilon import tight
from reticent.core.errors import ReticentError
from reticent.core.keys import Keys
from reticent.core.observer import Observer
from reticent.data.domain import Domain
from reticent.data.files import open_table
from reticent.data.preparation.noise import PreparationNoise
from reticent.ledger.ledger import DatasetBudget, Ledger
from reticent.ledger.storage import sqlite as store
from reticent.mechanisms.events import Composed, Event, Repeated
from reticent.runs import folder as folders
from reticent.runs.fit import fit, resume
from reticent.runs.folder import read_record
from reticent.runs.predict import Predictor
from reticent.runs.request import Request
from reticent.training import loop
from reticent.training.checkpoint import Checkpoints

WAYS = ("time", "disk", "ledger", "run")
ROWS, EPSILON, LIMIT = 1200, 4.0, 4.01
_WRITING = ("save", "write_whole", "whole_file", "open_new", "_sync_folder", "_packed")
_RUN = tuple(
    f"runs/{name}.py"
    for name in (
        "lifecycle",
        "fit",
        "open_run",
        "public_domain",
        "payment",
        "folder",
        "private_part",
        "origin",
    )
)
assert all((Path(folders.__file__).parents[1] / name).exists() for name in _RUN), (
    "a module has another name now"
)
NONE = "none"


def way_of(path: str, function: str) -> str | None:
    """Which way of dying a line belongs to."""
    if path.endswith(("training/checkpoint.py", "core/files.py")):
        return "disk" if function in _WRITING else None
    if "reticent/ledger/" in path:
        return "ledger"
    return "run" if path.endswith(_RUN) else None


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Diary:
    """Lines that are on record as soon as they are written, whoever dies next."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        self.who = 0

    def note(self, what: str, **facts: Any) -> None:
        os.write(self._file, (json.dumps({"who": self.who, "what": what, **facts}) + "\n").encode())

    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._path.read_text().splitlines()]


def digest_of(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


def watch(diary: Diary, seconds: float) -> None:
    """Has every draw of noise, and every file that gets its name, noted in the diary."""
    noisy, compiled, load, replace = PreparationNoise.noisy, loop._compiled, Checkpoints.load, os.replace

    def noting_noise(*args: Any, **options: Any) -> Any:
        diary.note("noise")
        return noisy(*args, **options)

    def noting_steps(*args: Any) -> Callable[..., Any]:
        many = compiled(*args)

        def call(state: Any, source: Any, stop: int, roots: Any) -> Any:
            diary.note("steps", first=int(state.step), stop=int(stop))
            return many(state, source, stop, roots)

        return call

    def noting_load(self: Checkpoints, like: Any) -> Any:
        diary.note("load", digest=digest_of(self.path))
        return load(self, like)

    def noting_names(source: Path, goal: Path) -> None:
        digest, name = digest_of(Path(source)), Path(goal).name
        diary.note("writing", name=name, digest=digest, step=_step_in(Path(source), name))
        replace(source, goal)
        diary.note("written", digest=digest)

    PreparationNoise.noisy, loop._compiled, Checkpoints.load = noting_noise, noting_steps, noting_load
    os.replace = noting_names
    assert Checkpoints.__init__.__kwdefaults__ is not None
    Checkpoints.__init__.__kwdefaults__["seconds"] = seconds


def _step_in(path: Path, name: str) -> int:
    """How many steps are in a checkpoint; in a model, all that were taken."""
    if name != "checkpoint":
        return sys.maxsize
    from safetensors.numpy import load

    leaves = load(path.read_bytes().partition(b"\n")[2])
    return int(leaves[min(leaves)])


def arm(way: str, chance: random.Random, lines: Counter[str]) -> None:
    """Sets this process to die in one of the ways, or to count what there is to die at."""
    if way == "disk" and chance.random() < 0.4:
        _die_with_half_a_file(chance.randrange(20), chance)
        return
    if way == "ledger" and chance.random() < 0.7:
        if chance.random() < 0.5:
            _die_inside_sqlite(chance.randrange(1, 3000))
        else:
            _die_after_the_charge(chance.randrange(1, 60))
        return
    left = chance.randrange(1, lines[way] + 1) if way in lines else 0

    def on_line(frame: Any, _event: str, _argument: object) -> Any:
        nonlocal left
        kind = way_of(frame.f_code.co_filename, frame.f_code.co_name)
        if kind is None or (kind != way and way != NONE):
            return None
        if way == NONE:
            lines[kind] += 1
            return on_line
        left -= 1
        if left == 0:
            die()
        return on_line

    if way != "time":
        sys.settrace(on_line)


def _die_with_half_a_file(left: int, chance: random.Random) -> None:
    fsync = os.fsync

    def tearing(descriptor: int) -> None:
        nonlocal left
        left -= stat.S_ISREG(os.fstat(descriptor).st_mode)
        if left < 0:
            os.ftruncate(descriptor, chance.randrange(os.fstat(descriptor).st_size))
            die()
        fsync(descriptor)

    os.fsync = tearing


def _die_inside_sqlite(left: int) -> None:
    connect = store.connect

    def tick() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            die()

    def connecting(*args: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*args, **options)
        connection.set_progress_handler(tick, 1)
        return connection

    store.connect = connecting


def _die_after_the_charge(left: int) -> None:
    """Before the run has noted that it is paid for, mostly: soon after the charge is on disk."""
    charge = DatasetBudget.charge

    def on_line(frame: Any, _event: str, _argument: object) -> Any:
        nonlocal left
        if way_of(frame.f_code.co_filename, frame.f_code.co_name) is None:
            return None
        left -= 1
        if left == 0:
            die()
        return on_line

    def charging(*args: Any, **options: Any) -> Any:
        receipt = charge(*args, **options)
        sys.settrace(on_line)
        return receipt

    DatasetBudget.charge = charging


def live(place: Place, number: int, way: str, chance: random.Random) -> NoReturn:
    """What a child does: begin the run or resume it, and use what comes out."""
    diary, folder = place.diary, place.run(number)
    say = lambda line: diary.note("said", line=line, has_domain=(folder / "domain.toml").exists())  # noqa: E731
    # Only the reference writes what it compiled: half of a cache would be another test.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 1e9 if number else 0.0)
    keys = Keys.seeded(7) if place.is_seeded(number) else Keys.from_os()
    watch(diary, chance.choice((0.0, 0.0, 0.02, 10.0)))
    lines = Counter(place.lines)
    arm(way, chance, lines)
    try:
        if (folder / "run.json").exists():
            done = resume(folder, keys=keys, observer=Observer(say=say))
        else:
            done = fit(place.order(number), folder, keys=keys, observer=Observer(say=say))
        sys.settrace(None)
        rows = list(Predictor(folder).table(open_table(place.new)))
        diary.note("done", digest=done.record.result.model.digest, rows=rows, lines=lines)
    except ReticentError as error:
        diary.note("refused", why=str(error))
        os._exit(1)
    except BaseException:  # noqa: BLE001 - whatever else it is, the parent has to know
        traceback.print_exc()
        os._exit(2)
    os._exit(0)


class Place:
    """A folder with a table, a ledger, a diary and many runs."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.table, self.new = folder / "t.csv", folder / "new.csv"
        self.diary = Diary(folder / "diary")
        self.lines: Counter[str] = Counter()  # that a whole run passes, by way of dying
        self.seconds = 1.0  # that a whole run takes
        self.reference = ""  # the model of a run that was never killed
        self.children: dict[int, set[int]] = {}  # by run
        chance = random.Random(0)
        rows = [(chance.uniform(0, 10), chance.choice("ab")) for _ in range(ROWS)]
        body = (f"{x:.2f},{town},{'yes' if x + chance.random() > 5.5 else 'no'}\n" for x, town in rows)
        self.table.write_text("x,town,y\n" + "".join(body))
        self.new.write_text("x,town\n9.5,a\n0.5,b\n")
        jax.config.update("jax_compilation_cache_dir", str(folder / "compiled"))
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

    def run(self, number: int) -> Path:
        return self.folder / "runs" / str(number)

    def is_seeded(self, number: int) -> bool:
        return number % 2 == 0

    def order(self, number: int) -> Request:
        return Request(
            source=str(self.table),
            target="y",
            epsilon=EPSILON,
            model="linear",
            ledger=str(self.ledger(number)),
            dataset=f"run {number}",
        )

    def ledger(self, number: int) -> Path:
        """Each run has one of its own: the same rows have one budget in a ledger."""
        return self.folder / f"{number}.ledger"

    def attempt(self, number: int, way: str, chance: random.Random) -> bool:
        """One child. Whether it was killed, after a look at what it left."""
        if number not in self.children:
            with Ledger.create(self.ledger(number)) as ledger:
                ledger.limit(f"run {number}", epsilon=LIMIT, delta=1e-5)
        chance = random.Random(chance.random())  # what a child draws, its parent does not notice
        self.diary.who += 1
        self.children.setdefault(number, set()).add(self.diary.who)
        child = os.fork()
        if child == 0:
            live(self, number, way, chance)
        if way == "time":
            time.sleep(chance.uniform(0, self.seconds))
            os.kill(child, signal.SIGKILL)  # no harm to one that is done: it waits to be buried
        status = os.waitpid(child, 0)[1]
        is_killed = os.WIFSIGNALED(status)
        self.look(number)
        if not is_killed and status != 0:
            raise AssertionError(f"run {number}: {self.diary.entries()[-1]}")
        return is_killed

    def look(self, number: int) -> None:
        """What a process left can be read, or says why not; and the ledger is in order."""
        folder = self.run(number)
        state = read_record(folder).state if (folder / "run.json").exists() else "nothing"
        checkpoint, model = folder / "checkpoint", folder / "model.safetensors"
        if checkpoint.exists():
            first, _, rest = checkpoint.read_bytes().partition(b"\n")
            assert first.split()[-1].decode() == hashlib.sha256(rest).hexdigest()
            self.diary.note("seen", digest=digest_of(checkpoint))
        if (folder / "domain.toml").exists():
            assert Domain.read(folder / "domain.toml").not_public() == []
            self.diary.note("seen", digest=digest_of(folder / "domain.toml"))
        with Ledger.open(self.ledger(number)) as ledger:
            ledger.verify()
            charges = ledger.account(f"run {number}").charges
        expected = {"nothing": (0,), "started": (0, 1), "preparing": (1, 2)}.get(state, (2,))
        assert charges in expected, (state, charges)
        made = (folder / "domain.toml").exists() + any(map(os.path.exists, (checkpoint, model)))
        assert charges >= made, (state, charges, made)  # each of the two is paid before it is made

    def measure(self) -> None:
        """The reference. What it compiles is kept for the others."""
        started = time.perf_counter()
        self.attempt(0, NONE, random.Random(0))
        self.seconds = 0.5 * (time.perf_counter() - started)  # the others need not compile
        (done,) = (entry for entry in self.diary.entries() if entry["what"] == "done")
        self.reference, self.lines = done["digest"], Counter(done["lines"])

    def is_paid(self, number: int) -> bool:
        record = self.run(number) / "run.json"
        return record.exists() and read_record(record.parent).state != "started"

    def judge(self, number: int) -> None:
        """The finished run: charged once, released once, promised no less than was spent, and of use."""
        own = self.children[number]
        diary = [entry for entry in self.diary.entries() if entry["who"] in own]
        found, record = released(diary), read_record(self.run(number))
        assert record.state == "finished"
        names = sorted(path.name for path in self.run(number).iterdir())
        assert names == ["domain.toml", "model.safetensors", "private", "run.json"], names
        kept = sorted(path.name for path in (self.run(number) / "private").iterdir())
        assert kept == ["fingerprint.json", "origin.json", "split.json", "unreleased.json"]
        assert not found.twice, found.twice
        assert not found.too_early, found.too_early
        done = [entry for entry in diary if entry["what"] == "done"][-1]
        assert [row["prediction"] for row in done["rows"]] == ["yes", "no"], done
        assert not self.is_seeded(number) or done["digest"] == self.reference
        spent, delta = spent_by(found, record.event), record.request.delta
        with Ledger.open(self.ledger(number)) as ledger:
            assert ledger.account(f"run {number}").charges == 2  # its preparation, and the rest
            charged = ledger.for_dataset(f"run {number}").guarantee()
        assert tight(spent, delta).lower <= record.result.guarantee.epsilon <= EPSILON
        assert tight(spent, charged.delta).lower <= charged.epsilon <= LIMIT


def spent_by(found: Released, priced: Event) -> Event:
    """The event of what was released, each as often as it was, at the noise that the run was priced with."""
    assert isinstance(priced, Composed)
    preparation, training = priced.events
    assert isinstance(training, Repeated)
    assert sorted(found.steps) == list(range(training.times))
    steps = sum(len(who) for who in found.steps.values())
    return Composed(
        events=(
            Repeated(event=preparation, times=len(found.preparation)),
            Repeated(event=training.event, times=steps),
        )
    )


def main(folder: Path, kills: int, seed: int = 3) -> dict[str, Any]:
    chance, place = random.Random(seed), Place(folder)
    place.measure()
    number, died = 1, Counter[str]()
    while died.total() < kills:
        way = WAYS[died.total() % len(WAYS)]
        has_enough = chance.random() < 0.2 or (way == "ledger" and place.is_paid(number))
        if number in place.children and has_enough:
            place.attempt(number, NONE, chance)
            number += 1
        if place.attempt(number, way, chance):
            died[way] += 1
        else:  # it came through
            number += 1
    if number in place.children:
        place.attempt(number, NONE, chance)
    for run in place.children:
        place.judge(run)
    return {"kills": died, "runs": len(place.children), "processes": place.diary.who}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), *map(int, sys.argv[3:]))))
