"""`reticent ledger`: what it prints, what it refuses, and with which exit code."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path

import pytest

from reticent.accounting.tight_epsilon import tight
from reticent.ledger.cost import round_up
from reticent.ledger.ledger import Ledger
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import (
    Composed,
    Gaussian,
    Laplace,
    NonPrivate,
    PureDp,
    Repeated,
    TruncatedPoissonSampled,
)

STEP = TruncatedPoissonSampled(
    rate=0.01, capacity=1100, examples=60_000, event=Gaussian(noise_multiplier=1.1)
)
CHARGED = (
    Repeated(event=STEP, times=1000),
    Composed(events=(Gaussian(noise_multiplier=30.0), PureDp(epsilon=0.01))),
)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger in which something was charged, in a terminal wide enough to show it on one line."""
    monkeypatch.setenv("COLUMNS", "200")
    path = tmp_path / "clinic.ledger"
    with Ledger.create(path) as ledger:
        ledger.limit("patients", epsilon=3.0, delta=1e-6)
        ledger.limit("visits", epsilon=1.0, delta=1e-7, unit="user", adaptive=True)
        for name, event in [
            *(("patients", event) for event in CHARGED),
            ("visits", Gaussian(noise_multiplier=40.0)),
        ]:
            ledger.for_dataset(name, unit="user" if name == "visits" else None).charge(
                event, adjacency=Adjacency.ADD_OR_REMOVE, purpose="a model"
            )
    return path


# init


def test_init_makes_a_ledger_once(reticent, tmp_path: Path):
    path = tmp_path / "new.ledger"
    code, out, err = reticent("ledger", "init", path)
    assert (code, err) == (0, "")
    assert "is an empty ledger" in out
    assert Ledger.open(path).verify().entries == 1
    code, out, err = reticent("ledger", "init", path)
    assert (code, out) == (1, "")
    assert err.endswith("a ledger is never overwritten.\n")
    assert err.count("\n") == 1


def test_init_speaks_json(reticent, tmp_path: Path):
    code, out, _ = reticent("ledger", "init", tmp_path / "new.ledger", "--json")
    assert code == 0
    assert {"id", "head", "path"} == set(json.loads(out))


# limit


def test_limit_enters_a_dataset_and_raises_its_limit(reticent, path: Path):
    assert reticent("ledger", "limit", path, "others", "--epsilon", 2, "--delta", "1e-6") == (
        0,
        "others may spend epsilon 2 at delta 1e-06, for adding or removing one record; planned.\n",
        "",
    )
    words = [
        "--epsilon",
        4,
        "--delta",
        "1e-6",
        "--adjacency",
        "replace",
        "--unit",
        "user",
        "--adaptive",
        "--json",
    ]
    code, out, _ = reticent("ledger", "limit", path, "others", *words)
    limit = json.loads(out)["limit"]
    assert code == 0
    assert (limit["epsilon"], limit["adjacency"], limit["unit"]) == (4.0, "replace", "user")
    assert len(limit["filters"]) == 3


def test_a_limit_below_what_is_spent_is_refused_by_the_budget(reticent, path: Path):
    code, out, err = reticent("ledger", "limit", path, "patients", "--epsilon", 1, "--delta", "1e-6")
    assert (code, out) == (3, "")
    assert "more than the new limit (1, 1e-06) holds" in err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--epsilon", "0", "--delta", "1e-6"], "epsilon must be a positive number"),
        (["--epsilon", "1", "--delta", "2"], "delta must be strictly between 0 and 1"),
        (["--epsilon", "1"], "Missing option '--delta'"),
        (["--epsilon", "9", "--delta", "1e-6", "--unit", "users"], "Did you mean 'user'?"),
        (["--epsilon", "9", "--delta", "1e-6", "--adjacency", "replace"], "cannot become replace"),
        (["--epsilon", "9", "--delta", "1e-6", "--adaptive"], "is planned and cannot become adaptive"),
    ],
)
def test_a_limit_that_cannot_be_gets_one_line(reticent, path: Path, words: list[str], complaint: str):
    code, out, err = reticent("ledger", "limit", path, "patients", *words)
    assert (code, out) == (1, "")
    assert complaint in err
    assert err.count("\n") == 1


# show


def test_show_lists_what_is_spent_and_allowed(reticent, path: Path):
    code, out, err = reticent("ledger", "show", path)
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "It has no owner: anyone who may write to it may also raise limits."
    patients, visits = (line.split() for line in out.splitlines()[2:-1])
    spent = tight(Composed(events=CHARGED), 1e-6).upper
    assert patients[:5] == ["patients", f"{round_up(spent):g}", "3", "1e-06", "2"]
    assert float(patients[1]) >= spent
    assert visits[0] == "visits"
    assert visits[1].endswith("%")
    assert visits[-2:] == ["user", "adaptive"]


