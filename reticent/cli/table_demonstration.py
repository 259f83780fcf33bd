"""`reticent demo --table`: from a table of patients to a model, an attack and a table for everybody."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reticent.accounting.rounding import at_most
from reticent.attacks.explain import conclude
from reticent.cli.demonstration import replace_say, save_attacks, write_report
from reticent.core.files import write_whole
from reticent.core.observer import NOBODY, Observer
from reticent.data import catalog
from reticent.ledger.ledger import Ledger
from reticent.report.from_run import collect_facts
from reticent.runs.attacks.membership import attack_run
from reticent.runs.fit import fit
from reticent.runs.reopen import open_again
from reticent.runs.request import Request
from reticent.synthetic.generators import Generator
from reticent.synthetic.pipeline import make
from reticent.synthetic.request import SynthRequest

_SOURCE, _TARGET, _DELTA = "breast_cancer", "diagnosis", 1e-4
_SHADOWS = 8


@dataclass(frozen=True, kw_only=True)
class TableDemonstration:
    """What a demonstration on a table did, step by step, and where it was left."""

    folder: Path
    report: Path
    rows: tuple[tuple[str, str], ...]
    seconds: float


def demonstrate_table(
    folder: Path, *, epsilon: float = 3.0, observer: Observer = NOBODY
) -> TableDemonstration:
    """Trains on a table, attacks the model, makes a synthetic table, and writes a report.

    Args:
        folder: a new one, in which everything is left, the table and its domain too.
    """
    started = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    table, ledger, run = folder / "patients.csv", folder / "demo.ledger", folder / "run"
    domain = folder / "patients.toml"
    _write_table(table, domain)
    with Ledger.create(ledger) as opened:
        opened.limit("patients", epsilon=2 * epsilon, delta=2 * _DELTA)
    asked = {
        "source": str(table),
        "domain": str(domain),
        "target": _TARGET,
        "epsilon": epsilon,
        "delta": _DELTA,
        "ledger": str(ledger),
        "dataset": "patients",
    }
    quiet = replace_say(observer)
    record = fit(Request(**asked), run, observer=quiet).record
    scores = record.result.metrics
    trained = (
        f"{record.result.model.name} model, epsilon {at_most(record.result.guarantee.epsilon)}: "
        f"{scores['accuracy']:.1%} of new rows right"
    )
    observer.say(f"1 of 4  Trained: {trained}. Nothing but {domain} is taken as public.")

    found = attack_run(open_again(run, observer=quiet), shadows=_SHADOWS, observer=quiet)
    save_attacks(run, found)
    area = found.strongest.measured.auc
    attacked = (
        f"the strongest of {len(found.results)}: AUC {area.value:.0%} ({area.low:.0%} to {area.high:.0%})"
    )
    observer.say(f"2 of 4  Attacked with {found.shadows} shadow models, {attacked}. {conclude(found)}")

    synthetic = folder / "synthetic.csv"
    made = make(SynthRequest(**asked, test=0.0), folder / "generator", observer=quiet)
    generator = Generator(made.folder)
    generator.write(synthetic, generator.record.rows)
    cost = at_most(made.record.result.guarantee.epsilon)
    priced = f"{generator.record.rows} rows of nobody, epsilon {cost}"
    observer.say(f"3 of 4  Made {synthetic}: {priced}.")

    report = folder / "report.html"
    write_report(report, collect_facts(run))
    with Ledger.open(ledger) as opened:
        spent = opened.account("patients")
    observer.say("4 of 4  Reported, for the person who has to sign.")
    charges = f"{spent.charges} charges to 'patients' in {ledger}"
    return TableDemonstration(
        folder=folder,
        report=report,
        rows=(("train", trained), ("attack", attacked), ("synth", priced), ("ledger", charges)),
        seconds=time.perf_counter() - started,
    )


def _write_table(table: Path, domain: Path) -> None:
    """The bundled table as a file, and beside it what its publishers said about its columns."""
    from sklearn.datasets import load_breast_cancer

    public = catalog.load(_SOURCE).domain
    assert public is not None
    found: Any = load_breast_cancer()
    words = [str(found.target_names[label]) for label in found.target]
    lines = [",".join([*map(str, found.feature_names), _TARGET])]
    lines += [
        ",".join([*(f"{cell:g}" for cell in row), word]) for row, word in zip(found.data, words, strict=True)
    ]
    write_whole(table, ("\n".join(lines) + "\n").encode())
    write_whole(domain, public.to_toml().encode())
