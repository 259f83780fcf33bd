"""`reticent train` as somebody new to it gets it wrong: one line that says what to do, and nothing spoilt."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reticent.core import files
from reticent.data.domain import Domain, Label, Number
from reticent.ledger.ledger import Ledger
from reticent.ledger.storage import sqlite as store
from reticent.runs.predict import Predictor

ROWS = 900


def rows(count: int = ROWS, *more: str) -> bytes:
    """Two numbers and a class, and any rows besides."""
    values = np.random.default_rng(0).uniform(0, 10, (count, 2))
    lines = [f"{a:.2f},{b:.2f},{'yes' if a > 5 else 'no'}" for a, b in values]
    return "\n".join(["a,b,y", *lines, *more, ""]).encode()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_bytes(rows())
    return path


@pytest.fixture
def domain(tmp_path: Path) -> Path:
    bounds = (0.0, 10.0)
    columns = {"a": Number(bounds=bounds), "b": Number(bounds=bounds), "y": Label(values=("no", "yes"))}
    Domain(columns=columns, target="y").write(tmp_path / "people.toml")
    return tmp_path / "people.toml"


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "our.ledger"
    with Ledger.create(path) as made:
        made.limit("people", epsilon=5.0, delta=1e-4)
    return path


@pytest.fixture
def train(reticent, tmp_path: Path):
    """Trains into `run`; returns the one line that says what is wrong, and the lines before it but warnings.

    line, before = train(table, epsilon=4)
    """

    def run(
        source: Path,
        *words: object,
        target: str = "y",
        epsilon: object = 1,
        code: int = 1,
        to: Path | None = None,
    ):
        folder = tmp_path / "run" if to is None else to
        asked = ("train", source, "--target", target, "--epsilon", epsilon, "-o", folder, *words)
        return one_line(reticent(*asked), code)

    return run


def one_line(result: tuple[int, str, str], code: int = 1) -> tuple[str, list[str]]:
    found, out, err = result
    assert (found, out) == (code, ""), err
    *before, line = [each for each in err.splitlines() if not each.startswith("As a line to paste: ")]
    assert line.startswith("error: "), err
    assert "Unexpected" not in line
    assert not [other for other in before if other.startswith(("error:", "Traceback"))], err
    return line, [other for other in before if not other.startswith("warning:")]


BAD_TABLES = {
    "empty": (b"", "is empty"),
    "only a header": (b"a,b,y\n", "a header and no rows"),
    "ragged": (rows(30, "1,2"), "line 32 has 2 cells"),
    "random bytes": (bytes(range(256)) * 8, "NUL byte"),
    "NUL": (rows(30, "1,\0,yes"), "line 32 holds a NUL byte"),
    "two columns of one name": (b"a,a,y\n1,2,yes\n", "2 columns are named 'a'"),
    "no such target": (b"a,b,why\n1,2,yes\n", "no column 'y'"),
    "only the target": (b"y\nyes\nno\nno\nyes\n", "no column besides the target"),
    "five rows": (rows(5), "fewer than two values of the target 'y'"),
    "too few to find anything": (rows(300), "300 rows are too few to find out"),
}


@pytest.mark.parametrize(("content", "said"), BAD_TABLES.values(), ids=BAD_TABLES)
def test_a_bad_table_is_refused_before_anything_is_made(
    train, tmp_path: Path, ledger: Path, content: bytes, said: str
) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    line, before = train(tmp_path / "t.csv", "--ledger", ledger, "--dataset", "people")
    assert said in line
    assert not before
    assert not (tmp_path / "run").exists()
    assert _charges(ledger) == 0


def test_a_name_that_is_nearly_that_of_a_dataset(reticent, tmp_path: Path) -> None:
    for command in ("train", "synth"):
        line, _ = one_line(reticent(command, "mnits", "--epsilon", 1, "-o", tmp_path / "run"))
        assert "There is no file mnits, and no dataset of this name. Did you mean 'mnist'?" in line
    line, _ = one_line(reticent("sweep", "digit", "-o", tmp_path / "run"))
    assert "Did you mean 'digits'?" in line


@pytest.mark.parametrize("command", ["train", "synth"])
@pytest.mark.parametrize("epsilon", ["1e-09", "1e+30"])
def test_an_epsilon_that_cannot_be_met_is_called_as_it_was_typed(
    reticent, table: Path, tmp_path: Path, command: str, epsilon: str
) -> None:
    words = (command, table, "--target", "y", "--epsilon", epsilon, "-o", tmp_path / "run")
    line, _ = one_line(reticent(*words))
    assert f"psilon {epsilon}" in line.replace("=", " ")


RESUMED = {
    "epsilon": ("--epsilon", 3),
    "the default": ("--epsilon", 1),
    "ledger": ("--ledger", "our.ledger", "--dataset", "people"),
    "folder": ("-o", "elsewhere"),
    "table": ("other.csv",),
}


@pytest.mark.parametrize("words", RESUMED.values(), ids=RESUMED)
def test_a_run_that_goes_on_is_not_ordered_anew(reticent, tmp_path: Path, words: tuple[object, ...]) -> None:
    for command in ("train", "synth", "pate"):
        if (command, words[0]) == ("synth", "-o"):
            continue  # where the rows go is no part of the order
        line, _ = one_line(reticent(command, "--resume", tmp_path / "run", *words))
        assert "--resume resumes a run as it was requested, and " in line
        assert {"-o": "--output"}.get(str(words[0]), str(words[0])) in line


def test_a_file_that_is_none(train, tmp_path: Path) -> None:
    assert "no image in" in train(tmp_path)[0]  # a folder is taken for one of images
    assert "There is no file" in train(tmp_path / "none.csv")[0]


BAD_WORDS = {
    "epsilon of 0": ((), 0, "epsilon must be a positive number"),
    "negative": ((), -1, "epsilon must be a positive number"),
    "not a number": ((), "nan", "epsilon must be a positive number"),
    "a word": ((), "much", "--epsilon"),
    "a million": ((), 1e6, "protects nobody"),
    "next to nothing": ((), 1e-9, "Ask for a more usual epsilon"),
    "delta": (("--delta", 1 / ROWS), 1, "promises nothing"),
    "negative delta": (("--delta", -1), 1, "delta must be"),
    "wrong delimiter": (("--delimiter", ";"), 1, "no column 'y'"),
    "long delimiter": (("--delimiter", ";;"), 1, "not one plain character"),
    "encoding": (("--encoding", "klingon"), 1, "'klingon' is not known"),
    "model": (("--model", "cnn"), 1, "is for images"),
    "half of a ledger": (("--dataset", "people"), 1, "go together"),
    "no domain": (("--domain", "nowhere.toml"), 1, "Draft one with"),
    "no ledger": (("--ledger", "nowhere.ledger", "--dataset", "people"), 4, "reticent ledger init"),
}


@pytest.mark.parametrize(("words", "epsilon", "said"), BAD_WORDS.values(), ids=BAD_WORDS)
def test_a_bad_word_is_refused_before_anything_is_made(
    train, table: Path, tmp_path: Path, words: tuple[object, ...], epsilon: object, said: str
) -> None:
    line, before = train(table, *words, epsilon=epsilon)
    assert said in line
    assert not before
    assert not (tmp_path / "run").exists()


BAD_ROWS = {
    "text": ("old,2,yes", "column 'a': 'old' is not a number"),
    "infinity": ("inf,2,yes", "column 'a': 'inf' is not a finite number"),
    "missing": (",2,yes", "column 'a': the cell is missing"),
    "no class": ("1,2,", "column 'y': the cell is missing"),
    "another class": ("1,2,perhaps", "column 'y': 'perhaps' is none of the 2 declared values"),
}


@pytest.mark.parametrize(("row", "said"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_rows_that_a_declared_domain_does_not_allow_are_refused_before_they_are_paid_for(
    train, tmp_path: Path, domain: Path, ledger: Path, row: str, said: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(rows(ROWS, row))
    line, before = train(path, "--domain", domain, "--ledger", ledger, "--dataset", "people")
    assert said in line
    assert f"line {ROWS + 2}" in line
    assert not before
    assert _charges(ledger) == 0
    assert not (tmp_path / "run").exists()


def test_cells_that_nobody_expected_do_not_stop_a_run_whose_domain_was_found(
    reticent, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(rows(ROWS, "inf,2,yes", "old,1e999,no", ",nan,yes", "1,2,", "-1e308,3,perhaps"))
    words = ("--epsilon", 4, "--method", "objective", "-o", tmp_path / "run")
    code, _, err = reticent("train", path, "--target", "y", *words)
    assert code == 0, err
    assert not {"old", "perhaps", "inf"} & set(err.replace(":", " ").split())


def test_numbers_of_any_size_are_learned_from(reticent, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    lines = [f"{n % 9},{(-1) ** n * 1e308 * (1 - n / 1e4)}" for n in range(ROWS)]
    path.write_text("\n".join(["a,y", *lines, ""]))
    code, _, err = reticent("train", path, "--target", "y", "--epsilon", 4, "-o", tmp_path / "run")
    assert code == 0, err
    assert np.isfinite(Predictor(tmp_path / "run").record.result.metrics["root mean squared error"])


@pytest.mark.parametrize("cell", ["same", ""])
def test_a_target_of_which_nothing_can_be_learned_fails_once_and_for_good(
    reticent, train, tmp_path: Path, ledger: Path, cell: str
) -> None:
    path, folder = tmp_path / "t.csv", tmp_path / "run"
    path.write_text("a,y\n" + "".join(f"{n},{cell}\n" for n in range(ROWS)))
    line, _ = train(path, "--ledger", ledger, "--dataset", "people", epsilon=4)
    assert "the target 'y'" in line
    assert _charges(ledger) == 0  # what is predicted is public, so this is seen before anything is paid
    line, _ = train(path, "--classes", "private", "--ledger", ledger, "--dataset", "people", epsilon=4)
    assert "the target 'y'" in line
    assert "The preparation of this run is charged, and stays spent. Nothing else is." in line
    assert "on preparation" not in line  # no option does that
    assert "--resume" not in line
    line, _ = one_line(reticent("train", "--resume", folder))
    assert "has failed for good" in line
    assert "stays spent" in line
    assert "another folder" in line
    code, out, _ = reticent("show", folder)
    assert (code, "failed for good" in out) == (0, True)
    for words in (("predict", folder, path), ("report", folder), ("attack", folder), ("audit", folder)):
        line, _ = one_line(reticent(*words))
        assert "has failed for good" in line
        assert "--resume" not in line
    assert _charges(ledger) == 1


def test_a_target_with_a_million_classes_is_refused_quickly_and_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,y\n" + b"".join(b"%d,person-%d\n" % (n % 10, n) for n in range(10**6)))
    # By way of a small process: a child's peak begins with what its parent holds.
    script = (
        "import resource, subprocess, sys\n"
        "words = [sys.executable, '-c', 'from reticent.cli.app import main; main()', *sys.argv[1:]]\n"
        "done = subprocess.run(words)\n"
        "print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    words = ("train", path, "--target", "y", "--epsilon", "4", "-o", tmp_path / "run")
    done = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, check=False, timeout=300
    )
    code, kilobytes = map(int, done.stdout.split())
    assert code == 1
    assert "fewer than two values" in done.stderr.splitlines()[-1]
    assert kilobytes < 1 << 20  # half of them are what JAX takes in any case


def test_a_column_of_identifiers_is_left_out_with_a_warning(reticent, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    head, *body = rows().decode().splitlines()
    path.write_text("\n".join([f"{head},patient", *(f"{line},P-{n:05d}" for n, line in enumerate(body)), ""]))
    words = ("--epsilon", 6, "--method", "objective", "-o", tmp_path / "run")
    code, _, err = reticent("train", path, "--target", "y", *words)
    assert code == 0, err
    said = [line for line in err.splitlines() if line.startswith("warning: ")]
    (warning,) = (line for line in said if "'patient' is not used: no word of it is frequent" in line)
    assert "--buckets patient=256" in warning
    assert "P-0" not in err  # no cell is shown


def test_a_place_that_is_taken_or_cannot_be_written(
    train, table: Path, domain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--domain", domain)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis").touch()
    assert "--resume" in train(table, *words, to=tmp_path / "full")[0]
    for place in (table, table / "below" / "it"):
        assert "there is a file in its place" in train(table, *words, to=place)[0]
    assert "too long" in train(table, *words, to=tmp_path / ("x" * 300))[0]

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert "Read-only file system. Choose a place" in train(table, *words)[0]


def _fill_disk(patch: pytest.MonkeyPatch, name: str, *, after: int = 0) -> None:
    """Has the disk full when the file of this name is written, once it was written so many times."""
    fsync, open_new, opened, left = os.fsync, files.open_new, [""], [after]

    def noting(path: Path, **how: Any) -> Any:
        opened[0] = path.name
        return open_new(path, **how)

    def full(descriptor: int) -> None:
        if opened[0].startswith(f".{name}.") and stat.S_ISREG(os.fstat(descriptor).st_mode):
            left[0] -= 1
            if left[0] < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    patch.setattr(files, "open_new", noting)
    patch.setattr(os, "fsync", full)


def test_a_disk_that_fills_up_leaves_nothing_half_written_and_says_what_is_paid(
    reticent, train, table: Path, domain: Path, ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, words = tmp_path / "run", ("--domain", domain, "--ledger", ledger, "--dataset", "people")
    words += ("--model", "linear")  # which is trained in steps, with checkpoints
    with Ledger.open(ledger) as made:
        made.fingerprint({"x": np.zeros(1)})  # so that its key is there already
    with monkeypatch.context() as patch:
        _fill_disk(patch, "run.json")
        line, before = train(table, *words)
    assert "run.json: No space left on device. Free some space" in line
    assert "charged" not in line
    assert not before
    assert not folder.exists()
    assert _charges(ledger) == 0
    for after, name in enumerate(("run.json", "domain.toml", "checkpoint", "model.safetensors", "run.json")):
        with monkeypatch.context() as patch:
            _fill_disk(patch, name, after=1 if after == 0 else 0)
            line, _ = train(table, *words) if after == 0 else one_line(reticent("train", "--resume", folder))
        assert f"{name}: No space left on device. Free some space" in line
        assert f"reticent train --resume {folder}. This run is charged already" in line
        assert not list(folder.glob(".*"))
    assert reticent("train", "--resume", folder)[0] == 0
    assert {path.name for path in folder.iterdir()} == {
        "domain.toml",
        "model.safetensors",
        "private",
        "run.json",
    }
    assert _charges(ledger) == 1


def test_a_ledger_that_cannot_be_charged(
    train, table: Path, domain: Path, ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def charged_to(path: Path, dataset: str = "people", **options: object) -> str:
        line, before = train(table, "--domain", domain, "--ledger", path, "--dataset", dataset, **options)
        assert not before
        assert not (tmp_path / "run").exists()  # an order that was refused can be given again
        return line

    assert "Did you mean 'people'?" in charged_to(ledger, "poeple")
    assert "Ask for --epsilon 5, which still fits" in charged_to(ledger, epsilon=6, code=3)
    assert "is not a ledger of reticent" in charged_to(table)
    assert "is a folder" in charged_to(tmp_path)
    open_, connect = Ledger.open.__func__, store.connect
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "open", classmethod(lambda cls, path: open_(cls, path, timeout=0.1)))
        other = sqlite3.connect(ledger, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        assert "locked by another process" in charged_to(ledger)
        other.close()

    def read_only(path: Path, timeout: float, *, is_reader: bool) -> sqlite3.Connection:
        connection = connect(path, timeout, is_reader=is_reader)
        connection.execute("PRAGMA query_only = ON")
        return connection

    monkeypatch.setattr(store, "connect", read_only)
    assert "Make both writable" in charged_to(ledger)
    monkeypatch.undo()
    assert _charges(ledger) == 0


def test_a_damaged_folder_says_what_is_damaged_and_what_to_do(
    reticent, train, table: Path, domain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        _fill_disk(patch, "checkpoint", after=1)
        line, _ = train(table, "--domain", domain, "--model", "linear")
    assert "checkpoint: No space left" in line
    content = (folder / "checkpoint").read_bytes()
    for at in (0, len(content) // 2, len(content) - 1):
        (folder / "checkpoint").write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        line, _ = one_line(reticent("train", "--resume", folder))
        assert "checkpoint is damaged. Start a new run in another folder" in line
        assert "--resume" not in line
    record = json.loads((folder / "run.json").read_text())
    for change in ({"request": 5}, {"request": {"source": "x"}}, {"recipe": {}}, {"state": "finished"}):
        (folder / "run.json").write_text(json.dumps({**record, **change}))
        line, _ = one_line(reticent("train", "--resume", folder))
        assert "run.json" in line
        assert "Restore" in line


def _charges(ledger: Path) -> int:
    with Ledger.open(ledger) as opened:
        return opened.account("people").charges
