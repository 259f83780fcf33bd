"""One noisy sum: that its noise is the plan's, that no record moves it further, and what comes of it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from reticent.accounting.tight_epsilon import tight
from reticent.audit.bounds import many_runs
from reticent.audit.noise_checks import describe_wrong_size
from reticent.core.errors import BudgetExceeded, CannotMeet, DataError, IntegrityError, InvalidArgument
from reticent.core.keys import Keys
from reticent.mechanisms.events import Gaussian
from reticent.mechanisms.sensitivity import BoundedSum
from reticent.mechanisms.whole import normal_grid
from reticent.synthetic.images import basis as synthetic_basis
from reticent.synthetic.images import embedding, image_model, matching
from reticent.synthetic.images.basis import PRIORS, public_basis
from reticent.synthetic.images.embedding import MAX_NORM, EmbeddingPlan, embed, fit, plan, sum_embeddings

CLASSES = 3
KINDS = ("moments", "fourier")


def planned(features: str = "moments", epsilon: float = 1.0, examples: int = 300) -> EmbeddingPlan:
    return plan(
        epsilon=epsilon,
        delta=1e-4,
        examples=examples,
        features=features,  # type: ignore[arg-type]
        prior="waves",
        kept=6,
        radius=2.0,
    )


def bars(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Images of 8 x 8 with a bright bar whose place is the class; the last class is rare."""
    rng = np.random.default_rng(seed)
    y = rng.choice(CLASSES, rows, p=[0.5, 0.4, 0.1])
    x = rng.integers(0, 40, (rows, 8, 8), dtype=np.uint8)
    for row, label in enumerate(y):
        x[row, :, 3 * label : 3 * label + 2] += rng.integers(120, 200, dtype=np.uint8)
    return x, y


STRANGE = {
    "not a number": np.full((1, 8, 8), np.nan),
    "infinite": np.full((1, 8, 8), np.inf),
    "of both signs": np.where(np.eye(8) > 0, np.inf, -np.inf)[None],
    "huge": np.full((1, 8, 8), 1e300),
    "huge and negative": np.full((1, 8, 8), -3e38),
    "white": np.full((1, 8, 8), 255, np.uint8),
    "black": np.zeros((1, 8, 8)),
    "checks": np.indices((8, 8)).sum(axis=0)[None] % 2 * 1.0,
}


# What one record can do


def sums_are_exact(features: str) -> bool:
    """Whether a record more moves the sum by its own phi, to the last bit, wherever the others stand."""
    asked, basis = planned(features, examples=1000), public_basis((8, 8), "waves", 6)
    x, y = bars(1003)
    whole = sum_embeddings(x, y, basis, asked, CLASSES).value
    order = np.random.default_rng(1).permutation(1003)
    again = sum_embeddings(x[order], y[order], basis, asked, CLASSES).value
    moved = whole - sum_embeddings(x[1:], y[1:], basis, asked, CLASSES).value
    own = np.zeros_like(moved)
    own[y[0]] = embed(x[:1], basis, asked)[0]
    return np.array_equal(whole, again) and np.array_equal(moved, own)


