"""Privacy for users: rows within the limit of each, one side of the split, one sentence, one price."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.core.errors import DataError, Inconclusive, InvalidArgument
from reticent.core.keys import Keys
from reticent.data.domain import Domain, Integer, Label, Number
from reticent.data.encoding import feature_names
from reticent.data.files import open_table
from reticent.data.held_out import Split
from reticent.ledger import Ledger
from reticent.mechanisms.events import Gaussian
from reticent.runs import public_domain
from reticent.runs.attacks.membership import attack_run
from reticent.runs.attacks.pool import pool_of
from reticent.runs.fit import fit
from reticent.runs.folder import read_domain, read_record
from reticent.runs.methods import pate
from reticent.runs.methods.table import read
from reticent.runs.reopen import open_again
from reticent.runs.request import Request
from reticent.runs.users import RowsOfUsers, UserSplit, _is_among_first
from reticent.synthetic import pipeline
from reticent.synthetic.generators import Generator
from reticent.synthetic.quality.evaluation import evaluate
from reticent.synthetic.request import SynthRequest
from reticent.synthetic.tables import column_pairs, planning, table_model
from reticent.synthetic.tables.marginals import measure

USERS, EACH = 120, 5


def write_visits(folder: Path, users: int = USERS, each: int = EACH) -> Path:
    """A table of visits: the rows of a user are spread over it."""
    random = np.random.default_rng(0)
    lines = []
    for visit in range(each):
        for user in range(users):
            a = random.normal(user % 2, 0.3)
            lines.append(f"P-{user:04d},{a:.3f},{(user * 7 + visit) % 50},{'yes' if user % 2 else 'no'}")
    path = folder / "visits.csv"
    path.write_text("\n".join(["patient,a,b,target", *lines]) + "\n")
    columns = {
        "patient": Integer(bounds=(0, 9999)),  # whoever declares it does not make it a feature
        "a": Number(bounds=(-1.0, 2.0)),
        "b": Number(bounds=(0.0, 50.0)),
        "target": Label(values=("no", "yes")),
    }
    Domain(columns=columns, target="target").write(folder / "visits.toml")
    return path


def request_for(path: Path, rows_per_user: int = 3, **changes: object) -> Request:
    given: dict[str, object] = {
        "source": str(path),
        "epsilon": 6.0,
        "target": "target",
        "domain": str(path.with_suffix(".toml")),
        "method": "gd",
        "user": "patient",
        "rows_per_user": rows_per_user,
    }
    return Request(**(given | changes))  # pyright: ignore[reportArgumentType]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.integers(1, 4), st.integers(0, 4))
def test_which_rows_of_a_user_count_depends_on_nobody_else(owners: list[int], most: int, gone: int) -> None:
    whole = np.array(owners)
    kept = _is_among_first(whole, most)
    assert all(kept[whole == user].sum() == min((whole == user).sum(), most) for user in set(owners))
    stay = whole != gone
    assert np.array_equal(kept[stay], _is_among_first(whole[stay], most))


def test_a_table_of_users_has_their_first_rows_and_not_their_names(tmp_path: Path) -> None:
    table = RowsOfUsers(open_table(write_visits(tmp_path)), "patient", 2)
    assert table.names == ("a", "b", "target")
    assert (table.row_count, table.user_count, table.dropped_rows) == (2 * USERS, USERS, 3 * USERS)
    cells = [cell for rows in table.batches(["b"]) for cell in rows.batch.column("b").to_pylist()]
    assert cells == [f"{(user * 7 + visit) % 50}" for visit in range(2) for user in range(USERS)]
    assert table.with_one_row_each().row_count == USERS
    assert table.place(USERS) == open_table(table.path).place(USERS)


def test_a_row_without_a_user_is_named(tmp_path: Path) -> None:
    path = write_visits(tmp_path)
    path.write_text(path.read_text().replace("P-0003", "", 1))
    with pytest.raises(DataError, match=r"line 5.*'patient' does not say whose row it is"):
        RowsOfUsers(open_table(path), "patient", 2)


def test_all_rows_of_a_user_are_on_one_side() -> None:
    users = np.tile(np.arange(50), 4)
    split = UserSplit(Split(share=0.3, seed=1), users)
    held = split.is_held_out(0, 200)
    assert 0 < held.sum() < 200
    assert not set(users[held]) & set(users[~held])
    assert np.array_equal(np.concatenate([split.is_held_out(0, 70), split.is_held_out(70, 130)]), held)
    assert split.count_trained_on(10, 100) == 100 - held[10:110].sum()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("users")
    path = write_visits(folder)
    with Ledger.create(folder / "l.ledger") as ledger:
        ledger.limit("visits", epsilon=10.0, delta=1e-2, unit="user")
        ledger.limit("rows", epsilon=10.0, delta=1e-2)
    request = request_for(path, ledger=str(folder / "l.ledger"), dataset="visits")
    fit(request, folder / "run", keys=Keys.seeded(0))
    return folder / "run"


def test_the_promise_is_for_a_user_with_all_of_their_rows(run: Path) -> None:
    record = read_record(run)
    said = str(record.result.guarantee)
    assert "adding or removing one user with up to 3 rows" in said
    assert f"the number of users, {USERS}, is public" in said
    assert "all rows of one user have the same 'patient'" in said
    assert (record.records, record.request.unit) == (USERS, "user")
    plan = read(record.recipe).plan  # pyright: ignore[reportAttributeAccessIssue]
    assert (plan.unit, plan.rows_per_user, plan.sampler.examples) == ("user", 3, USERS)


def test_the_ledger_knows_that_it_was_a_user(run: Path, tmp_path: Path) -> None:
    with Ledger.open(run.parent / "l.ledger") as ledger:
        account = ledger.account("visits")
        assert (account.limit.unit, account.charges) == ("user", 1)
    request = request_for(run.parent / "visits.csv", ledger=str(run.parent / "l.ledger"), dataset="rows")
    with pytest.raises(InvalidArgument, match="protects a record, and this release a user"):
        fit(request, tmp_path / "run", keys=Keys.seeded(0))


def test_the_column_of_users_is_never_a_feature(run: Path) -> None:
    domain = read_domain(run)
    assert domain is not None
    assert set(feature_names(domain)) == {"a", "b"}


def test_an_attack_plays_with_one_row_of_each_user_and_without_shadows(run: Path) -> None:
    again = open_again(run)
    assert again.users is not None
    assert again.users.held_out is not None
    assert not set(again.users.train_on) & set(again.users.held_out)
    assert len(again.train_on["y"]) == 3 * len(set(again.users.train_on))
    pool = pool_of(again)
    for rows, users in ((pool.members, again.users.train_on), (pool.outsiders, again.users.held_out)):
        assert len(set(users[rows])) == len(rows)
    assert not attack_run(again, shadows=4).to_json().get("shadows")


def test_an_additive_model_of_users_is_trained_and_promised(run: Path, tmp_path: Path) -> None:
    fit(request_for(run.parent / "visits.csv", method="auto"), tmp_path / "run", keys=Keys.seeded(0))
    record = read_record(tmp_path / "run")
    assert record.recipe.method == "additive"
    assert "adding or removing one user with up to 3 rows" in str(record.result.guarantee)
    assert record.result.metrics["accuracy"] > 0.75


@pytest.mark.parametrize("method", ["output", "objective", "exponential", "descent"])
def test_methods_without_a_proof_for_users_refuse_and_one_row_each_is_proved(
    tmp_path: Path, method: str
) -> None:
    path = write_visits(tmp_path)
    with pytest.raises(InvalidArgument, match="not proved for users with 3 rows each"):
        fit(request_for(path, method=method), tmp_path / "run", keys=Keys.seeded(0))
    assert not (tmp_path / "run").exists()
    if method == "output":
        fit(request_for(path, 1, method=method), tmp_path / "run", keys=Keys.seeded(0))
        sentence = str(read_record(tmp_path / "run").result.guarantee)
        assert "one user with up to 1 row " in sentence
        assert len(open_again(tmp_path / "run").train_on["y"]) < USERS


def test_preparation_counts_one_row_of_each_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_visits(tmp_path, users=600, each=3)
    seen = []

    def watched(table, *_, **__):
        seen.append(table.row_count)
        raise Inconclusive("nothing was found.", remedy="")

    monkeypatch.setattr(public_domain, "prepare", watched)
    with pytest.raises(Inconclusive):
        fit(request_for(path, epsilon=30.0, domain=None), tmp_path / "run", keys=Keys.seeded(0))
    assert seen == [600]


def test_teachers_of_pate_share_no_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partition, seen = pate.partition, []

    def watched(rows, teachers, **named):
        seen.append((rows, named["examples"], named["users"], partition(rows, teachers, **named)))
        raise DataError("enough is seen.", remedy="")

    monkeypatch.setattr(pate, "partition", watched)
    request = request_for(
        write_visits(tmp_path), method="pate", public="held-out", teachers=3, test=0.4, epsilon=20.0
    )
    with pytest.raises(DataError, match="enough is seen"):
        fit(request, tmp_path / "run", keys=Keys.seeded(0))
    ((rows, room, users, shards),) = seen
    assert rows == 3 * len(set(users))
    assert room == 3 * 72  # public: three rows of each of the users who are expected to be trained on
    owners = [set(users[own]) for own in shards]
    assert sum(map(len, owners)) == len(set(users))
    assert read(read_record(tmp_path / "run").recipe).rows_per_user == 3  # pyright: ignore[reportAttributeAccessIssue]


def test_a_user_without_a_limit_is_refused(tmp_path: Path) -> None:
    path = write_visits(tmp_path)
    with pytest.raises(InvalidArgument, match="how many rows of each"):
        request_for(path, rows_per_user=None)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidArgument, match="cannot be the target"):
        request_for(path, user="target")
    with pytest.raises(InvalidArgument, match="of the catalog has no column"):
        fit(request_for(Path("digits"), domain=None, target=None), tmp_path / "run")


def test_counts_of_users_have_as_many_times_the_noise() -> None:
    """The deviation of 5,000 noisy zeros: within 10% of it, but for once in 10^20."""
    codes, found = np.zeros((0, 1), np.int32), []
    for each in (1, 4):
        random = np.random.default_rng(each)
        measured = measure(codes, (0,), (5000,), Gaussian(noise_multiplier=3.0), random, rows_per_user=each)
        assert measured.deviation == 3.0 * each
        found.append(float(np.std(measured.counts)))
    assert found == pytest.approx([3.0, 12.0], rel=0.1)


def test_a_generator_chooses_and_counts_by_users(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = np.random.default_rng(0).integers(0, 2, (2000, 3)).astype(np.int32)
    asked = planning.plan((2, 2, 2), 2000, 3.0, 1e-6, rows_per_user=4)
    assert planning.TablePlan.read(asked.to_json()) == asked
    alone = planning.plan((2, 2, 2), 2000, 3.0, 1e-6)
    assert asked.event == alone.event
    changes, deviations = [], []
    choose, count = column_pairs.choose_at, table_model.measure

    def watch_choice(*given, max_change, **named):
        changes.append(max_change)
        return choose(*given, max_change=max_change, **named)

    def watch_count(*given, **named):
        deviations.append(count(*given, **named).deviation)
        return count(*given, **named)

    monkeypatch.setattr(column_pairs, "choose_at", watch_choice)
    monkeypatch.setattr(table_model, "measure", watch_count)
    table_model.fit(codes, asked, keys=Keys.seeded(0))
    assert set(changes) == {4.0}
    multipliers = [event.noise_multiplier for event in asked.releases if isinstance(event, Gaussian)]
    assert deviations == pytest.approx([4 * multiplier for multiplier in multipliers])


def test_a_synthetic_table_is_for_users_too(tmp_path: Path) -> None:
    path = write_visits(tmp_path, users=300)
    request = SynthRequest(
        source=str(path),
        epsilon=20.0,
        domain=str(path.with_suffix(".toml")),
        method="mst",
        test=0.2,
        user="patient",
        rows_per_user=2,
    )
    pipeline.make(request, tmp_path / "g", keys=Keys.seeded(0))
    generator = Generator(tmp_path / "g")
    assert "one user with up to 2 rows" in str(generator.record.result.guarantee)
    assert "patient" not in generator.coder.names
    assert generator.model.plan.rows_per_user == 2
    assert generator.record.records == 600
    assert evaluate(generator)["self-test"]["has_passed"]
