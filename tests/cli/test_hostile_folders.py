"""Folders that an adversary made: shown, reported on, attacked, audited and predicted with, without harm."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SECRET = "Eve-must-not-see-this"
ROWS = 400

Change = Callable[[Path, Path], None]


@pytest.fixture(scope="module")
def made(home: Path) -> Path:
    """A folder with a table, a finished run on it, and a file that is nobody's business."""
    (home / "secret").write_text(SECRET)
    return home


def _edit(change: Callable[[dict[str, Any]], Any]) -> Change:
    def edit(run: Path, home: Path) -> None:
        record = json.loads((run / "run.json").read_text())
        change(record)
        (run / "run.json").write_text(json.dumps(record))

    return edit


def _put(name: str, content: bytes) -> Change:
    def put(run: Path, home: Path) -> None:
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_bytes(content)

    return put


def _link(name: str, to: str = "secret") -> Change:
    def link(run: Path, home: Path) -> None:
        path = run / name
        path.parent.mkdir(exist_ok=True)
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        path.symlink_to(home / to)

    return link


def _links(*names: str) -> Change:
    def link(run: Path, home: Path) -> None:
        for name in names:
            _link(name)(run, home)

    return link


def _pipe(name: str) -> Change:
    def pipe(run: Path, home: Path) -> None:
        (run / name).unlink(missing_ok=True)
        os.mkfifo(run / name)

    return pipe


def _set(*path: str, to: Any) -> Change:
    def change(record: dict[str, Any]) -> None:
        for name in path[:-1]:
            record = record[name]
        record[path[-1]] = to

    return _edit(change)


def _grow(name: str) -> Change:
    """Makes a file large for whoever reads all of it; on the disk it takes no room."""

    def grow(run: Path, home: Path) -> None:
        os.truncate(run / name, 3 << 30)

    return grow


def _set_noise(multiplier: float) -> Change:
    event = {"kind": "gaussian", "noise_multiplier": multiplier}
    sampled = {"kind": "truncated_poisson_sampled", "rate": 0.2, "capacity": 196, "examples": 481}
    return _set("event", to={"kind": "repeated", "event": {**sampled, "event": event}, "times": 9})


def _widen(run: Path, home: Path) -> None:
    """Each row would become two hundred megabytes in memory, for a table of thousands."""
    words = ", ".join(f'"w{at}"' for at in range(20_000))
    with (run / "domain.toml").open("a") as domain:
        domain.write(f'\n[columns.words]\nkind = "category"\nvalues = [{words}]\n')


