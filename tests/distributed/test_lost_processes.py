"""A process that is killed: the others end soon and in words, and what is left is paid for and resumable."""

from __future__ import annotations

import hashlib
import random
import signal
import subprocess
import time
from pathlib import Path

import joined_processes as joined
import pytest
from safetensors.numpy import load

from reticent.core.keys import Keys
from reticent.data.domain import Domain, Label, Number
from reticent.ledger.ledger import Ledger
from reticent.runs.fit import resume
from reticent.runs.folder import read_record

SOON = 40  # seconds within which whoever is left has to end
PACE = 0.1  # seconds after each step
LIMIT = 200  # seconds for a run that nobody disturbs


class Place:
    """A table, a ledger, and a run that is killed over and over."""

    def __init__(self, folder: Path) -> None:
        self.run, self.table = folder / "run", folder / "t.csv"
        self.domain, self.ledger = folder / "t.toml", folder / "our.ledger"
        rows = (f"{number % 10},{'yes' if number % 10 > 4 else 'no'}\n" for number in range(400))
        self.table.write_text("x,y\n" + "".join(rows))
        columns = {"x": Number(bounds=(0.0, 9.0)), "y": Label(values=("no", "yes"))}
        Domain(columns=columns, target="y").write(self.domain)
        with Ledger.create(self.ledger) as ledger:
            ledger.limit("table", epsilon=4.01, delta=1e-3)

    def begun(self) -> list[subprocess.Popen[str]]:
        words = (self.run, self.table, self.domain, self.ledger, PACE)
        address = joined.free_address()
        return [joined.begun("slow_run.py", address, 2, process, *words) for process in (0, 1)]

    def killed(self, process: int, *, seconds: float | None, steps: int = 3) -> joined.Ended:
        """How the other process ends when one is killed: after some seconds, or after some steps."""
        both = self.begun()
        self._await(both, seconds, steps)
        both[process].send_signal(signal.SIGKILL)
        killed_at = time.monotonic()
        found = joined.ended([both[1 - process], both[process]], within=SOON)
        assert time.monotonic() - killed_at < SOON
        self.look()
        return found[0]

    def _await(self, both: list[subprocess.Popen[str]], seconds: float | None, steps: int) -> None:
        end = time.monotonic() + (LIMIT if seconds is None else seconds)
        goal = self.steps() + steps
        while time.monotonic() < end and all(process.poll() is None for process in both):
            if seconds is None and self.steps() >= goal:
                return
            time.sleep(0.05)
        assert seconds is not None, [process.communicate() for process in both]

    def steps(self) -> int:
        """How many steps the checkpoint has; it is whole at every moment."""
        try:
            content = (self.run / "checkpoint").read_bytes()
        except FileNotFoundError:
            return 0
        first, _, payload = content.partition(b"\n")
        assert first.split()[-1].decode() == hashlib.sha256(payload).hexdigest()
        leaves = load(payload)
        return int(leaves[min(leaves)])

    def charges(self) -> int:
        with Ledger.open(self.ledger) as ledger:
            ledger.verify()
            return ledger.account("table").charges

    def look(self) -> None:
        """Nothing was released that was not paid for, and nothing was paid for twice."""
        names = {path.name for path in self.run.iterdir()} if self.run.exists() else set()
        state = read_record(self.run).state if "run.json" in names else "nothing"
        charges = self.charges()
        assert charges in {"nothing": (0,), "started": (0, 1)}.get(state, (1,)), (state, charges)
        if names & {"checkpoint", "model.safetensors", "domain.toml"}:
            assert charges == 1, names


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def said_in_words(left: joined.Ended) -> bool:
    """By us; or by JAX, which ends a process itself when it notices first that the coordinator is gone."""
    if "coordination service" in left.errors and left.code != 3:
        return "another task died" in left.errors
    return left.code == 3 and all(
        words in left.output
        for words in (
            "ProcessLost: Process ",
            "lost another process of this run",
            "Start all processes again",
            "--resume",
            "This run is charged already, and is not charged again.",
        )
    )


def test_a_killed_process_ends_the_others_and_what_is_left_can_go_on(place: Place) -> None:
    """By both processes, as often as one of them is killed, and by one alone, which ends it."""
    chance = random.Random(5)
    place.killed(chance.choice((0, 1)), seconds=chance.uniform(1, 4))  # about when the run is paid for
    left = place.killed(1, seconds=None)
    assert left.code == 3, left
    assert said_in_words(left), left
    reached = place.steps()
    assert 0 < reached < 100
    left = place.killed(0, seconds=None)  # which has the folder and the ledger
    assert left.code != 0, left
    assert said_in_words(left), left
    assert place.steps() > reached
    assert resume(place.run, keys=Keys.seeded(1)).record.state == "finished"
    record = read_record(place.run)
    assert record.state == "finished"
    assert record.result.guarantee.epsilon <= 4.0
    assert place.charges() == 1
    names = sorted(path.name for path in place.run.iterdir())
    assert names == ["domain.toml", "model.safetensors", "private", "run.json"]
