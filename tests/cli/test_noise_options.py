"""`--noise`, `--bands` and `--buffers`: what they mean, and one clear line where they mean nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from reticent.cli.app import app
from reticent.core.errors import InvalidArgument
from reticent.noise.named import banded, independent
from reticent.runs.request import Request, noise_of

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
    return json.loads(found.output)


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
