"""`--ledger` says what the data are: a run on other data, or under a second name, is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reticent.core.errors import DataError, InvalidArgument, OutcomeUnknown
from reticent.data.domain import Domain, Label, Number
from reticent.ledger.dataset_budget import DatasetBudget
from reticent.ledger.ledger import Ledger
from reticent.runs import lifecycle
from reticent.runs.fit import fit, resume
from reticent.runs.request import Request
from reticent.synthetic.pipeline import make
from reticent.synthetic.request import SynthRequest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tables with a domain; runs stop when they have paid."""
    monkeypatch.setenv("RETICENT_CONFIG", str(tmp_path / "config"))

    def stop(*_: object) -> None:
        raise InterruptedError

    monkeypatch.setattr(lifecycle, "_go_on", stop)
    ages = np.random.default_rng(0).integers(20, 90, 600)
    lines = ["age,tall", *(f"{age},{'yes' if age % 2 else 'no'}" for age in ages)]
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    shutil.copy(tmp_path / "people.csv", tmp_path / "copy.csv")
    (tmp_path / "more.csv").write_text("\n".join([*lines, "33,yes"]) + "\n")
    Domain(
        columns={"age": Number(bounds=(0.0, 100.0)), "tall": Label(values=("no", "yes"))}, target="tall"
    ).write(tmp_path / "people.toml")
    return tmp_path


def train(folder: Path, table: str, ledger: str, dataset: str, run: str, source: str | None = None) -> None:
    request = Request(
        source=source or str(folder / table),
        target=None if source else "tall",
        epsilon=0.5,
        delta=1e-7,
        method="sgd" if source else "output",
        model="linear",
        domain=None if source else str(folder / "people.toml"),
        ledger=ledger,
        dataset=dataset,
    )
    with pytest.raises(InterruptedError):
        fit(request, folder / run)


def synthesize(folder: Path, table: str, ledger: str, dataset: str, run: str) -> None:
    request = SynthRequest(
        source=str(folder / table),
        epsilon=0.5,
        delta=1e-7,
        domain=str(folder / "people.toml"),
        ledger=ledger,
        dataset=dataset,
    )
    with pytest.raises(InterruptedError):
        make(request, folder / run)


def test_every_command_says_what_its_data_are(folder: Path, anywhere: Ledger, address: str):
    anywhere.limit("others", epsilon=3.0, delta=1e-5)
    train(folder, "people.csv", address, "patients", "one")
    assert anywhere.account("patients").fingerprint == anywhere.fingerprint(folder / "people.csv")
    synthesize(folder, "copy.csv", address, "patients", "two")
    with pytest.raises(DataError, match=r"not the data.*reticent ledger new-version .* patients TABLE"):
        train(folder, "more.csv", address, "patients", "three")
    for pay in (train, synthesize):
        with pytest.raises(DataError, match="in the ledger already, as 'patients'"):
            pay(folder, "copy.csv", address, "others", "three")
    with pytest.raises(InvalidArgument, match="CYRILLIC SMALL LETTER A instead of LATIN SMALL LETTER A"):
        train(folder, "people.csv", address, "p\u0430tients", "three")
    assert not (folder / "three").exists()
    anywhere.new_version("patients", anywhere.fingerprint(folder / "more.csv"), reason="one more")
    train(folder, "more.csv", address, " patients ", "three")
    assert anywhere.account("patients").charges == 3
    with pytest.raises(InterruptedError):  # resumed under a name that is spelled otherwise: charged once
        resume(folder / "three")
    assert anywhere.account("patients").charges == 3


def test_a_dataset_of_the_catalog_has_a_fingerprint_too(folder: Path, ledger: Ledger, path: Path):
    train(folder, "", str(path), "patients", "run", source="digits")
    mark = ledger.account("patients").fingerprint
    assert mark is not None
    with pytest.raises(DataError, match="not the data"):
        train(folder, "people.csv", str(path), "patients", "two")


def test_a_run_keeps_the_address_of_its_ledger_without_the_password(folder: Path, database: str):
    with Ledger.create(database) as ledger:
        ledger.limit("patients", epsilon=3.0, delta=1e-5)
    address = database.replace("admin@", "admin:s3cret-word@")
    train(folder, "people.csv", address, "patients", "run")
    assert json.loads((folder / "run" / "run.json").read_text())["request"]["ledger"] == database
    for file in (folder / "run").rglob("*"):
        assert file.is_dir() or b"s3cret" not in file.read_bytes(), file


@pytest.mark.parametrize("was_recorded", [True, False])
def test_a_run_whose_charge_nobody_knows_of_is_resumed_and_charged_once(
    folder: Path, ledger: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch, was_recorded: bool
):
    charge = DatasetBudget.charge

    def lose_the_answer(budget: DatasetBudget, *words: Any, **more: Any) -> None:
        if was_recorded:
            charge(budget, *words, **more)
        raise OutcomeUnknown("The connection broke.", remedy="Look.")

    with monkeypatch.context() as patch:
        patch.setattr(DatasetBudget, "charge", lose_the_answer)
        with pytest.raises(OutcomeUnknown, match=r"reticent train --resume .*run\. It looks for the charge"):
            train(folder, "people.csv", str(path), "patients", "run")
    assert ledger.account("patients").charges == was_recorded
    with pytest.raises(InterruptedError):
        resume(folder / "run")
    assert ledger.account("patients").charges == 1
