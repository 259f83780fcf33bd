"""`reticent audit`: a verdict with an exit code, and one line for a mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from reticent.audit import from_run
from reticent.audit.canary_training import Audit
from reticent.audit.from_run import audit_run
from reticent.cli.app import app
from reticent.core.keys import Keys
from reticent.runs.fit import fit
from reticent.runs.request import Request


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("audited") / "run"
    fit(Request(source="digits", epsilon=2.0), folder, keys=Keys.seeded(0))
    return folder


@pytest.fixture(scope="module")
def audited(run: Path) -> Audit:
    """What `reticent audit --train-like` finds, asked once."""
    found: list[Audit] = []

    def noting(*given: Any, **how: Any) -> Audit:
        audited = audit_run(*given, **how)
        assert isinstance(audited, Audit)
        found.append(audited)
        return found[0]

    words = ["audit", "--train-like", str(run), "--confidence", "0.9999", "--json"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(from_run, "audit_run", noting)
        result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["verdict"]["outcome"] == found[0].verdict.outcome.value
    return found[0]


def test_a_correct_run_is_not_contradicted(audited: Audit) -> None:
    verdict = audited.verdict
    assert verdict.outcome.value in ("CONSISTENT", "UNINFORMATIVE")
    assert verdict.bound <= verdict.claim
    assert verdict.power is not None
    assert verdict.ceiling is not None
    assert 1 < verdict.power <= verdict.ceiling + 1e-9


@pytest.mark.thorough
def test_a_claim_that_is_not_the_whole_promise_says_so(
    reticent, audited: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Preparation has its share of the budget, and no canary looks at it."""
    rng = np.random.default_rng(0)
    lines = [f"{a:.1f},{b:.1f},{'yes' if a > b else 'no'}" for a, b in rng.uniform(0, 100, (900, 2))]
    (tmp_path / "people.csv").write_text("\n".join(["a,b,y", *lines]) + "\n")
    request = Request(source=str(tmp_path / "people.csv"), target="y", epsilon=2.0, method="objective")
    fit(request, tmp_path / "run", keys=Keys.seeded(0))
    monkeypatch.setattr(from_run, "audit_run", lambda *_, **__: audited)
    code, out, err = reticent("audit", tmp_path / "run", "-o", tmp_path / "run" / "audit.json")
    assert code == 0, err
    rest = "The run promises epsilon 2.000 in total; preparation took epsilon 0.2 of it, and was not audited."
    assert rest in " ".join(out.split())
    assert reticent("report", tmp_path / "run")[0] == 0
    assert rest in (tmp_path / "run" / "report.html").read_text()


def test_a_run_that_claims_too_little_is_contradicted(reticent, run: Path, monkeypatch) -> None:
    """The noise is a twentieth of what the plan says."""
    from reticent.mechanisms import gaussian

    right = gaussian.whole_normals

    def too_quiet(key, count, **options):
        return right(key, count, **options) // 20

    monkeypatch.setattr(gaussian, "whole_normals", too_quiet)
    code, out, _ = reticent("audit", run)
    assert code == 1
    assert "CONTRADICTED" in out


def test_the_arithmetic_of_a_step_is_audited_without_training(reticent, run: Path, tmp_path: Path) -> None:
    code, out, err = reticent("audit", run, "--arithmetic", "--json", "-o", tmp_path / "arithmetic.json")
    assert code == 0, err
    found = json.loads(out)
    assert found == json.loads((tmp_path / "arithmetic.json").read_text())
    assert found["outcome"] == "CONSISTENT"
    assert [each["outcome"] for each in found["findings"]] == ["CONSISTENT"] * 3
    assert "against the rules explicit, outer" in found["findings"][1]["what"]
    code, _, err = reticent("audit", run, "--arithmetic", "--canaries", 100)
    assert (code, "--arithmetic uses no canaries" in err) == (1, True)


def test_a_run_whose_noise_is_floats_is_contradicted(reticent, run: Path, monkeypatch) -> None:
    import jax
    import jax.numpy as jnp

    from reticent.training import step

    def in_floats(key, total, grid, *, parts=None):
        deviation = 102_400 / grid.steps  # in clipping norms, nearly

        def noisy(leaf):
            clean = leaf.astype(jnp.float32) / grid.steps
            return clean + deviation * jax.random.normal(key, leaf.shape)

        return jax.tree.map(noisy, total)

    monkeypatch.setattr(step, "add_whole_noise", in_floats)
    code, out, _ = reticent("audit", run, "--arithmetic")
    assert code == 1
    assert "CONTRADICTED: what the step computes is not what was proved." in out
    assert "normal numbers of jax.random" in " ".join(out.split())


def test_a_run_is_named_only_once(reticent, run: Path) -> None:
    for words in ((), (run, "--train-like", run)):
        code, _, err = reticent("audit", *words)
        assert (code, "Audit exactly one run" in err) == (1, True)


def test_what_cannot_be_audited_says_so(reticent, run: Path, tmp_path: Path) -> None:
    code, _, err = reticent("audit", run, "--canaries", "many")
    assert (code, "--canaries many is not a whole number" in err) == (1, True)
    code, _, err = reticent("audit", run, "--canaries", 0)
    assert (code, "--canaries 0 leaves nothing to guess" in err) == (1, True)
    code, _, err = reticent("audit", run / "run.json")
    assert (code, "is a file, not the folder of a run" in err) == (1, True)
    fit(Request(source="digits", epsilon=2.0, method="objective"), tmp_path / "run", keys=Keys.seeded(1))
    code, _, err = reticent("audit", tmp_path / "run")
    assert (code, "no steps for a canary to join" in err) == (1, True)
    code, _, err = reticent("audit", tmp_path)
    assert (code, "holds no run" in err) == (1, True)


def test_more_canaries_than_fit_are_refused_before_any_is_made(reticent, run: Path, monkeypatch) -> None:
    from reticent.audit import canary_training

    monkeypatch.setattr(canary_training, "draw_canaries", None)  # nothing is drawn
    code, _, err = reticent("audit", run, "--canaries", 99_999_999)
    assert (code, "99,999,999 canaries may take" in err) == (1, True)
    assert "Ask for at most 1," in err  # rows of 64 numbers


def test_a_place_that_cannot_be_written_is_named_before_anything_is_computed(
    reticent, run: Path, tmp_path: Path
) -> None:
    (tmp_path / "audit.json").write_text("{}")
    code, _, err = reticent("audit", run, "-o", tmp_path / "audit.json")
    assert (code, "audit.json exists already" in err) == (1, True)
    code, _, err = reticent("audit", run, "-o", tmp_path / "no" / "audit.json")
    assert (code, f"there is no folder {tmp_path / 'no'}" in err) == (1, True)
