"""`reticent train` and `synth`, stopped from the keyboard: exit 130, whether it is charged, how to resume."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from reticent.core.errors import Inconclusive
from reticent.ledger.ledger import DatasetBudget, Ledger
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Gaussian
from reticent.runs import public_domain
from reticent.training import loop

ROWS = 900


@pytest.fixture
def words(tmp_path: Path) -> tuple[object, ...]:
    """A table of two numbers and a class, an epsilon, and a ledger to charge."""
    values = np.random.default_rng(0).uniform(0, 10, (ROWS, 2))
    lines = [f"{a:.2f},{b:.2f},{'yes' if a > 5 else 'no'}" for a, b in values]
    (tmp_path / "people.csv").write_text("\n".join(["a,b,y", *lines, ""]))
    with Ledger.create(tmp_path / "our.ledger") as made:
        made.limit("people", epsilon=5.0, delta=1e-4)
    ledger = ("--ledger", tmp_path / "our.ledger", "--dataset", "people")
    return (tmp_path / "people.csv", "--target", "y", "--epsilon", 4, *ledger)


def charges(folder: Path) -> int:
    with Ledger.open(folder / "our.ledger") as opened:
        return opened.account("people").charges


def stop(*_: object, **__: object) -> NoReturn:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("place", "method", "what", "paid"),
    [
        ("reticent.runs.public_domain.prepare", "objective", "The preparation of this run", 1),
        ("reticent.runs.methods.descent.train", "sgd", "This run", 2),
    ],
)
def test_stopped_after_it_was_paid_for_it_says_so_and_how_to_go_on(
    reticent,
    words: tuple,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    method: str,
    what: str,
    paid: int,
) -> None:
    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(place, stop)
        code, _, err = reticent("train", *words, "--method", method, "-o", folder)
        assert code == 130
        said = f"Resume with: reticent train --resume {folder}. {what} is charged already, and is not charged"
        assert said in err
        assert charges(tmp_path) == paid
        code, _, err = reticent("train", "--resume", folder)
        assert (code, said in err) == (130, True)
    assert reticent("train", "--resume", folder)[0] == 0
    assert charges(tmp_path) == 2  # its preparation, and the rest


def test_stopped_between_two_steps_it_is_one_clean_line(
    reticent, words: tuple, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(loop, "_compiled", lambda *_: stop)
        code, _, err = reticent("train", *words, "--method", "sgd", "-o", folder)
    assert code == 130
    assert err.splitlines()[-1] == (
        "error: Interrupted before the first of 200 steps. The guarantee is that of the whole plan, because "
        "the moment of stopping may depend on what was seen. "
        f"Resume with: reticent train --resume {folder}. "
        "This run is charged already, and is not charged again."
    )
    whole = "The guarantee is that of the whole plan, because the moment of stopping"
    assert whole in " ".join(reticent("show", folder)[1].split())
    assert whole in reticent("report", folder)[2]
    assert reticent("train", "--resume", folder)[0] == 0
    assert charges(tmp_path) == 2
    assert whole not in " ".join(reticent("show", folder)[1].split())
    history = json.loads(reticent("show", folder, "--json")[1])["history"]
    assert history["label"].startswith("unreleased")


@pytest.mark.parametrize("command", ["train", "synth"])
def test_stopped_before_it_was_paid_for_it_leaves_nothing(
    reticent, words: tuple, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(DatasetBudget, "charge", stop)
    before = sorted(tmp_path.rglob("*"))
    code, _, err = reticent(command, *words, "-o", tmp_path / "run")
    assert code == 130
    assert "Stopped before anything was charged" in err
    left = sorted(tmp_path.rglob("*"))
    assert [path for path in left if path.suffix != ".key"] == before  # the ledger's key is no part of a run
    assert charges(tmp_path) == 0


@pytest.mark.parametrize("command", ["train", "synth"])
def test_stopped_right_after_the_charge_it_is_not_charged_again(
    reticent, words: tuple, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    charge, more = DatasetBudget.charge, ("--method", "objective") if command == "train" else ()

    def charge_and_stop(self: DatasetBudget, *args: object, **named: object) -> NoReturn:
        charge(self, *args, **named)  # pyright: ignore[reportArgumentType]
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(DatasetBudget, "charge", charge_and_stop)
        code, _, err = reticent(command, *words, *more, "-o", tmp_path / "run")
    folder = tmp_path / ("run" if command == "train" else "run.generator")
    assert code == 130
    assert f"reticent {command} --resume {folder}. " in err
    assert "charged already" in err
    assert reticent(command, "--resume", folder)[0] == 0
    assert charges(tmp_path) == 2


def test_a_preparation_that_fails_is_charged_alone(
    reticent, words: tuple, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise Inconclusive("No class was found.", remedy="Declare the classes.")

    with monkeypatch.context() as patch:
        patch.setattr("reticent.runs.public_domain.prepare", fail)
        code, _, err = reticent("train", *words, "-o", tmp_path / "run")
    assert code != 0
    assert "The preparation of this run is charged, and stays spent. Nothing else is." in err
    with Ledger.open(tmp_path / "our.ledger") as opened:
        assert opened.account("people").charges == 1
        assert 0 < opened.for_dataset("people").guarantee().epsilon < 0.1 * 4 + 0.01
    assert "preparation alone is charged" in " ".join(reticent("show", tmp_path / "run")[1].split())
    assert "failed for good" in reticent("train", "--resume", tmp_path / "run")[2]
    assert reticent("train", *words, "-o", tmp_path / "again")[0] == 0  # what was not spent is still there


def test_a_run_with_no_room_for_the_rest_is_refused_before_its_preparation(
    reticent, words: tuple, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where another charge comes between the two, the run waits for a higher limit."""
    prepare = public_domain.prepare

    def charge_and_prepare(*args: Any, **named: Any) -> Any:
        with Ledger.open(tmp_path / "our.ledger") as opened:
            between = Gaussian(noise_multiplier=1.0)
            opened.for_dataset("people").charge(
                between, adjacency=Adjacency.ADD_OR_REMOVE, purpose="another", unit="record"
            )
        return prepare(*args, **named)

    with monkeypatch.context() as patch:
        patch.setattr(public_domain, "prepare", charge_and_prepare)
        code, _, err = reticent("train", *words, "-o", tmp_path / "run")
    assert code != 0
    assert "Something else was charged since the run began" in err
    assert f"then resume with: reticent train --resume {tmp_path / 'run'}" in err
    assert charges(tmp_path) == 2
    code, _, err = reticent("train", *words, "-o", tmp_path / "other")
    assert code != 0
    assert charges(tmp_path) == 2
    assert not (tmp_path / "other").exists()
    with Ledger.open(tmp_path / "our.ledger") as opened:
        opened.limit("people", epsilon=20.0, delta=1e-4)
    assert reticent("train", "--resume", tmp_path / "run")[0] == 0
    assert charges(tmp_path) == 3
