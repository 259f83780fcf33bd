"""Commands that run for a page."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reticent.core import watching_program
from reticent.core.errors import CannotMeet, DataError
from reticent.studio import jobs as jobs_module
from reticent.studio.jobs import Job, Jobs

SAYS = """
import json, sys, time
say = lambda **line: print(json.dumps(line), file=sys.stderr, flush=True)
say(bar="training", done=0.5, said="epsilon 1.2"); say(bar="training", done=1.0); say(note="<b>")
print("not JSON", file=sys.stderr); print("a result")
try:
    time.sleep(float(sys.argv[1])); sys.exit(3 if sys.argv[1] == "0" else 0)
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Jobs]:
    """Jobs whose command is a short program."""
    monkeypatch.setattr(jobs_module, "_PROGRAM", SAYS)
    found = Jobs(tmp_path)
    yield found
    found.close()


def wait(job: Job) -> None:
    end = time.monotonic() + 30
    while job.code is None:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_what_a_command_says_is_kept(jobs: Jobs):
    job = jobs.start(["0"], leads_to="run?name=x")
    wait(job)
    facts = job.facts()
    assert (facts["state"], facts["output"]) == ("refused by the budget", "a result\n")
    assert facts["lines"] == [{"note": "<b>"}, {"note": "not JSON"}]
    assert facts["bars"] == [{"name": "training", "done": 1.0, "said": "epsilon 1.2"}]
    assert job.facts(since=facts["next"])["lines"] == []
    assert job.command == "reticent 0"


def test_stopping_is_an_interrupt_and_few_run_at_once(jobs: Jobs):
    first, second = jobs.start(["20"]), jobs.start(["20"])
    with pytest.raises(CannotMeet, match="running"):
        jobs.start(["20"])
    for job in (first, second):
        while job.version < 4:  # it has begun
            time.sleep(0.02)
    first.stop()
    wait(first)
    assert first.state == "interrupted"
    jobs.close()
    wait(second)
    assert second.state == "interrupted"
    with pytest.raises(DataError):
        jobs.find(3)


def test_a_bar_is_told_to_a_program_line_by_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    from reticent.training.plan import Plan
    from reticent.training.progress import bar

    monkeypatch.setattr(watching_program, "_PAUSE", 0.0)
    monkeypatch.setenv("RETICENT_PROGRESS", "lines")
    plan = Plan.without_privacy(examples=100, batch_size=10, steps=10, max_norm=1.0)
    with bar(plan) as advance:
        advance(5, "epsilon 0.7")
        advance(10, "")
    with bar(plan, is_shown=False) as advance:
        advance(10, "")
    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["done"] for line in said] == [0.0, 0.5, 1.0]
    assert said[1]["said"] == "epsilon 0.7"
