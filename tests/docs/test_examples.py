"""Every script in `examples/` ends well, and what it prints is true.

They are run as a user runs them. Guarantees are worked out again by other means: those of training by
dp-accounting, that of the pipeline by the closed form of the Gaussian mechanism; attacks by scikit-learn.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from scipy.optimize import brentq
from scipy.special import ndtr
from sklearn.metrics import roc_auc_score, roc_curve

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples"


def run(*words: str | Path) -> str:
    """What a command prints. It has to end well, and to have nothing to say on stderr."""
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def numbers(pattern: str, printed: str) -> list[tuple[float, ...]]:
    """The groups of every place where the pattern is found, as numbers."""
    found = [match.groups() for match in re.finditer(pattern, printed)]
    assert found, f"{pattern!r} is not in:\n{printed}"
    return [tuple(float(group) for group in groups) for groups in found]


_GUARANTEE = r"\(([\d.]+), ([\d.e-]+)\)-differential privacy for adding or removing one record"
_READ_RIGHTLY = r"([\d.]+)% of the held-out digits are classified correctly"


def is_near(claimed: float, exact: float) -> bool:
    """Whether a printed epsilon is the exact one, up to its digits; a smaller one would promise too much."""
    return exact * 0.999 < claimed < exact * 1.005


# Training


def epsilon_of_steps(*phases: tuple[float, float, float], delta: float) -> float:
    """By dp-accounting, of phases of Poisson-sampled Gaussian steps: rate, noise multiplier, how many."""
    parts = [
        privacy_loss_distribution.from_gaussian_mechanism(
            noise, sampling_prob=rate, value_discretization_interval=1e-4
        ).self_compose(int(steps))
        for rate, noise, steps in phases
    ]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.compose(part)
    return float(whole.get_epsilon_for_delta(delta))


def check_network(printed: str, folder: Path) -> None:
    ((epsilon, delta),) = numbers(_GUARANTEE, printed)
    ((steps, noise),) = numbers(r"(\d+) steps, noise multiplier ([\d.]+)", printed)
    assert epsilon <= 3
    assert is_near(epsilon, epsilon_of_steps((300 / 1500, noise, steps), delta=delta))
    ((right,),) = numbers(_READ_RIGHTLY, printed)
    assert right > 70  # noise is fresh each time; about 89 is usual


def check_finetuning(printed: str, folder: Path) -> None:
    ((epsilon, delta),) = numbers(_GUARANTEE, printed)
    ((steps, noise),) = numbers(r"(\d+) steps, noise multiplier ([\d.]+)", printed)
    assert is_near(epsilon, epsilon_of_steps((300 / 1200, noise, steps), delta=delta))
    assert re.findall(r"^(\w+):", printed, re.M) == ["mask", "factors", "features"]
    assert "never saw a private record" in printed
    assert all(right > 65 for (right,) in numbers(_READ_RIGHTLY, printed))  # about 86 is usual


def check_own_loop(printed: str, folder: Path) -> None:
    ((epsilon, delta),) = numbers(_GUARANTEE, printed)
    ((steps, size, examples, noise),) = numbers(
        r"(\d+) steps, batches of about (\d+) of (\d+), noise multiplier ([\d.]+)", printed
    )
    assert epsilon <= 3
    assert is_near(epsilon, epsilon_of_steps((size / examples, noise, steps), delta=delta))
    assert not is_near(epsilon, epsilon_of_steps((size / examples, noise, steps / 2), delta=delta))
    assert "uses each batch for one clipped sum" in printed
    ((right,),) = numbers(_READ_RIGHTLY, printed)
    assert right > 70  # noise is fresh each time; about 89 is usual


def check_federated(printed: str, folder: Path) -> None:
    ((epsilon, delta),) = numbers(
        r"\(([\d.]+), ([\d.e-]+)\)-differential privacy for adding or removing one user", printed
    )
    ((rounds, noise),) = numbers(r"(\d+) rounds, noise multiplier ([\d.]+)", printed)
    assert epsilon <= 2
    assert is_near(epsilon, epsilon_of_steps((200 / 1800, noise, rounds), delta=delta))
    assert "the server is trusted" in printed
    (private,), (plain,) = numbers(r"([\d.]+)% right on rows of other clients", printed)
    assert 80 < private < plain + 2  # noise is fresh each time; about 86 is usual


# The pipeline


def delta_of_gaussian(epsilon: float, mu: float) -> float:
    """Of a Gaussian release whose sensitivity is `mu` deviations of its noise (Balle and Wang 2018)."""
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


def zero_of(function: Callable[[float], float], low: float, high: float) -> float:
    return float(brentq(function, low, high, xtol=1e-12))  # type: ignore[arg-type]  # not the full output


def check_pipeline(printed: str, folder: Path) -> None:
    claims = numbers(r"\(([\d.]+), ([\d.e-]+)\)-differential privacy for adding or removing one", printed)
    *fits, (together, delta) = claims
    assert len(fits) == 2
    # Each fit is a Gaussian; four of both compose as one with the squares of their sensitivities added.
    mus = [zero_of(lambda mu, fit=fit: delta_of_gaussian(fit[0], mu) - fit[1], 1e-3, 10) for fit in fits]
    mu = 2 * math.hypot(*mus)
    exact = zero_of(lambda epsilon: delta_of_gaussian(epsilon, mu) - delta, 0, 50)
    assert is_near(together, exact)
    assert together < 2.8 < 8 * fits[0][0]  # within the limit, and below the sum
    ((refused, limit),) = numbers(r"a fifth fit: .* to epsilon ([\d.]+) of ([\d.]+);", printed)
    assert refused > limit == 2.8
    assert "8 releases are charged" in printed
    (scores,) = numbers(r"accuracy on the folds: ([\d.]+), ([\d.]+), ([\d.]+)", printed)
    assert np.mean(scores) > 0.7  # about 0.9 is usual


# Attacks


def check_attack(printed: str, folder: Path) -> None:
    estimate = r"([\d.]+) \[([\d.]+), ([\d.]+)\]"
    rows = {
        name: numbers(rf"{name} +{estimate} +{estimate} +{estimate}", printed)[0]
        for name in ("gap", "threshold", "entropy", "population")
    }
    saved = [np.load(folder / f"{side}.npz") for side in ("members", "outsiders")]
    scores = [side["probabilities"][np.arange(len(side["labels"])), side["labels"]] for side in saved]
    truth = np.repeat([1, 0], [len(side) for side in scores])
    false, true, _ = roc_curve(truth, np.concatenate(scores), drop_intermediate=False)
    assert not {row.tobytes() for row in saved[0]["features"]} & {
        row.tobytes() for row in saved[1]["features"]
    }

    _, _, _, at_one_percent, _, most, auc, low, high = rows["threshold"]
    assert auc == pytest.approx(roc_auc_score(truth, np.concatenate(scores)), abs=1e-3)  # many ties
    assert at_one_percent == pytest.approx(true[false <= 0.01].max(), abs=1e-3)
    assert at_one_percent <= most
    assert 0.7 < low < auc < high < 0.9
    assert 0.5 < rows["gap"][6] < 0.6  # a forest is hardly less right about outsiders
    assert "899 cannot resolve a false-positive rate of 0.1%" in printed

    reticent = Path(sys.executable).parent / "reticent"
    sides = ("--members", folder / "members.npz", "--outsiders", folder / "outsiders.npz")
    told = json.loads(run(reticent, "attack", *sides, "--json"))
    assert told["attacks"]["threshold"]["auc"]["value"] == pytest.approx(auc, abs=1e-4)


CHECKS: dict[str, Callable[[str, Path], None]] = {
    "audit_saved_probabilities.py": check_attack,
    "equinox_network.py": check_network,
    "federated_clients.py": check_federated,
    "finetune_equinox.py": check_finetuning,
    "finetune_flax.py": check_finetuning,
    "finetune_plain.py": check_finetuning,
    "flax_network.py": check_network,
    "own_training_loop.py": check_own_loop,
    "sklearn_pipeline.py": check_pipeline,
}


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.thorough
def test_an_example_ends_well_and_prints_what_is_true(name: str, tmp_path: Path):
    CHECKS[name](run(sys.executable, FOLDER / name, tmp_path), tmp_path)


def test_every_file_of_the_folder_is_checked_and_described():
    files = {path.name for path in FOLDER.iterdir() if path.is_file()}
    assert files == {*CHECKS, "README.md"}
    described = re.findall(r"^\| \[(\S+)\]\((\S+)\) \|", (FOLDER / "README.md").read_text("utf-8"), re.M)
    of_files = [found for found in described if not found[0].endswith("/")]
    assert sorted(of_files) == [(name, name) for name in sorted(CHECKS)]
    assert all((FOLDER / path).is_dir() for name, path in described if name.endswith("/"))


@pytest.mark.parametrize("name", CHECKS)
def test_an_example_is_short_and_says_how_it_is_run(name: str):
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert len(text.splitlines()) < (60 if name.startswith("finetune") else 76)
    assert re.search(rf"^ *python examples/{re.escape(name)}\b", text, re.MULTILINE)


@pytest.mark.parametrize("claimed", [2.98, 1.5, 3.1])
def test_a_wrong_claim_would_be_noticed(claimed: float):
    printed = (
        f"({claimed}, 1e-05)-differential privacy for adding or removing one record (...).\n"
        "100 steps, noise multiplier 2.9833\n90.9% of the held-out digits are classified correctly\n"
    )
    with pytest.raises(AssertionError):
        check_network(printed, FOLDER)
