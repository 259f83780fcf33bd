"""The example in the help of every command is run as it stands there, and works.

The files that the examples name are made here and are small; the run that several of them need is made by the
example of `train`. Nothing is fetched: named datasets are bundled, or stand ready under the names they have.
What takes long is played by few models, or by none where another test trains them: a sweep by
test_sweep_command.py, shadow models by test_attack_command.py, public weights by test_pretrain_command.py, a
model of texts by runs/test_texts.py, the demonstration by the test of README's `make demo`.
"""

from __future__ import annotations

import itertools
import re
import shlex
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import typer

from reticent.cli import app as cli
from reticent.cli import reference
from reticent.core.keys import Keys

PATHS = [path for path, _ in reference.commands(typer.main.get_command(cli.app))]
ASKED_FOR = {
    *("train", "predict", "show", "attack", "audit", "account", "calibrate", "pate", "synth", "sweep"),
    *("ledger", "report", "domain", "datasets", "demo", "trust", "export", "compare", "federate", "studio"),
    *("pretrain", "sample"),
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tables that examples name, and nothing else."""
    folder = tmp_path_factory.mktemp("tables")
    write_patients(folder / "patients.csv", rows=6000, seed=0)
    write_patients(folder / "visits.csv", rows=6000, seed=3, users=1500)
    write_patients(folder / "open.csv", rows=60, seed=1, target=False)
    write_patients(folder / "new.csv", rows=5, seed=2, target=False)
    (folder / "e.json").write_text('{"kind": "gaussian", "noise_multiplier": 20.0}')
    return folder


@pytest.fixture(scope="module")
def clinic(tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a run and a ledger in it, made as the help says."""
    folder = tmp_path_factory.mktemp("clinic") / "clinic"
    shutil.copytree(tables, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        draw_the_same_every_time(patch)
        for path in ("train", "ledger init", "ledger limit"):
            words = epilog_of(path.split())
            with pytest.raises(SystemExit) as ended:
                cli.main(words)
            assert not ended.value.code, words
    return folder


@pytest.fixture
def named_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with the files of MNIST and of its sister by name: `get` finds them, and reads none."""
    from reticent.data import catalog

    root = tmp_path / "data"
    for name in ("mnist", "fashion_mnist"):
        entry = catalog.describe(name)
        (root / entry.folder).mkdir(parents=True)
        for file in entry.forms[0].files:
            (root / entry.folder / file.name).touch()
    monkeypatch.setenv("RETICENT_DATA", str(root))
    return root


def draw_the_same_every_time(patch: pytest.MonkeyPatch) -> None:
    """An audit may contradict a true claim and a count may be far off: rarely, but not by chance here."""
    seeds = itertools.count()
    patch.setattr(Keys, "from_os", lambda: Keys.seeded(next(seeds)))
    patch.setattr("secrets.randbits", lambda bits: 1)


def write_patients(path: Path, *, rows: int, seed: int, target: bool = True, users: int = 0) -> None:
    chance = np.random.default_rng(seed)
    age, pressure = chance.integers(18, 95, rows), chance.integers(100, 160, rows)
    smokes = chance.random(rows) < 0.3
    ill = (age - 60) / 15 + 1.5 * smokes + (pressure - 130) / 15 + chance.normal(size=rows) > 0.5
    words = np.array(["no", "yes"])
    columns = {"age": age, "smoker": words[smokes.astype(int)], "pressure": pressure}
    columns |= {"readmitted": words[ill.astype(int)]} if target else {}
    columns |= {"patient": [f"p{row % users}" for row in range(rows)]} if users else {}
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")


def epilog_of(path: Sequence[str]) -> list[str]:
    command = dict(reference.commands(typer.main.get_command(cli.app)))["reticent", *path]
    return shlex.split(command.epilog.removeprefix("Example:"))[1:]


def example_in(text: str) -> str:
    """The command line after "Example:" in what `--help` printed."""
    found = re.search(r"^ *Example: +(reticent .*\S) *$", text, re.MULTILINE)
    assert found, f"no example in:\n{text}"
    return found[1]


def test_the_commands_that_have_to_have_an_example_are_all_here():
    assert {path[1] for path in PATHS} == ASKED_FOR


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_the_example_in_the_help_works(
    reticent: Callable[..., tuple[int, str, str]],
    path: tuple[str, ...],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("COLUMNS", "200")
    code, told, _ = reticent(*path[1:], "--help")
    assert code == 0
    line = example_in(told)
    assert line.startswith(" ".join(path)), "the example is of another command"

    if path[1:] == ("train",):
        clinic = request.getfixturevalue("clinic")
        assert shlex.split(line)[1:] == epilog_of(["train"]), "another command line has made the clinic"
        assert (clinic / "runs" / "patients" / "run.json").exists()
        return
    request.getfixturevalue("named_datasets")
    starts_from = "tables" if path[1:] == ("ledger", "init") else "clinic"
    folder = tmp_path / "here"
    shutil.copytree(request.getfixturevalue(starts_from), folder)
    monkeypatch.chdir(folder)
    for command, run in (("compare", "others"), ("sample", "plays")):
        if path[1:] == (command,):
            shutil.copytree(folder / "runs" / "patients", folder / "runs" / run)
    draw_the_same_every_time(monkeypatch)
    play_few_models(monkeypatch)
    if path[1:] == ("ledger", "limit"):
        (folder / "clinic.ledger").unlink()
        assert reticent(*epilog_of(["ledger", "init"]))[0] == 0
    code, out, err = reticent(*shlex.split(line)[1:])
    assert code == 0, f"$ {line}\n{out}{err}"
    assert out or err, f"$ {line} said nothing"
    for goal in re.findall(r"(?<= -o )\S+", line):
        assert (folder / goal).exists(), f"$ {line} left no {goal}"


def play_few_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """No shadow model attacks, 100 canaries audit; a sweep, a demonstration and pre-training train nothing;
    a studio serves nothing, a model of texts says what it always says.
    """
    from reticent.audit import from_run
    from reticent.cli import demonstration
    from reticent.pretraining import from_images
    from reticent.runs import continuation, sweep
    from reticent.runs.attacks import membership
    from reticent.studio import serve

    attack_run, audit_run = membership.attack_run, from_run.audit_run

    def measured(request: sweep.SweepRequest, folder: Path, **_: Any) -> list[sweep.Cell]:
        folder.mkdir()
        known = {"model": request.models[0], "delta": request.delta, "noise_multiplier": 2.0, "accuracy": 0.5}
        wanted = [("none", float("inf")), *itertools.product(request.accounting, request.epsilons)]
        return [sweep.Cell(accounting=how, epsilon=epsilon, **known) for how, epsilon in wanted]

    def demonstrated(folder: Path, **_: Any) -> demonstration.Demonstration:
        folder.mkdir()
        row = ("with privacy", *["-"] * 5)
        return demonstration.Demonstration(folder=folder, report=folder / "r.html", rows=(row,), seconds=1.0)

    def pretrained(*_: Any, **__: Any) -> SimpleNamespace:
        about = SimpleNamespace(dataset="cifar100", rows=1, accuracy=0.5)
        return SimpleNamespace(name="patches", digest="0" * 64, about=about, width=1, write=Path.mkdir)

    monkeypatch.setattr(from_images, "pretrain", pretrained)
    monkeypatch.setattr(continuation, "continue_text", lambda *_, **__: "what news?")
    monkeypatch.setattr(serve, "serve", lambda folder, *, port, on_start: on_start("http://127.0.0.1:1/x/"))
    monkeypatch.setattr(serve, "open_in_browser", lambda address: False)
    monkeypatch.setattr(sweep, "sweep", measured)
    monkeypatch.setattr(demonstration, "demonstrate", demonstrated)
    monkeypatch.setattr(membership, "attack_run", lambda *a, **how: attack_run(*a, **{**how, "shadows": 0}))
    monkeypatch.setattr(from_run, "audit_run", lambda *a, **how: audit_run(*a, **{**how, "canaries": 100}))


def test_a_wrong_or_missing_example_would_be_noticed(reticent, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert example_in(" Options\n\n Example:  reticent show runs  \n") == "reticent show runs"
    with pytest.raises(AssertionError, match="no example"):
        example_in("Usage: reticent show RUN")
    assert reticent(*epilog_of(["show"]))[0] == 1  # there is no such run here
