"""`reticent account` and `reticent calibrate`, as somebody types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

MNIST = (
    "--examples",
    60_000,
    "--batch-size",
    256,
    "--epochs",
    60,
    "--noise-multiplier",
    1.1,
    "--delta",
    1e-5,
)


def test_account_prints_a_row_for_every_accountant_a_sentence_and_a_curve(reticent) -> None:
    code, out, err = reticent("account", *MNIST)
    assert (code, err) == (0, "")
    for word in ("basic", "advanced", "moments", "Renyi", "privacy loss distribution", "2.38", "█", "epochs"):
        assert word in out


def test_account_json_has_the_promised_shape(reticent) -> None:
    code, out, err = reticent("account", *MNIST, "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert set(found) == {"guarantee", "accountants", "event"}
    assert list(found["accountants"]) == ["basic", "advanced", "zcdp", "moments", "rdp", "pld"]
    promise = found["guarantee"]
    for name in ("epsilon", "epsilon_lower", "delta", "adjacency", "unit", "accountant", "assumptions"):
        assert name in promise
    assert promise["epsilon_lower"] <= 2.38169 <= promise["epsilon"] <= 2.384
    assert found["accountants"]["moments"] == pytest.approx(3.00921, abs=1e-5)
    assert found["event"]["times"] == 14_063


def test_shuffled_batches_get_no_amplification(reticent) -> None:
    setting = (
        "--examples",
        1000,
        "--batch-size",
        10,
        "--epochs",
        1,
        "--noise-multiplier",
        1.0,
        "--delta",
        1e-5,
    )
    _, shuffled, _ = reticent("account", *setting, "--sampling", "shuffled", "--json")
    _, poisson, _ = reticent("account", *setting, "--json")
    assert json.loads(shuffled)["guarantee"]["epsilon"] == pytest.approx(4.377178, abs=1e-5)
    assert json.loads(shuffled)["guarantee"]["adjacency"] == "zero-out"
    assert json.loads(poisson)["guarantee"]["epsilon"] < 1


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_a_picture_is_saved(reticent, tmp_path: Path, ending: str) -> None:
    picture = tmp_path / f"curve.{ending}"
    code, _, err = reticent("account", *MNIST, "--plot", picture)
    assert code == 0
    assert "Saved" in err
    start = picture.read_bytes()[:5]
    assert start == (b"\x89PNG\r" if ending == "png" else b"<?xml")


def test_no_picture_is_left_half_written(reticent, tmp_path: Path) -> None:
    code, _, err = reticent("account", *MNIST, "--plot", tmp_path / "nowhere" / "curve.svg")
    assert code == 1
    assert "Cannot write" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (("--noise-multiplier", 0), "noise_multiplier must be a positive number"),
        (("--noise-multiplier", -1), "noise_multiplier must be a positive number"),
        (("--noise-multiplier", "nan"), "noise_multiplier must be a positive number"),
        (("--delta", 0), "delta must be strictly between 0 and 1"),
        (("--delta", 1), "delta must be strictly between 0 and 1"),
        (("--delta", "nan"), "delta must be strictly between 0 and 1"),
        (("--delta", 1e-3), "meaningless for 60000 examples"),
        (("--batch-size", 60_001), "cannot be drawn from 60000 examples"),
        (("--batch-size", 0), "batch_size must be a whole number"),
        (("--examples", 0), "examples must be a whole number"),
        (("--epochs", "nan"), "epochs must be"),
        (("--steps", 5), "must be given exactly once"),
        (("--steps", 2.5), "--steps"),
        (("--group", 0), "group must be a whole number"),
        (("--sampling", "fixed", "--adjacency", "add-or-remove"), "no theorem for fixed batches"),
        (("--sampling", "lottery"), "lottery"),
        (("--sampling", "full"), "A full batch holds all 60000"),
        (("--plot", "curve.txt"), "does not have the extension of a picture"),
    ],
)
def test_wrong_input_gets_one_line_and_exit_1(reticent, changes, said: str) -> None:
    code, out, err = reticent("account", *MNIST, *changes)
    assert (code, out) == (1, "")
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("missing", ["--examples", "--batch-size", "--noise-multiplier", "--delta"])
def test_what_is_missing_is_named(reticent, missing: str) -> None:
    at = MNIST.index(missing)
    code, _, err = reticent("account", *MNIST[:at], *MNIST[at + 2 :])
    assert code == 1
    assert f"{missing} is missing" in err


def test_an_event_file_is_accounted_for(reticent, tmp_path: Path) -> None:
    path = tmp_path / "event.json"
    path.write_text(
        '{"kind": "composed", "events": [{"kind": "gaussian", "noise_multiplier": 2.0},'
        ' {"kind": "pure_dp", "epsilon": 0.1}]}'
    )
    code, out, _ = reticent("account", "--events", path, "--delta", 1e-6, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["guarantee"]["epsilon_lower"] <= found["guarantee"]["epsilon"] < 2.31
    assert found["accountants"]["moments"] is None


def test_a_release_without_protection_costs_infinity(reticent, tmp_path: Path) -> None:
    path = tmp_path / "event.json"
    path.write_text('{"kind": "non_private"}')
    code, out, _ = reticent("account", "--events", path, "--delta", 1e-6, "--json")
    assert code == 0
    assert json.loads(out)["guarantee"]["epsilon"] == "inf"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"kind": "gausian"}', '{"kind": "gaussian"}', "\x00"])
def test_a_broken_event_file_gets_one_line(reticent, tmp_path: Path, text: str) -> None:
    path = tmp_path / "event.json"
    path.write_text(text)
    code, out, err = reticent("account", "--events", path, "--delta", 1e-6)
    assert (code, out) == (1, "")
    assert "event.json" in err
    assert err.count("\n") == 1


BUDGET = ("--epsilon", 3, "--delta", 1e-5, "--examples", 60_000, "--batch-size", 1024, "--epochs", 20)


def test_calibrate_finds_the_noise_and_what_it_delivers(reticent) -> None:
    code, out, _ = reticent("calibrate", *BUDGET, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["solved_for"] == "noise_multiplier"
    assert found["noise_multiplier"] == pytest.approx(1.0921, abs=2e-3)
    assert 3 * (1 - 1e-3) <= found["guarantee"]["epsilon"] <= 3
    code, out, _ = reticent("calibrate", *BUDGET)
    assert code == 0
    assert "noise multiplier  <- solved" in out


@pytest.mark.parametrize(
    ("left_out", "name", "low", "high"),
    [
        ("--epochs", "steps", 1180, 1210),
        ("--batch-size", "batch_size", 1030, 1050),
        ("--epsilon", "epsilon", 2.95, 2.98),
        ("--delta", "delta", 7e-6, 9.9e-6),
    ],
)
def test_calibrate_solves_for_whatever_is_left_out(reticent, left_out, name, low, high) -> None:
    at = BUDGET.index(left_out)
    words = (*BUDGET[:at], *BUDGET[at + 2 :], "--noise-multiplier", 1.1, "--json")
    code, out, err = reticent("calibrate", *words)
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["solved_for"] == name
    assert low < found[name] < high


def test_calibrate_says_why_a_target_cannot_be_met(reticent) -> None:
    words = ("--epsilon", 0.001, "--delta", 1e-9, "--examples", 60_000, "--batch-size", 1024)
    code, _, err = reticent("calibrate", *words, "--noise-multiplier", 0.5)
    assert code == 1
    assert "Use a noise multiplier of at least" in err


def test_calibrate_wants_exactly_one_thing_left_out(reticent) -> None:
    code, _, err = reticent("calibrate", *BUDGET, "--noise-multiplier", 1.0)
    assert code == 1
    assert "Nothing is left out" in err
    code, _, err = reticent("calibrate", *BUDGET[:6])
    assert code == 1
    assert "These are missing: --noise-multiplier, --steps, --batch-size" in err


def test_an_epsilon_that_protects_nobody_is_refused_without_a_warning(reticent) -> None:
    """Losses are then so far apart that e to their distance is infinite. Warnings are errors here."""
    words = ("--delta", 1e-5, "--examples", 60_000, "--batch-size", 1024, "--steps", 3)
    code, out, err = reticent("calibrate", "--epsilon", 1e9, *words, "--json")
    assert code == 1
    assert "the ends of its sampler show" in err
    assert not out


def test_a_certificate_is_written_proved_again_and_refused_once_edited(reticent, tmp_path: Path) -> None:
    path, edited = tmp_path / "certificate.json", tmp_path / "edited.json"
    run = ("--examples", 600, "--batch-size", 6, "--steps", 2, "--noise-multiplier", 1.5, "--delta", 1e-5)
    code, out, err = reticent("account", *run, "--certify", path, "--json")
    assert (code, "it proves an epsilon of" in " ".join(err.split())) == (0, True)
    promised = json.loads(out)["guarantee"]
    assert json.loads(path.read_text())["epsilon"] == promised["epsilon"]
    code, out, err = reticent("account", "--check", path)
    assert (code, err) == (0, "")
    assert "Proved:" in out
    assert "adding or removing one record" in " ".join(out.split())
    edited.write_text(path.read_text().replace('"times": 2', '"times": 1'))
    code, out, err = reticent("account", "--check", edited)
    assert (code, out) == (1, "")
    assert "changed after it was written" in " ".join(err.split())
    code, out, err = reticent("account", "--check", path, "--delta", 1e-5)
    assert (code, out) == (1, "")
    assert "Leave them out" in " ".join(err.split())
    code, out, err = reticent("account", "--check", tmp_path / "missing.json")
    assert (code, out) == (1, "")
    assert "Pass a file that --certify wrote" in " ".join(err.split())
