"""`--noise`, `--bands` and `--buffers`: what they mean, and one clear line where they mean nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from reticent.cli.app import app
from reticent.core.errors import InvalidArgument
from reticent.mechanisms import events
from reticent.noise.named import banded, independent
from reticent.runs.request import Request, noise_of
from reticent.training.plan import Plan

ACCOUNT = [
    "account",
    "--examples",
    "6000",
    "--batch-size",
    "100",
    "--epochs",
    "2",
    "--noise-multiplier",
    "4",
    "--delta",
    "1e-5",
]


def account(*more: str) -> dict:
    found = CliRunner().invoke(app, [*ACCOUNT, *more, "--json"])
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def test_bands_are_accounted_as_turns_of_a_part() -> None:
    plain, same, found = (
        account(),
        account("--noise", "banded", "--bands", "1"),
        account("--noise", "banded", "--bands", "4"),
    )
    assert same["event"] == plain["event"]
    assert same["guarantee"]["epsilon"] == plain["guarantee"]["epsilon"]
    assert found["event"]["times"] == 30  # of 120 steps, from 4 parts in turn
    assert any("4 parts that take turns" in line for line in found["guarantee"]["assumptions"])


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["--noise", "banded"], "needs a number of bands"),
        (["--noise", "banded", "--bands", "61"], "61 parts"),
        (["--noise", "banded", "--bands", "121", "--sampling", "cyclic"], "121 bands are more"),
        (["--noise", "tree"], "no theorem for correlated noise on poisson"),
        (["--noise", "brown"], "brown"),
        (["--noise", "banded", "--bands", "2", "--group", "2"], "no theorem for 2 records"),
    ],
)
def test_what_means_nothing_is_refused(typed: list[str], said: str) -> None:
    found = CliRunner().invoke(app, [*ACCOUNT, *typed])
    assert found.exit_code != 0
    assert said in " ".join(str(found.exception or found.output).split())


def test_requests_name_noise_that_goes_with_their_batches() -> None:
    asked = Request(source="digits", epsilon=1.0, noise="banded", bands=4)
    assert (asked.method, noise_of(asked)) == ("sgd", banded(bands=4))
    assert noise_of(Request(source="digits", epsilon=1.0)) == independent()
    assert noise_of(Request(source="digits", epsilon=1.0, noise="auto")) == "auto"
    refused: tuple[dict[str, Any], ...] = (
        {"noise": "tree"},
        {"noise": "auto", "bands": 2},
        {"noise": "banded", "bands": 2, "method": "objective"},
        {"bands": 2},
    )
    for wrong in refused:
        with pytest.raises(InvalidArgument):
            Request(source="digits", epsilon=1.0, **wrong)
    assert Request(source="digits", epsilon=1.0, noise="tree", method="gd").method == "gd"


@pytest.mark.parametrize("sampling", ["poisson", "cyclic"])
def test_auto_is_the_choice_of_a_plan_at_the_epsilon_of_independent_noise(sampling: str) -> None:
    typed = ("--sampling", sampling, "--noise-multiplier", "1")  # the last one counts
    found, plain = account("--noise", "auto", *typed), account(*typed)
    epsilon = plain["guarantee"]["epsilon"]
    assert found["guarantee"]["epsilon"] == pytest.approx(epsilon, rel=2e-3)
    assert found["noise"]["error"] < found["noise"]["independent_error"]
    run = {"examples": 6000, "batch_size": 100, "epochs": 2, "max_norm": 1.0, "delta": 1e-5}
    made = Plan.for_budget(epsilon=epsilon, noise="auto", sampling=sampling, **run)  # type: ignore[arg-type]
    assert found["noise"]["noise"] == made.noise.in_words
    assert found["noise"]["noise_multiplier"] == pytest.approx(made.noise_multiplier, rel=2e-3)
    assert found["noise"]["error"] == pytest.approx(made.expected_error, rel=2e-3)
    assert found["event"].get("times") == events.to_json(made.event).get("times")


def calibrate(*more: str) -> Any:
    setting = ["calibrate", *ACCOUNT[1:7], "--delta", "1e-5"]
    return CliRunner().invoke(app, [*setting, *more, "--json"])


def test_calibrate_solves_for_correlated_noise_and_chooses_it() -> None:
    best, four = (
        json.loads(calibrate("--epsilon", "1", *noise).stdout)
        for noise in (("--noise", "auto"), ("--noise", "banded", "--bands", "4"))
    )
    for found in (best, four):
        assert 0.99 < found["epsilon"] <= 1
    assert "noise" in best
    assert "noise" not in four
    for typed, said in (
        (["--noise", "auto", "--noise-multiplier", "4"], "for a budget"),
        (["--noise", "auto", "--epsilon", "1", "--bands", "4"], "finds the number of bands"),
    ):
        refused = calibrate(*typed)
        assert refused.exit_code != 0
        assert said in " ".join(str(refused.exception or refused.output).split())
    steps = ["calibrate", "--examples", "6000", "--batch-size", "100", "--noise-multiplier", "4"]
    refused = CliRunner().invoke(
        app, [*steps, "--epsilon", "1", "--delta", "1e-5", "--noise", "banded", "--bands", "2"]
    )
    assert "fixed length" in " ".join(str(refused.exception or refused.output).split())