def test_show_one_tells_its_history_the_sentence_and_what_still_fits(reticent, path: Path):
    code, out, err = reticent("ledger", "show", path, "patients")
    assert (code, err) == (0, "")
    assert re.search(r" limit +epsilon 3, delta 1e-06 \(add-or-remove, record, planned\)", out)
    alone = round_up(tight(CHARGED[1], 1e-6).upper)
    assert re.search(rf" charge +{alone:g} +0 +a model: gaussian\(noise_multiplier 30\)", out)
    assert "a model: 1,000 x truncated_poisson_sampled(gaussian(noise_multiplier 1.1), capacity 1100, " in out
    assert "a model: gaussian(noise_multiplier 30) + pure_dp(epsilon 0.01)" in out
    assert f"Together: ({tight(Composed(events=CHARGED), 1e-6).upper:.2f}" in out
    assert "was not decided by looking at earlier results" in out
    assert "still fits" in out


def test_show_one_that_is_adaptive_says_so(reticent, path: Path):
    _, out, _ = reticent("ledger", "show", path, "visits")
    assert "Renyi filters at orders" in out
    assert "of what its filters allow is spent." in out


def test_a_long_history_is_cut_to_its_end(reticent, path: Path):
    with Ledger.open(path) as ledger:
        for _ in range(45):
            ledger.for_dataset("patients").charge(
                Gaussian(noise_multiplier=500.0), adjacency=Adjacency.ADD_OR_REMOVE, purpose="a count"
            )
    _, out, err = reticent("ledger", "show", path, "patients")
    assert out.count("a count: ") == 40
    assert err == "These are the last 40 of 48 entries; --json shows all.\n"


def test_content_is_fixed_renewed_and_never_under_two_names(reticent, path: Path, tmp_path: Path):
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    old.write_text("age\n1\n")
    new.write_text("age\n1\n2\n")
    assert reticent("ledger", "new-version", path, "patients", old, "--reason", "first") == (
        0,
        f"patients is {old} from now on: version 1.\n",
        "",
    )
    code, out, _ = reticent("ledger", "new-version", path, "patients", new, "--reason", "grew", "--json")
    assert (code, json.loads(out)["version"]) == (0, 2)
    code, out, err = reticent("ledger", "new-version", path, "visits", old, "--reason", "first")
    assert (code, out) == (1, "")
    assert "in the ledger already, as 'patients'" in err
    assert err.endswith("Charge 'patients' instead.\n")  # 'visits' has a charge, and cannot be another name
    _, out, _ = reticent("ledger", "show", path, "patients")
    assert "version 2: grew" in out
    code, _, err = reticent("ledger", "new-version", path, "patients", tmp_path / "no.csv", "--reason", "x")
    assert code == 1
    assert "Cannot read" in err


def test_an_alias_shows_the_budget_that_it_shares(reticent, path: Path):
    assert reticent("ledger", "alias", path, "admissions", "--same-rows-as", "patients") == (
        0,
        "admissions is another name of patients: both spend from one budget.\n",
        "",
    )
    one, other = (
        json.loads(reticent("ledger", "show", path, name, "--json")[1]) for name in ("patients", "admissions")
    )
    assert one == other
    code, out, _ = reticent("ledger", "alias", path, "wards", "--same-rows-as", "visits", "--json")
    assert json.loads(out)["dataset"] == "visits"
    code, _, err = reticent("ledger", "alias", path, "visits", "--same-rows-as", "patients")
    assert code == 1
    assert "1 charges of its own" in err or "other names of its own" in err


def test_an_owner_alone_raises_limits(reticent, tmp_path: Path):
    path, key, other = tmp_path / "new.ledger", tmp_path / "owner.key", tmp_path / "other.key"
    code, out, _ = reticent("ledger", "init", path, "--owner-key", key, "--json")
    public = json.loads(out)["owner"]
    assert (code, key.stat().st_mode & 0o777) == (0, 0o600)
    words = ("ledger", "limit", path, "patients", "--epsilon", 2, "--delta", "1e-6")
    code, out, err = reticent(*words)
    assert (code, out) == (1, "")
    assert "has an owner, who alone may change limits" in err
    assert reticent(*words, "--owner-key", key)[0] == 0
    reticent("ledger", "init", tmp_path / "another.ledger", "--owner-key", other)
    assert "This key is not that of the owner" in reticent(*words[:5], 9, *words[6:], "--owner-key", other)[2]
    assert f"Every limit is signed by the owner, {public}." in reticent("ledger", "show", path)[1]
    code, out, _ = reticent("ledger", "verify", path, "--owner", public, "--json")
    assert (code, json.loads(out)["owner"]) == (0, public)
    code, out, err = reticent("ledger", "verify", path, "--owner", "0" * 64)
    assert (code, out) == (1, "")
    assert f"has the owner {public}, not 000" in err