@pytest.mark.parametrize("features", KINDS)
def test_no_record_moves_the_bits_of_others(features: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sums_are_exact(features)
    monkeypatch.setattr(embedding, "_SHRUNK", 1e9 / 7)  # numbers that are on no grid any more
    assert not sums_are_exact(features)


def test_coordinates_have_the_same_bits_wherever_a_record_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    x, basis = (
        np.random.default_rng(0).random((1003, 28, 28), np.float32),
        public_basis((28, 28), "waves", 60),
    )

    def stay() -> bool:
        found = basis.coordinates(x)
        return all(np.array_equal(found[at:], basis.coordinates(x[at:])) for at in (1, 3, 500, 1002))

    assert stay()
    rough = (x.reshape(1003, -1) - basis.centre) @ basis.directions
    assert np.abs(basis.coordinates(x) - rough).max() < 1e-4
    monkeypatch.setattr(synthetic_basis, "exact_product", lambda rows, matrix, *most: rows @ matrix)
    assert not stay()  # the planted bug: a product of floats


@pytest.mark.parametrize("features", KINDS)
def test_no_phi_is_longer_than_one_as_floats(features: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, basis = planned(features), public_basis((8, 8), "waves", 6)

    def longest() -> Fraction | int:
        rows = [embed(record, basis, asked)[0].tolist() for record in STRANGE.values()]
        return max(sum(Fraction(number) ** 2 for number in row) for row in rows)

    assert 1 - Fraction(1, 10**6) < longest() <= 1
    monkeypatch.setattr(embedding, "_SHRUNK", 1 + 2.0**-30)
    assert longest() > 1


def test_the_noisy_sum_lies_on_a_public_grid() -> None:
    asked, basis = planned(), public_basis((8, 8), "waves", 6)
    x, y = bars(300)
    for rows in (300, 299):
        total = sum_embeddings(x[:rows], y[:rows], basis, asked, CLASSES)
        noisy = embedding.release(total, asked, np.random.default_rng(0))
        _, step = normal_grid(noisy.size, max_norm=MAX_NORM, deviation=asked.noise_multiplier)
        assert np.array_equal(np.rint(noisy / step) * step, noisy)
        assert not np.array_equal(np.rint(total.value / step) * step, total.value)


@pytest.mark.parametrize("features", KINDS)
@pytest.mark.parametrize("name", STRANGE)
def test_one_record_moves_the_sum_of_its_class_by_at_most_the_bound(features: str, name: str) -> None:
    asked, basis = planned(features), public_basis((8, 8), "waves", 6)
    record = STRANGE[name]
    x = np.random.default_rng(0).random((40, 8, 8)).astype(record.dtype)
    y = np.arange(40) % CLASSES
    before = sum_embeddings(x, y, basis, asked, CLASSES)
    after = sum_embeddings(np.concatenate([x, record]), np.append(y, 1), basis, asked, CLASSES)
    moved = np.linalg.norm(after.value - before.value, axis=1)
    assert before.max_norm == MAX_NORM
    assert np.linalg.norm(moved) <= MAX_NORM
    assert moved[1] > 0.3  # it counts
    assert moved[0] == moved[2] == 0


def test_the_bound_is_reached_so_the_noise_is_not_more_than_needed() -> None:
    basis = public_basis((8, 8), "waves", 6)
    lengths = np.linalg.norm(embed(STRANGE["white"], basis, planned()), axis=1)
    assert lengths == pytest.approx([MAX_NORM])


def released_noise(asked: EmbeddingPlan, monkeypatch: pytest.MonkeyPatch, runs: int = 40) -> np.ndarray:
    """What `fit` adds to the exact sum, as the code after it sees it: (runs, numbers)."""
    x, y = bars(300)
    exact = sum_embeddings(x, y, public_basis((8, 8), "waves", 6), asked, CLASSES).value
    seen: list[np.ndarray] = []

    def watching(noisy: np.ndarray, radius: float, kept: int) -> image_model.Tensors:
        seen.append(noisy - exact)
        return watched(noisy, radius, kept)

    watched = embedding.gaussians
    with monkeypatch.context() as patch:
        patch.setattr(embedding, "gaussians", watching)
        for run in range(runs):
            fit(x, y, asked, classes=CLASSES, keys=Keys.seeded(run))
    return np.stack([noise.ravel() for noise in seen])


def test_the_noise_has_the_deviation_of_the_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """False alarms: about one in a million runs; keys are seeded."""
    asked = planned()
    assert isinstance(asked.event, Gaussian)
    deviation = asked.event.noise_multiplier * MAX_NORM
    assert describe_wrong_size(released_noise(asked, monkeypatch), deviation) is None

    honest = embedding.release

    def quiet(total: BoundedSum, plan: EmbeddingPlan, rng: np.random.Generator) -> np.ndarray:
        return (total.value + honest(total, plan, rng)) / 2  # the planted bug: half the noise

    monkeypatch.setattr(embedding, "release", quiet)
    assert describe_wrong_size(released_noise(asked, monkeypatch), deviation) is not None


def frequencies_vary(runs: int = 12) -> bool:
    """Do released class frequencies differ from run to run, and from the truth, by about the noise?"""
    x, y = bars(300)
    found = [fit(x, y, planned(), classes=CLASSES, keys=Keys.seeded(run)).frequencies for run in range(runs)]
    away = np.std(300 * np.stack(found) - np.bincount(y, minlength=CLASSES))
    return bool(away > planned().noise_multiplier)


def test_class_frequencies_are_never_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    assert frequencies_vary()
    y = bars(300)[1]

    def exact(noisy_counts: np.ndarray) -> np.ndarray:  # the planted bug
        return np.bincount(y, minlength=CLASSES) / len(y)

    monkeypatch.setattr(embedding, "released_frequencies", exact)
    assert not frequencies_vary()


def game(asked: EmbeddingPlan, runs: int = 150) -> float:
    """A lower bound on epsilon: a class that only the canary is of, and how far from grey its mean lies."""
    others = np.zeros((asked.examples - 1, 8, 8), np.uint8)
    canary = STRANGE["white"]
    scores = []
    for with_canary in (True, False):
        x = np.concatenate([others, canary]) if with_canary else others
        y = np.zeros(len(x), int)
        y[len(others) :] = 1
        keys = (Keys.seeded(2 * run + with_canary) for run in range(runs))
        models = (fit(x, y, asked, classes=2, keys=key) for key in keys)
        scores.append([float(np.log(model.frequencies[1])) for model in models])
    return many_runs(*scores, delta=asked.delta, confidence=0.99).epsilon


def test_no_game_on_the_generator_beats_its_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = planned(epsilon=1.0, examples=50)
    assert game(asked) <= asked.epsilon
    honest = embedding.release

    def quiet(total: BoundedSum, plan: EmbeddingPlan, rng: np.random.Generator) -> np.ndarray:
        return total.value + (honest(total, plan, rng) - total.value) / 50  # the planted bug

    monkeypatch.setattr(embedding, "release", quiet)
    assert game(asked) > asked.epsilon


# What it costs


@pytest.mark.parametrize("beside", [None, Gaussian(noise_multiplier=6.0)])
def test_the_whole_plan_costs_what_was_asked_for(beside: Gaussian | None) -> None:
    asked = plan(epsilon=1.0, delta=1e-5, examples=100, beside=beside)
    assert 0.995 <= tight(asked.whole, 1e-5).upper <= 1.0
    assert asked.guarantee().epsilon <= 1.0
    assert EmbeddingPlan.read(asked.to_json()) == asked


def test_what_is_beside_it_may_be_too_dear() -> None:
    with pytest.raises(CannotMeet, match="by itself"):
        plan(epsilon=1.0, delta=1e-5, examples=100, beside=Gaussian(noise_multiplier=2.0))


def test_a_budget_is_charged_before_anything_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    class Empty:
        def charge(self, event, **named):
            assert event == planned().event
            raise BudgetExceeded("There is nothing left.", remedy="Ask for more.")

    monkeypatch.setattr(embedding, "release", lambda *given: pytest.fail("noise was drawn"))
    with pytest.raises(BudgetExceeded):
        fit(*bars(300), planned(), classes=CLASSES, budget=Empty())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"beside": null, "epsilon": 1}', "null"])
def test_a_plan_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        EmbeddingPlan.read(text)


# What comes of it


@pytest.mark.parametrize("features", KINDS)
def test_samples_look_like_the_records_of_their_class(features: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "_STEPS", 300)
    monkeypatch.setattr(embedding, "_WAVES", 100)
    x, y = bars(3000)
    model = fit(x, y, planned(features, epsilon=5.0, examples=3000), classes=CLASSES, keys=Keys.seeded(1))
    means = np.stack([x[y == label].mean(axis=0) for label in range(CLASSES)])
    made, labels = model.sample(600, 0)
    assert made.shape == (600, 8, 8)
    assert made.dtype == np.uint8
    nearest = np.argmin(((made[:, None] - means) ** 2).sum(axis=(2, 3)), axis=1)
    assert np.mean(nearest == labels) > 0.95
    assert np.bincount(labels, minlength=CLASSES) / 600 == pytest.approx([0.5, 0.4, 0.1], abs=0.07)
    assert set(model.sample(50, 1, given=2)[1]) == {2}


def test_a_saved_generator_samples_the_same_and_holds_no_seed(tmp_path: Path) -> None:
    model = fit(*bars(300), planned(), classes=CLASSES, keys=Keys.seeded(1234567))
    model.save(tmp_path / "made")
    again = image_model.load(tmp_path / "made")
    assert np.array_equal(again.sample(20, 3)[0], model.sample(20, 3)[0])
    assert again.guarantee == model.guarantee
    assert EmbeddingPlan.read(again.plan) == planned()
    text = (tmp_path / "made" / image_model.RECORD).read_text()
    assert "1234567" not in text
    tensors = tmp_path / "made" / image_model.TENSORS
    content = bytearray(tensors.read_bytes())
    content[-1] ^= 1
    tensors.write_bytes(content)
    with pytest.raises(IntegrityError):
        image_model.load(tmp_path / "made")
    with pytest.raises(DataError, match="no generator"):
        image_model.load(tmp_path / "elsewhere")


def test_records_that_fit_no_plan_are_refused() -> None:
    x, y = bars(300)
    many = np.tile(x, (3, 1, 1)), np.tile(y, 3)
    for records, labels, classes in [(x, y, 2), (*many, 3), (x, y[:-1], 3), (x, y + 0.5, 3)]:
        with pytest.raises(DataError):
            fit(records, labels, planned(), classes=classes)
    with pytest.raises(InvalidArgument, match="no class 3"):
        fit(x, y, planned(), classes=3).sample(1, given=3)


@pytest.mark.parametrize("prior", PRIORS)
def test_a_basis_is_orthonormal(prior: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic_basis, "_DRAWN", 200)
    basis = public_basis.__wrapped__((8, 8), prior, 10)
    kept = basis.directions.shape[1]
    assert kept == (64 if prior == "none" else 10)
    assert np.allclose(basis.directions.T @ basis.directions, np.eye(kept), atol=1e-4)
    point = basis.pixels(np.zeros((1, kept)))
    assert np.allclose(basis.coordinates(point), 0, atol=1e-5)
    with pytest.raises(InvalidArgument):
        public_basis((8, 6), "strokes", 10)
