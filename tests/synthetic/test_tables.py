"""Plans and fits: what is planned is drawn, it costs what was asked for, and it finds what is there."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from reticent.accounting.loss_distribution.dominating import flatten
from reticent.accounting.tight_epsilon import tight
from reticent.audit.bounds import many_runs
from reticent.core.errors import (
    BudgetExceeded,
    CannotMeet,
    DataError,
    IntegrityError,
    InvalidArgument,
    KeyReuse,
)
from reticent.core.keys import Keys
from reticent.mechanisms.events import Gaussian
from reticent.synthetic.quality.utility import distances
from reticent.synthetic.tables import column_pairs, table_model
from reticent.synthetic.tables.marginals import Marginal, count, measure
from reticent.synthetic.tables.planning import TablePlan
from reticent.synthetic.tables.table_model import TableModel, fit, plan

SIZES = (3, 4, 2, 5, 2)


def chain(rows: int, seed: int = 0) -> np.ndarray:
    """Columns of which each mostly repeats the one before."""
    source = np.random.default_rng(seed)
    columns = [source.choice(SIZES[0], rows, p=[0.5, 0.3, 0.2])]
    for size in SIZES[1:]:
        fresh = source.integers(0, size, rows)
        columns.append(np.where(source.random(rows) < 0.8, columns[-1] % size, fresh))
    return np.stack(columns, axis=1).astype(np.int32)


def planned(method: str = "auto", target: int | None = None, **changes) -> TablePlan:
    asked = {"sizes": SIZES, "rows": 4000, "epsilon": 1.0, "delta": 1e-6} | changes
    return plan(**asked, method=method, target=target)


CASES = [("mst", None), ("mst", 4), ("aim", None), ("aim", 2), ("auto", 0)]


# The plan


@pytest.mark.parametrize(("method", "target"), CASES)
def test_a_plan_costs_what_was_asked_for(method: str, target: int | None) -> None:
    found = planned(method, target)
    assert 0.99 < tight(found.whole, 1e-6).upper <= 1.0
    assert TablePlan.read(found.to_json()) == found


def test_what_is_beside_is_paid_from_the_same_budget() -> None:
    alone, beside = planned(), planned(beside=Gaussian(noise_multiplier=8.0))
    assert tight(beside.whole, 1e-6).upper <= 1.0
    assert beside.single_deviation > alone.single_deviation
    assert TablePlan.read(beside.to_json()) == beside
    assert beside.event != beside.whole


def test_a_strangers_plan_is_refused_in_our_words() -> None:
    found = json.loads(planned().to_json())
    for wrong in (
        "no JSON",
        "[]",
        json.dumps(found | {"sizes": [0]}),
        json.dumps(found | {"rounds": [{"choices": 1}]}),
        json.dumps(found | {"more": 1}),
        json.dumps(found | {"target": 9}),
        json.dumps(found | {"single_deviation": -1.0}),
        json.dumps(found | {"sizes": "many"}),
    ):
        with pytest.raises(InvalidArgument):
            TablePlan.read(wrong)


def test_too_little_epsilon_is_refused_and_what_would_fit_does() -> None:
    with pytest.raises(CannotMeet, match=r"10 rows\. Use an epsilon of about \d") as refused:
        plan((3,) * 5, 10, 1.0, 1e-6)
    needed = float(refused.value.remedy.split("about ")[1].split()[0])
    assert plan((3,) * 5, 10, 1.3 * needed, 1e-6).rows == 10
    with pytest.raises(CannotMeet, match=r"keep at most (\d+) columns") as refused:
        plan((3,) * 60, 200, 1.0, 1e-6)
    fits = int(refused.value.remedy.split("at most ")[1].split()[0])
    assert 0 < fits < 60
    assert plan((3,) * max(fits - 2, 1), 200, 1.0, 1e-6)


@pytest.mark.parametrize(
    "wrong", [{"epsilon": 0.0}, {"delta": 1.0}, {"rows": 0}, {"sizes": ()}, {"method": "x"}]
)
def test_senseless_plans_are_refused(wrong: dict) -> None:
    with pytest.raises(InvalidArgument):
        planned(**wrong)


# What is drawn


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Counter:
    """Every event that a mechanism really used."""
    found: Counter = Counter()
    really_chosen = column_pairs.choose_at

    def measured(codes, columns, sizes, event, source, **rest):
        found[event] += 1
        return measure(codes, columns, sizes, event, source, **rest)

    def chosen(scores, event, source, **rest):
        found[event] += 1
        return really_chosen(scores, event, source, **rest)

    monkeypatch.setattr(table_model, "measure", measured)
    monkeypatch.setattr(column_pairs, "choose_at", chosen)
    return found


@pytest.mark.parametrize(("method", "target"), CASES)
def test_what_is_drawn_is_what_was_planned(drawn: Counter, method: str, target: int | None) -> None:
    asked = planned(method, target)
    fit(chain(4000), asked, keys=Keys.seeded(1))
    assert drawn == Counter(asked.releases)
    joined = flatten(asked.event)  # Gaussians are joined into one there
    choices = {event: times for event, times in drawn.items() if not isinstance(event, Gaussian)}
    assert {event: joined[event] for event in choices} == choices


def test_a_release_that_was_not_paid_for_is_not_made(drawn: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = planned("aim", 4)
    short = asked.releases[:7]
    monkeypatch.setattr(TablePlan, "releases", property(lambda self: short))
    with pytest.raises(BudgetExceeded):
        fit(chain(4000), asked, keys=Keys.seeded(1))
    assert drawn == Counter(short)  # the check comes before the draw, not after it


def single_noise(seed: int) -> float:
    """By how many deviations a model misses the share of a column, at a price where that is visible."""
    codes = np.zeros((1000, 1), np.int32)
    codes[:500] = 1
    asked = plan((2,), 1000, 0.5, 1e-6)
    share = fit(codes, asked, keys=Keys.seeded(seed)).singles()[0][1]
    return (share - 0.5) * 1000 / asked.single_deviation


def has_noise() -> bool:
    """The model halves the difference of two noisy counts: a deviation of about 0.7; far from 0 it is."""
    found = np.array([single_noise(seed) for seed in range(40)])
    return bool(0.35 < found.std() < 1.2)


def test_class_frequencies_are_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert has_noise()

    def exact(codes, columns, sizes, event, source, **_):  # the planted bug: frequencies as they are
        return Marginal(columns, count(codes, columns, sizes), event.noise_multiplier)

    monkeypatch.setattr(table_model, "measure", exact)
    assert not has_noise()


def game(asked: TablePlan, runs: int = 40) -> float:
    """A lower bound on epsilon: one record that nobody resembles, in or out, and the model's view of it."""
    others = np.zeros((asked.rows - 1, 3), np.int32)
    others[: len(others) // 2, 0] = 1
    canary = np.array([[2, 2, 2]], np.int32)
    scores = []
    for with_canary in (True, False):
        codes = np.concatenate([others, canary]) if with_canary else others
        keys = (Keys.seeded(2 * run + with_canary) for run in range(runs))
        scores.append([float(fit(codes, asked, keys=key).log_probabilities(canary)[0]) for key in keys])
    return many_runs(*scores, delta=asked.delta, confidence=0.99).epsilon


@pytest.mark.thorough
def test_no_game_on_the_generator_beats_its_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = plan((3, 3, 3), 120, 0.8, 1e-3, "mst")
    assert game(asked) <= 0.8

    def quiet(codes, columns, sizes, event, source, **_):  # the planted bug: a twentieth of the noise
        found = measure(codes, columns, sizes, Gaussian(noise_multiplier=event.noise_multiplier / 20), source)
        return found._replace(deviation=event.noise_multiplier)

    monkeypatch.setattr(table_model, "measure", quiet)
    assert game(asked) > 0.8


# What is found


@pytest.mark.parametrize(("method", "target"), CASES)
def test_what_depends_on_what_is_found(method: str, target: int | None) -> None:
    codes = chain(4000)
    made = fit(codes, planned(method, target, epsilon=3.0), keys=Keys.seeded(3))
    found = distances(made.sample(4000, 0), codes, SIZES)
    shuffled = np.stack([np.random.default_rng(c).permutation(codes[:, c]) for c in range(5)], axis=1)
    apart = distances(shuffled.astype(np.int32), codes, SIZES)
    assert found.pair_mean < 0.06 < 0.2 < apart.pair_mean
    assert found.single_max < 0.03


def test_rows_of_one_class_are_of_that_class() -> None:
    codes = chain(4000)
    made = fit(codes, planned("auto", 4, epsilon=5.0), keys=Keys.seeded(3))
    for label in (0, 1):
        rows = made.sample(3000, label, given={4: label})
        assert (rows[:, 4] == label).all()
        real = codes[codes[:, 4] == label]
        assert distances(rows[:, :4], real[:, :4], SIZES[:4]).single_max < 0.08
    with pytest.raises(InvalidArgument, match="no code 2 in column 4"):
        made.sample(10, 0, given={4: 2})


def test_columns_of_one_value_of_many_values_and_alone_work() -> None:
    source = np.random.default_rng(0)
    codes = np.stack([np.zeros(2000), source.integers(0, 2, 2000), source.zipf(1.5, 2000) % 300], axis=1)
    sizes = (1, 2, 300)
    made = fit(codes.astype(np.int32), plan(sizes, 2000, 1.0, 1e-6, target=1), keys=Keys.seeded(1))
    rows = made.sample(500, 1)
    assert rows.shape == (500, 3)
    assert made.merging.sizes[2] < 60  # what is too rare to be told apart is counted together
    alone = fit(codes[:, 1:2].astype(np.int32), plan((2,), 2000, 1.0, 1e-6), keys=Keys.seeded(1))
    assert abs(alone.sample(2000, 1).mean() - 0.5) < 0.05


def test_the_same_seed_gives_the_same_rows_and_progress_ends_at_one() -> None:
    seen: list[float] = []
    made = fit(chain(4000), planned(), keys=Keys.seeded(1), on_progress=seen.append)
    assert np.array_equal(made.sample(100, 7), made.sample(100, 7))
    assert not np.array_equal(made.sample(100, 7), made.sample(100, 8))
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_keys_rows_and_codes_are_checked() -> None:
    keys = Keys.seeded(1)
    fit(chain(4000), planned(), keys=keys)
    with pytest.raises(KeyReuse):
        fit(chain(4000), planned(), keys=keys)
    with pytest.raises(DataError, match="for 4000 rows, and there are 8002"):
        fit(chain(8002), planned(), keys=Keys.seeded(2))
    with pytest.raises(DataError, match="outside its column"):
        fit(chain(4000) + 1, planned(), keys=Keys.seeded(2))
    for left in (3999, 300):  # a neighbour is no error, nor are coins that held out many
        assert fit(chain(left), planned(), keys=Keys.seeded(2))


# Its file


def test_a_model_survives_its_file(tmp_path: Path) -> None:
    made = fit(chain(4000), planned("aim", 4), keys=Keys.seeded(1))
    made.save(tmp_path / "model")
    again = TableModel.load(tmp_path / "model")
    assert again.plan == made.plan
    assert np.array_equal(again.sample(200, 3), made.sample(200, 3))
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert b"seed" not in (tmp_path / "model").read_bytes()


def test_a_damaged_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model"
    fit(chain(4000), planned("mst", 4), keys=Keys.seeded(1)).save(path)
    whole = path.read_bytes()
    for damaged in (b"", b"\x80\x04\x95pickle", whole[:200], whole.replace(b'"nodes', b'"knots'), whole[:-8]):
        path.write_bytes(damaged)
        with pytest.raises(IntegrityError, match="not a model of a synthetic table"):
            TableModel.load(path)
    with pytest.raises(DataError, match="Cannot read"):
        TableModel.load(tmp_path / "none")
    with pytest.raises(DataError, match="Cannot write"):
        fit(chain(4000), planned(), keys=Keys.seeded(1)).save(tmp_path / "no folder" / "model")