def test_a_key_that_was_made_for_a_ledger_goes_with_it(reticent, path: Path, tmp_path: Path):
    assert reticent("ledger", "init", path, "--owner-key", tmp_path / "owner.key")[0] == 1
    assert not (tmp_path / "owner.key").exists()


def test_show_of_an_empty_ledger_says_what_is_next(reticent, tmp_path: Path):
    Ledger.create(tmp_path / "new.ledger").close()
    code, out, _ = reticent("ledger", "show", tmp_path / "new.ledger")
    assert code == 0
    assert "no datasets yet" in out


def test_a_charge_of_very_many_different_parts_is_shown_without_the_slow_accountant(
    reticent, path: Path, monkeypatch: pytest.MonkeyPatch
):
    parts = tuple(Laplace(noise_multiplier=5000.0 + number) for number in range(70))
    with Ledger.open(path) as ledger:
        ledger.limit("wards", epsilon=3.0, delta=1e-6)
        ledger.for_dataset("wards").charge(
            Composed(events=parts), adjacency=Adjacency.ADD_OR_REMOVE, purpose="a survey"
        )
        exact = tight(Composed(events=parts), 1e-6, Adjacency.ADD_OR_REMOVE).upper

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the slow accountant")

    for name in ("cost.tight", "cost.upper_bound", "cost.cost_within"):
        monkeypatch.setattr(f"reticent.ledger.{name}", refuse)
    monkeypatch.setattr("reticent.accounting.tight_epsilon.upper_bound", refuse)
    code, out, _ = reticent("ledger", "show", path, "wards")
    assert code == 0
    assert re.search(r"charge +\? +\? +a survey: laplace", out)
    monkeypatch.undo()
    code, out, _ = reticent("ledger", "show", path, "wards", "--json")
    assert exact <= json.loads(out)["guarantee"]["epsilon"] <= 3.0
    assert json.loads(out)["guarantee"]["accountant"] == "renyi"


@pytest.mark.parametrize("purpose", [None, ["a model"], "a\x1b[2Jmodel"])
def test_a_charge_by_hand_without_a_purpose_is_one_line(reticent, path: Path, purpose: object):
    event = {"kind": "gaussian", "noise_multiplier": 40.0}
    values = {"dataset": "patients", "purpose": purpose, "version": 1, "event": event}
    with Ledger.open(path) as ledger, ledger._store.writing() as transaction:
        transaction.append(ledger._accounts.head, "charge", values)
    for words in (("show", path, "patients"), ("show", path), ("verify", path)):
        code, out, err = reticent("ledger", *words)
        assert code != 0
        assert out == ""
        assert "makes no sense (its purpose is not a line of text)" in " ".join(err.split())


def test_show_speaks_json(reticent, path: Path):
    code, out, _ = reticent("ledger", "show", path, "--json")
    assert code == 0
    patients, visits = json.loads(out)["datasets"]
    assert patients["guarantee"]["epsilon"] <= patients["limit"]["epsilon"]
    assert visits["guarantee"]["epsilon"] == visits["limit"]["epsilon"]
    code, out, _ = reticent("ledger", "show", path, "patients", "--json")
    shown = json.loads(out)
    assert [entry["kind"] for entry in shown["history"]] == ["limit", "charge", "charge"]
    assert shown["still_fits"]["noise_multiplier"] > 1


def test_an_unknown_dataset_gets_a_suggestion(reticent, path: Path):
    code, out, err = reticent("ledger", "show", path, "patient")
    assert (code, out) == (1, "")
    assert err.endswith("has no dataset 'patient'. Did you mean 'patients'?\n")


# verify


def test_verify_prints_the_head_and_finds_it_again(reticent, path: Path):
    code, out, err = reticent("ledger", "verify", path)
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == f"{path} is intact: 6 entries."
    head = out.splitlines()[1].removeprefix("head ")
    reticent("ledger", "limit", path, "others", "--epsilon", 2, "--delta", "1e-6")
    code, out, _ = reticent("ledger", "verify", path, "--head", head)
    assert code == 0
    assert "is in it, 1 entry before the last" in out
    code, out, _ = reticent("ledger", "verify", path, "--head", head, "--json")
    assert json.loads(out)["entries_since"] == 1


