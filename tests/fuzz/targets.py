"""Everything that reticent reads from a disk: a specimen of each, how to damage it, and all its readers.

The law: a reader returns, or raises a `ReticentError` whose message names what to do; nothing else, and soon.
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from random import Random

import mutations
import numpy as np
import specimens

from reticent.core.errors import ReticentError

Mutation = Callable[[bytes, Random], bytes]
Reading = Callable[[Path], object]


@dataclass(frozen=True, kw_only=True)
class Target:
    """A kind of file.

    Args:
        specimen: a valid one, below the home of specimens.
        folder: what is copied before a part of it is damaged; None for a single file.
        readings: everything that reads it: functions of the damaged copy, or of its folder.
        is_signed: the record beside it says its digest, as an adversary would write it.
    """

    specimen: str
    damage: Mutation
    readings: tuple[Reading, ...]
    folder: str | None = None
    is_signed: bool = False

    def place(self, home: Path, room: Path) -> Path:
        """A whole copy to damage, in a new room: the file itself."""
        if self.folder is None:
            shutil.copy(home / self.specimen, room)
            return room / Path(self.specimen).name
        shutil.copytree(home / self.folder, room / self.folder, dirs_exist_ok=True)
        return room / self.specimen

    def read(self, file: Path, content: bytes) -> list[str]:
        """Puts the content into the file, and lets everything read it; returns what was refused.

        Raises:
            whatever a reader should not have raised.
        """
        file.write_bytes(content)
        where = file
        if self.folder is not None:
            where = file.parents[len(Path(self.specimen).parts) - 2]
        if self.is_signed:
            record = where / "run.json"
            record.write_bytes(mutations.signed(record.read_bytes(), content))
        refused = []
        for reading in self.readings:
            try:
                with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                    reading(where)
            except ReticentError as error:
                refused.append(str(error))
        return refused


def _table(path: Path) -> None:
    from reticent.data.drafting import draft
    from reticent.data.encoding import encode
    from reticent.data.files import open_table

    table = open_table(path)
    assert table.dialect.describe()
    domain = draft(table)
    domain.to_toml()
    data = encode(table, domain)
    assert len(data) == table.row_count
    assert np.all(np.abs(data["x"]) <= 1)


def _domain(path: Path) -> None:
    from reticent.data.domain import Domain
    from reticent.synthetic.tables.codes import Coder

    found = Domain.read(path)
    written = found.to_toml()
    assert Domain.from_toml(written, source="again").to_toml() == written
    Coder(found)


def _show(folder: Path) -> None:
    from reticent.cli.show import print_card
    from reticent.runs.folder import read_record
    from reticent.runs.origin import is_own
    from reticent.runs.record import RunRecord

    record = read_record(folder)
    assert RunRecord.from_json(json.loads(json.dumps(record.to_json(), allow_nan=False))) == record
    print_card(folder, record)
    is_own(folder, record)


def _report(folder: Path) -> None:
    from reticent.report.from_run import collect_facts
    from reticent.report.render.html import page

    page(collect_facts(folder))


def _compare(folder: Path) -> None:
    from reticent.report.facts.comparison import compare_runs, comparison_rows

    comparison_rows(compare_runs([folder]))


def _export(folder: Path) -> None:
    from reticent.runs.export import export

    to = folder.with_name("release")
    shutil.rmtree(to, ignore_errors=True)
    export(folder, to)


def _predict(folder: Path) -> None:
    from reticent.data.files import open_table
    from reticent.runs.predict import Predictor

    table = folder.with_name("new.csv")
    table.write_text("a,b\n0.5,0.25\n")
    list(Predictor(folder).table(open_table(table)))


def _resume(folder: Path) -> None:
    from reticent.runs.folder import read_record
    from reticent.runs.private_part import read_split
    from reticent.runs.request import request_of

    request_of(read_record(folder))
    read_split(folder, 0.2)


def _sample(folder: Path) -> None:
    from reticent.synthetic.generators import Generator

    Generator(folder).write(folder.with_name("rows"), 3, seed=0)


def _complete(folder: Path) -> None:
    from reticent.synthetic.images.image_model import complete

    complete(folder)


def _event(path: Path) -> None:
    from reticent.accounting.tight_epsilon import guarantee
    from reticent.mechanisms import events
    from reticent.mechanisms.adjacency import Adjacency

    event = events.read(path.read_bytes())
    assert events.from_json(events.to_json(event)) == event
    guarantee(event, 1e-6, Adjacency.ADD_OR_REMOVE)


def _ledger(path: Path) -> None:
    from reticent.ledger.ledger import Ledger

    with Ledger.open(path) as ledger:
        ledger.entries()
        ledger.verify()


def _outputs(path: Path) -> None:
    from reticent.attacks.foreign_files import read_outputs

    read_outputs(path, name="members")


def _shadows(path: Path) -> None:
    from reticent.attacks.shadows.outputs import Shadows

    Shadows.load(path)


def _scores(path: Path) -> None:
    from reticent.attacks.foreign_files import read_scores

    read_scores(path)


_MODEL = (_show, _report, _export, _predict, _resume)
_GENERATOR = (_show, _report, _export, _sample)
TABLES = ("csv", "tsv", "csv.gz", "blanks", "jsonl", "libsvm", "parquet", "npy", "npz", "xlsx", "db")


def _of_run(kind: str, name: str, damage: Mutation, *readings: Reading, is_signed: bool = False) -> Target:
    return Target(
        specimen=f"{kind}/{name}", damage=damage, readings=readings, folder=kind, is_signed=is_signed
    )


TARGETS: dict[str, Target] = {
    **{
        name: Target(specimen=f"t.{name}", damage=mutations.changed_bytes, readings=(_table,))
        for name in TABLES
    },
    "domain": Target(specimen="domain.toml", damage=mutations.changed_toml, readings=(_domain,)),
    "event": Target(specimen="event.json", damage=mutations.changed_json, readings=(_event,)),
    "ledger": Target(specimen="our.ledger", damage=mutations.changed_bytes, readings=(_ledger,)),
    "outputs": Target(specimen="outputs.npz", damage=mutations.changed_bytes, readings=(_outputs,)),
    "shadows": Target(specimen="shadows.npz", damage=mutations.changed_bytes, readings=(_shadows,)),
    "scores": Target(specimen="scores.csv", damage=mutations.changed_bytes, readings=(_scores,)),
    "record": _of_run(specimens.MODEL, "run.json", mutations.changed_json, *_MODEL),
    "model": _of_run(
        specimens.MODEL, "model.safetensors", mutations.changed_tensors, _predict, _export, is_signed=True
    ),
    "split": _of_run(specimens.MODEL, "private/split.json", mutations.changed_json, _resume),
    "origin": _of_run(specimens.MODEL, "private/origin.json", mutations.changed_json, _show),
    "unreleased": _of_run(specimens.MODEL, "private/unreleased.json", mutations.changed_json, _show, _report),
    "attacks": _of_run(specimens.MODEL, "attacks/attack.json", mutations.changed_json, _report, _compare),
    "audit": _of_run(specimens.MODEL, "audit.json", mutations.changed_json, _report, _compare),
    "run-domain": _of_run(specimens.MODEL, "domain.toml", mutations.changed_toml, _predict, _export),
    "generator-record": _of_run(specimens.TABLE, "run.json", mutations.changed_json, *_GENERATOR),
    "generator": _of_run(
        specimens.TABLE, "generator.model", mutations.changed_tensors, _sample, _export, is_signed=True
    ),
    "generator-domain": _of_run(specimens.TABLE, "domain.toml", mutations.changed_toml, _sample),
    "descent-record": _of_run(specimens.DESCENT, "run.json", mutations.changed_json, *_MODEL),
    "images-record": _of_run(specimens.IMAGES, "run.json", mutations.changed_json, *_GENERATOR),
    "images-json": _of_run(specimens.IMAGES, "generator.json", mutations.changed_json, _sample, _complete),
    "images": _of_run(
        specimens.IMAGES,
        "generator.safetensors",
        mutations.changed_tensors,
        _complete,
        _sample,
        is_signed=True,
    ),
}
SLOW = ("descent-record", "images-record", "images-json", "images")  # to make a specimen of
