"""`reticent train` and `synth`, stopped from the keyboard: exit 130, whether it is charged, how to go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from reticent.ledger.ledger import DatasetBudget, Ledger
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
    return (tmp_path / "people.csv", "--target", "y", "--epsilon", 2, *ledger)


def charges(folder: Path) -> int:
    with Ledger.open(folder / "our.ledger") as opened:
        return opened.account("people").charges


def stop(*_: object, **__: object) -> NoReturn:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("place", "method"),
    [("reticent.runs.public_domain.prepare", "objective"), ("reticent.runs.methods.descent.train", "sgd")],
)
def test_stopped_after_it_was_paid_for_it_says_so_and_how_to_go_on(
    reticent, words: tuple, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, method: str
) -> None:
    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(place, stop)
        code, _, err = reticent("train", *words, "--method", method, "-o", folder)
        assert code == 130
        said = (
            f"Go on with: reticent train --resume {folder}. This run is charged already, and is not charged"
        )
        assert said in err
        code, _, err = reticent("train", "--resume", folder)
        assert (code, said in err) == (130, True)
    assert reticent("train", "--resume", folder)[0] == 0
    assert charges(tmp_path) == 1


def test_stopped_between_two_steps_it_is_one_clean_line(
    reticent, words: tuple, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(loop, "_compiled", lambda *_: stop)
        code, _, err = reticent("train", *words, "-o", folder)
    assert code == 130
    assert err.splitlines()[-1] == (
        "error: Interrupted after 0 of 200 steps. What was done is kept. The guarantee is that of the whole "
        "plan, because the moment of stopping may depend on what was seen. "
        f"Go on with: reticent train --resume {folder}. "
        "This run is charged already, and is not charged again."
    )
    whole = "The guarantee is that of the whole plan, because the moment of stopping"
    assert whole in " ".join(reticent("show", folder)[1].split())
    assert whole in reticent("report", folder)[2]
    assert reticent("train", "--resume", folder)[0] == 0
    assert charges(tmp_path) == 1
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
    assert sorted(tmp_path.rglob("*")) == before
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
    assert charges(tmp_path) == 1