def test_verify_fails_on_another_head_and_on_a_broken_chain(reticent, path: Path):
    code, out, err = reticent("ledger", "verify", path, "--head", "0" * 64)
    assert (code, out) == (1, "")
    assert "clinic.ledger, which has 6, has the hash 000" in err
    connection = sqlite3.connect(path)
    connection.execute("DROP TRIGGER never_update")
    connection.execute("UPDATE entries SET payload = replace(payload, '1000', '1') WHERE sequence = 4")
    connection.commit()
    connection.close()
    code, out, err = reticent("ledger", "verify", path)
    assert (code, out) == (1, "")
    assert "is broken" in err
    assert err.count("\n") == 1


# export


def test_export_writes_every_entry_and_overwrites_nothing(reticent, path: Path, tmp_path: Path):
    target = tmp_path / "clinic.json"
    code, out, err = reticent("ledger", "export", path, "-o", target)
    assert (code, err) == (0, "")
    assert out == f"6 entries of {path} written to {target}.\n"
    written = json.loads(target.read_text())
    assert [entry["sequence"] for entry in written["entries"]] == [1, 2, 3, 4, 5, 6]
    assert "exists already" in reticent("ledger", "export", path, "-o", target)[2]
    assert json.loads(reticent("ledger", "export", path)[1]) == written
    code, out, _ = reticent("ledger", "export", path, "-o", tmp_path / "again.json", "--json")
    assert json.loads(out)["head"] == written["head"]


def test_export_to_nowhere_is_one_line(reticent, path: Path, tmp_path: Path):
    code, out, err = reticent("ledger", "export", path, "-o", tmp_path / "nosuch" / "clinic.json")
    assert (code, out) == (1, "")
    assert "Cannot write" in err


# Every command, on what is no ledger


@pytest.mark.parametrize(
    "words",
    [["show"], ["verify"], ["export"], ["limit", "patients", "--epsilon", "1", "--delta", "1e-6"]],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize(
    ("content", "complaint"),
    [(None, "There is no ledger at"), (b"age\n1\n" * 200, "is not a ledger of reticent")],
)
def test_no_ledger_is_one_line(
    reticent, tmp_path: Path, words: list[str], content: bytes | None, complaint: str
):
    path = tmp_path / "x.ledger"
    if content:
        path.write_bytes(content)
    code, out, err = reticent("ledger", words[0], path, *words[1:])
    assert (code, out) == (1, "")
    assert complaint in err
    assert err.count("\n") == 1
    assert path.exists() == bool(content)


def test_an_infinite_cost_never_gets_into_a_ledger(path: Path):
    with Ledger.open(path) as ledger, pytest.raises(Exception, match="past its limit") as refused:
        ledger.for_dataset("patients").charge(
            NonPrivate(), adjacency=Adjacency.ADD_OR_REMOVE, purpose="all of it"
        )
    assert getattr(refused.value, "exit_code", None) == 3


def test_a_release_that_was_made_elsewhere_is_charged_by_hand(reticent, path: Path, tmp_path: Path):
    event = tmp_path / "e.json"
    event.write_text(
        '{"kind": "approximate_dp", "epsilon": 0.1, "delta": 1e-8, "adjacency": "add-or-remove"}'
    )
    with Ledger.open(path) as ledger:
        before = ledger.account("patients").charges
    words = ("ledger", "charge", path, "patients", "--event", event, "--purpose", "a survey")
    code, out, err = reticent(*words)
    assert code == 0, err
    assert "Charged to patients" in out
    with Ledger.open(path) as ledger:
        assert ledger.account("patients").charges == before + 1
    shown = reticent("ledger", "show", path, "patients")[1]
    assert "epsilon alone" in shown
    assert re.search(r"charge +0\.1 +1e-08 +a survey", shown), shown
    assert (
        reticent("ledger", "limit", path, "users", "--epsilon", 1, "--delta", 1e-6, "--unit", "user")[0] == 0
    )
    by_user = ("ledger", "charge", path, "users", "--event", event, "--purpose", "a survey")
    assert "--unit user" in reticent(*by_user)[2]
    assert "protects a user, and this release a record" in reticent(*by_user, "--unit", "record")[2]
    assert "is not known" in reticent(*by_user, "--unit", "house")[2]
    assert reticent(*by_user, "--unit", "user")[0] == 0
    event.write_text('{"kind": "approximate_dp", "epsilon": 1e9, "delta": 0.5}')
    code, out, err = reticent(*words)
    assert (code, out) in ((1, ""), (3, "")), err
    assert err.count("\n") == 1


@pytest.mark.parametrize("content", [None, "", "{", "[]", '{"kind": "magic"}', '{"kind": "gaussian"}'])
def test_what_is_no_event_is_not_charged(reticent, path: Path, tmp_path: Path, content: str | None):
    event = tmp_path / "e.json"
    if content is not None:
        event.write_text(content)
    code, out, err = reticent("ledger", "charge", path, "patients", "--event", event, "--purpose", "x")
    assert (code, out) == (1, ""), err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