HOSTILE: dict[str, Change] = {
    "a negative epsilon": _set("guarantee", "epsilon", to=-1.0),
    "an epsilon below what was released": _set("guarantee", "epsilon", to=0.5),
    "a smaller delta than was paid for": _set("guarantee", "delta", to=1e-300),
    "a lower bound above the epsilon": _set("guarantee", "epsilon_lower", to=99.0),
    "an event of a huge number of steps": _set("event", to={"type": "Repeated", "times": 10**400}),
    "a sentence of its own": _set("sentence", to="Perfect privacy.\nssh-ed25519 AAAA eve"),
    "escapes in the target": _set("request", "target", to="y\x1b]0;owned\x07"),
    "a secret as the data": lambda run, home: _set("request", "source", to=str(home / "secret"))(run, home),
    "a secret as the ledger": lambda run, home: _set("request", "ledger", to=str(home / "secret"))(run, home),
    "a linked domain": _link("domain.toml"),
    "a linked record": _link("run.json"),
    "a linked model": _link("model.safetensors"),
    "a linked audit": _link("audit.json"),
    "linked attacks": _link("attacks", "."),
    "linked attacks in a private part": _link("private/attacks", "."),
    "a linked audit in a private part": _link("private/audit.json"),
    "a linked private part": _link("private", "."),
    "links where files are written": _links(
        ".report.html.partial", ".report.json.partial", "report.html", "report.json", ".lock"
    ),
    "a sentence among the assumptions": _set("guarantee", "assumptions", to=["a", "b.\n\n(0, 0)-DP"]),
    "a sentence as the accountant": _set("guarantee", "accountant", to="exact). (0.001, 0)-DP ("),
    "a pipe for the record": _pipe("run.json"),
    "a pipe for the domain": _pipe("domain.toml"),
    "a record nested without end": _put("run.json", b"[" * 100_000),
    "a domain nested without end": _put("domain.toml", b"a = " + b"[" * 100_000),
    "an audit nested without end": _put("audit.json", b"[" * 100_000),
    "a private audit of other things": _put("private/audit.json", b'{"epsilon": "\\u001b[2J", "verdict": 7}'),
    "an audit of other things": _put("audit.json", b'{"epsilon": "\\u001b[2J", "verdict": 7}'),
    "attacks of other things": _put("attacks/attack.json", b'{"membership": [1, {"a": null}]}'),
    "a model that claims to be large": _put("model.safetensors", b"\xff" * 7 + b"\x0f" + b"{}"),
    "a model of three gigabytes": _grow("model.safetensors"),
    "a record of three gigabytes": _grow("run.json"),
    "a domain of three gigabytes": _grow("domain.toml"),
    "a record of many lists": _put("run.json", b"[" + b"[[]]," * 800_000 + b"0]"),
    "a domain of a key without end": _put("domain.toml", b"a." * 200_000 + b"a = 1"),
    "an audit of a number without end": _put(
        "audit.json", b'{"verdict": {"outcome": "CONSISTENT", "bound": ' + b"9" * 400 + b"}}"
    ),
    "a domain of more features than the model takes": _widen,
    "noise that floats hardly hold": _set_noise(1e-320),
    "numbers beyond floats": _put("run.json", b'{"version": 4, "state": "finished", "rows": 1e999}'),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_folder_does_no_harm(made: Path, reticent, tmp_path: Path, name: str) -> None:
    home, run = tmp_path, tmp_path / "from-eve"
    shutil.copytree(made / "run", run)
    for file in ("secret", "t.csv"):
        shutil.copy(made / file, home)
    shutil.rmtree(run / "private")  # what Eve has is not signed by its reader
    HOSTILE[name](run, home)
    for words in (
        ("show", run),
        ("report", run),
        ("attack", run, "--attacks", "gap"),
        ("audit", run),
        ("predict", run, home / "t.csv"),
        ("compare", run, made / "run"),
        ("train", "--resume", run),
        ("report", run, "-o", home / "r.html", "--force"),
    ):
        code, out, err = reticent(*words)
        assert code in (0, 1), (words, err)
        assert "\x1b]" not in out + err
        assert SECRET not in out + err, words
        if code:
            assert err.count("\n") == 1, (words, err)
            assert "Traceback" not in err
            assert "bug" not in err, (words, err)
    assert (home / "secret").read_text() == SECRET
    assert (home / "secret").stat().st_mode & 0o777 == (made / "secret").stat().st_mode & 0o777
    for written in (path for path in home.rglob("*.html") if not path.is_symlink()):
        text = written.read_text()
        assert SECRET not in text
        assert "ssh-ed25519" not in text
        assert "\x1b" not in text


def test_a_large_model_is_refused_before_it_is_read(made: Path, reticent, tmp_path: Path) -> None:
    shutil.copytree(made / "run", run := tmp_path / "run")
    _grow("model.safetensors")(run, made)
    code, _, err = reticent("predict", run, made / "t.csv")
    assert (code, "holds other tensors than the model of this run" in err) == (1, True), err


def test_a_sentence_in_an_audit_is_not_repeated(made: Path, reticent, tmp_path: Path) -> None:
    shutil.copytree(made / "run", run := tmp_path / "run")
    forged = {"verdict": {"outcome": "no leak: epsilon 0.01 for certain", "bound": float("nan")}}
    (run / "audit.json").write_text(json.dumps(forged))
    code, out, err = reticent("compare", run, made / "run")
    assert (code, out, "audit.json is not what attack or audit writes" in err) == (1, "", True), err
    assert "for certain" not in err


def test_a_promise_that_claims_less_than_was_released_is_not_repeated(
    made: Path, reticent, tmp_path: Path
) -> None:
    shutil.copytree(made / "run", tmp_path / "run")
    for name, says in (("epsilon", "it was changed"), ("delta", "it was changed")):
        folder = tmp_path / name
        shutil.copytree(made / "run", folder)
        _set("guarantee", name, to={"epsilon": 1.0, "delta": 1e-200}[name])(folder, made)
        for command in ("show", "report"):
            code, _, err = reticent(command, folder)
            assert (code, says in err) == (1, True), err
    assert reticent("show", tmp_path / "run")[0] == 0


FORGED: dict[str, tuple[Change, str]] = {
    "a recipe in other words": (_set("recipe", "in_words", to="hardly any noise"), "described as something"),
    "a recipe of another price": (_set("recipe", "epsilon", to=0.5), "does not release what its event says"),
    "an event of another price": (_set("event", "epsilon", to=1.0), "does not release what its event says"),
    "a promise for users": (_set("guarantee", "unit", to="user"), "the promise is for one user"),
    "a promise for groups": (_set("guarantee", "group", to=0), "is damaged"),
    "a request for less": (_set("request", "epsilon", to=0.5), "epsilon 0.5 was requested and 2 is promised"),
    "a request of another delta": (_set("request", "delta", to=1e-9), "delta 1e-09 was requested"),
    "a request of another method": (_set("request", "method", to="sgd"), "'sgd' was requested"),
    "more rows trained on than there are": (
        _set("rows", to=10**6),
        "it was trained on 1,000,000 of 400 rows",
    ),
    "other rows in the problem": (_set("problem", "rows", to=7), "elsewhere on others"),
    "a preparation that was not": (
        _set("preparation", to={"noise_multiplier": 1.0, "epsilon": 0.1, "delta": 1e-6}),
        "is damaged",
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_record_that_contradicts_itself_is_refused(made: Path, reticent, tmp_path: Path, name: str) -> None:
    shutil.copytree(made / "run", run := tmp_path / "run")
    change, says = FORGED[name]
    change(run, made)
    for command in (("show", run), ("report", run, "-o", tmp_path / "r.html")):
        code, _, err = reticent(*command)
        assert (code, says in err, err.count("\n")) == (1, True, 1), err


def test_data_that_a_folder_names_are_opened_for_its_maker_and_for_who_trusts_it(
    made: Path, reticent, tmp_path: Path
) -> None:
    own, foreign = tmp_path / "own", tmp_path / "foreign"
    shutil.copytree(made / "run", own)
    shutil.copytree(made / "run", foreign)
    (foreign / "private" / "origin.json").unlink()
    words = ("--attacks", "gap", "--json")
    assert reticent("attack", own, *words)[0] == 0
    code, _, err = reticent("attack", foreign, *words)
    assert (code, "reticent trust" in err, "t.csv" in err) == (1, True, True)
    code, out, _ = reticent("trust", foreign, "--json")
    assert json.loads(out)["names"]["source"].endswith("t.csv")
    assert reticent("attack", foreign, *words)[0] == 0
    for change in (  # a mark is of one request and one price alone
        _set("records", to=ROWS + 1),
        _set("request", "source", to=str(made / "secret")),
    ):
        shutil.copytree(own, changed := tmp_path / "changed")
        change(changed, made)
        code, _, err = reticent("attack", changed, *words)
        assert (code, "reticent trust" in err) == (1, True)
        shutil.rmtree(changed)


def test_a_folder_that_says_it_is_paid_pays_if_the_ledger_knows_nothing(tmp_path: Path, made: Path) -> None:
    from dataclasses import replace

    from reticent.core.errors import IntegrityError
    from reticent.core.observer import NOBODY
    from reticent.ledger.ledger import Ledger
    from reticent.mechanisms.events import Gaussian
    from reticent.runs.folder import read_record
    from reticent.runs.payment import charge

    with Ledger.create(tmp_path / "l.ledger") as ledger:
        ledger.limit("people", epsilon=5.0, delta=1e-3)
    shutil.copytree(made / "run", tmp_path / "run")

    def forge(record: dict[str, Any]) -> None:
        record["state"] = "paid"
        record["request"] |= {"ledger": str(tmp_path / "l.ledger"), "dataset": "people"}

    _edit(forge)(tmp_path / "run", made)
    record = read_record(tmp_path / "run")
    for _ in range(2):
        charge(record, NOBODY)
        with pytest.raises(IntegrityError, match="something other"):
            charge(replace(record, event=Gaussian(noise_multiplier=0.3)), NOBODY)
        with Ledger.open(tmp_path / "l.ledger") as ledger:
            assert len(ledger.entries("people")) == 2  # the limit, and one charge
