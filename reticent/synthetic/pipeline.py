"""From a table or images to a generator in a folder: price, pay, prepare, measure, write.

    run.json        what was asked for, the event, the guarantee, versions; as any run has it
    domain.toml     what is public about the table
    generator...    the model: safetensors and JSON, without a seed
    private         which rows were kept away from the generator, if any were: never to be shared

A run that was stopped goes on from what is in its folder, and is never charged twice.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from reticent import __version__
from reticent.accounting.epsilon import guarantee
from reticent.accounting.guarantee import Guarantee
from reticent.accounting.reserve import TRAINING
from reticent.core.errors import DataError, IntegrityError, ReticentError
from reticent.core.keys import Keys
from reticent.core.observer import NOBODY, Onlooker
from reticent.data.domain import Domain
from reticent.data.held_out import Split, expected_rows
from reticent.data.preparation.noise import PreparationNoise
from reticent.distributed.consensus import require_alone
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.runs import folder as folders
from reticent.runs.payment import (
    charge,
    claim_beside,
    found_domain,
    mark_paid,
    pay,
    preparation_record,
)
from reticent.runs.private import read_split, write_split
from reticent.runs.problem import checked_delta
from reticent.runs.resume_hints import said_when_stopped, what_now
from reticent.runs.scoring import HISTORY
from reticent.synthetic.images import embedding, gan, image_model
from reticent.synthetic.ordering import SynthMaterial, SynthOrder, order_of, usable
from reticent.synthetic.pricing import (
    WORDS,
    coder_of,
    event_for,
    event_of,
    image_plan,
    preparation,
    table_plan,
)
from reticent.synthetic.tables import table_model
from reticent.training.checkpoint import Checkpoints, stamp_of

_LOST = "is left out: free text, an identifier, or too few rows. Declare it in a domain file if it matters."
GENERATOR = "generator.model"  # of a table: a file. Of images: generator.json and generator.safetensors


@dataclass(frozen=True, kw_only=True)
class Made:
    """A generator on disk: its folder, and the record in it."""

    folder: Path
    record: dict[str, Any]


def make(order: SynthOrder, folder: Path, *, keys: Keys | None = None, onlooker: Onlooker = NOBODY) -> Made:
    """Makes the generator that the order asks for, in a new folder.

    Raises:
        DataError, DomainError, InvalidArgument, CannotMeet: before anything was charged.
        BudgetExceeded: the ledger does not cover it; nothing was charged.
    """
    started = time.perf_counter()
    require_alone("A generator")
    folders.require_new(folder)
    material = SynthMaterial(order)
    order = replace(order, delta=checked_delta(order.delta, material.rows), method=material.method)
    material.order = order
    rows = expected_rows(material.rows, order.test)
    noise = preparation(material)
    assert order.delta is not None
    # The columns are not known before preparation: beside it, the generator gets a claim.
    share = claim_beside(noise.event if noise else None, epsilon=order.epsilon, delta=order.delta)
    event = event_of(material, rows, noise, share)
    number = secrets.token_hex(8)
    record: dict[str, Any] = {
        "version": folders.VERSION,
        "kind": "generator",
        "state": "started",
        "number": number,
        "table": material.digest(number),
        "order": asdict(order),
        "records": material.rows,
        "rows": rows,
        "recipe": {"method": order.method, "in_words": WORDS[order.method], "share": list(share)},
        "preparation": preparation_record(noise, delta=order.delta),
        "event": events.to_json(event),
        "versions": {"reticent": __version__, "numpy": np.__version__},
        "dialect": _dialect(material),
    }
    keys = keys or Keys.from_os()
    folders.create(folder)
    with folders.held(folder), said_when_stopped(folder, record, onlooker, what="synth"):
        if order.test:
            write_split(folder, Split.drawn(order.test, keys))
        pay(folder, record, event, onlooker, what="synth", price=partial(event_for, material, rows))
        return _go_on(folder, record, material, noise, keys, onlooker, started)


def _dialect(material: SynthMaterial) -> dict[str, Any] | None:
    """How the original is written, by which what is made is written too. Of its cells nothing."""
    if material.table is None:
        return None
    found = material.table.dialect
    return {
        "names": list(material.table.names),
        "delimiter": found.delimiter,
        "header": found.has_header,
        "decimal": found.decimal,
    }


def resume(folder: Path, *, keys: Keys | None = None, onlooker: Onlooker = NOBODY) -> Made:
    """Goes on with what was stopped; a finished generator is returned as it is."""
    started = time.perf_counter()
    require_alone("A generator")
    folders.read_record(folder)  # or says that there is none, before a lock is put there
    with folders.held(folder):
        record = folders.read_record(folder)
        if record.get("kind") != "generator":
            raise DataError(
                f"{folder} holds a model, not a generator.", remedy="Use: reticent train --resume."
            )
        if record["state"] == "finished":
            return Made(folder=folder, record=record)
        if record["state"] == "failed":
            raise DataError(
                f"The run in {folder} has failed: {record['failure']}",
                remedy="Start anew in another folder; what this one cost stays spent.",
            )
        try:
            material = SynthMaterial(order_of(record["order"]))
            is_held_out(folder, material.order, 0)  # or says what is missing, before anything is charged
            noise = preparation(material)
            event = event_of(material, record["rows"], noise, tuple(record["recipe"]["share"]))
        except (KeyError, TypeError, ValueError):
            raise folders.damaged(folder) from None
        if (
            events.to_json(event) != record["event"]
            or material.digest(record["number"]) != record["table"]
            or record["versions"]["reticent"] != __version__
        ):
            raise IntegrityError(
                f"The data, the domain or the version of {folder} are not what it was priced for.",
                remedy="Put them back as they were, or start anew in another folder.",
            )
        with said_when_stopped(folder, record, onlooker, what="synth"):
            charge(record, event, onlooker, what="synth")
            return _go_on(folder, record, material, noise, keys or Keys.from_os(), onlooker, started)


def _go_on(
    folder: Path,
    record: dict[str, Any],
    material: SynthMaterial,
    noise: PreparationNoise | None,
    keys: Keys,
    onlooker: Onlooker,
    started: float,
) -> Made:
    mark_paid(record, *keys.assumptions)
    folders.write_record(folder, record)
    for half in folder.glob(".generator*.partial"):  # of a killed process; what it drew is drawn anew
        half.unlink(missing_ok=True)
    try:
        if material.is_images:
            digest, about = _images(folder, record, material, keys, onlooker)
        else:
            digest, about = _table(folder, record, material, noise, keys, onlooker)
    except ReticentError as error:
        remedy = f"{error.remedy} {what_now(folder, record, what='synth')}".rstrip()
        raise type(error)(error.happened, remedy=remedy) from error
    sentence = _sentence(record)
    record.pop("table", None)
    record |= {
        "state": "finished",
        "model": {"name": f"{record['order']['method']} generator", "digest": digest},
        "problem": {
            "rows": record["rows"],
            "shape": about["shape"],
            "classes": [],
            "bounds": None,
            "scale": 1.0,
        },
        "guarantee": sentence.to_json(),
        "sentence": str(sentence),
        "metrics": {"label": "not judged yet: --evaluate", "rows": 0},
        "history": {"label": HISTORY, "moments": []},
        "seconds": time.perf_counter() - started,
        "warnings": about["warnings"],
    }
    folders.write_record(folder, record)
    folders.tidy(folder)
    return Made(folder=folder, record=record)


def _sentence(record: dict[str, Any]) -> Guarantee:
    names = ("the names of the columns are public",) if record["preparation"] is not None else ()
    rows = (f"the number of records, {record['records']}, is public",)
    return guarantee(
        events.from_json(record["event"]),
        record["order"]["delta"],
        Adjacency.ADD_OR_REMOVE,
        arithmetic=TRAINING * record["order"]["delta"],
        assumptions=(*rows, *names, *record["assumptions"]),
    )


def _table(
    folder: Path,
    record: dict[str, Any],
    material: SynthMaterial,
    noise: PreparationNoise | None,
    keys: Keys,
    onlooker: Onlooker,
) -> tuple[str, dict[str, Any]]:
    assert material.table is not None
    path, order = folder / folders.DOMAIN, material.order
    if path.exists():
        domain = Domain.read(path)
    elif noise is None:
        assert material.declared is not None
        domain = folders.write_domain(folder, material.declared)
    else:
        domain = found_domain(
            folder,
            record,
            material.table,
            noise,
            keys,
            onlooker._replace(warn=NOBODY.warn),  # what is left out is said below, resumed or not
            declared=material.declared,
            target=order.target,
        )
    domain, lost = usable(domain, order.ignore)
    coder = coder_of(material, domain)
    warnings = [*coder.warnings, *(f"'{name}' {_LOST}" for name in lost)]
    for line in warnings:
        onlooker.warn(line)
    goal = folder / GENERATOR
    if goal.exists():  # it was written before the run was stopped: it is out, and is not drawn again
        table_model.TableModel.load(goal)
    else:
        with onlooker.watch("encoding") as on_progress:
            codes = coder.encode(material.table, on_progress=on_progress)
        codes = codes[_kept(folder, order, len(codes))]
        share = record["recipe"]["share"]
        plan = table_plan(coder, record["rows"], (share[0], share[1]), order.method)
        with onlooker.watch("measuring and modelling") as on_progress:
            table_model.fit(codes, plan, keys=keys, on_progress=on_progress).save(goal)
    digest = hashlib.sha256(goal.read_bytes()).hexdigest()
    return digest, {"shape": [len(coder.sizes)], "warnings": warnings}


def _images(
    folder: Path, record: dict[str, Any], material: SynthMaterial, keys: Keys, onlooker: Onlooker
) -> tuple[str, dict[str, Any]]:
    assert material.splits is not None
    kept = _kept(folder, material.order, material.rows)
    x, y = (np.asarray(material.splits.train[name])[kept] for name in ("x", "y"))
    share = record["recipe"]["share"]
    plan = image_plan(material, record["rows"], (share[0], share[1]))
    if not image_model.complete(folder):
        with onlooker.watch(f"training the {material.order.method}") as on_progress:
            if isinstance(plan, gan.GanPlan):
                stamp = stamp_of(record["event"], record["number"])
                checkpoints = Checkpoints(path=folder / folders.CHECKPOINT, stamp=stamp)
                model = gan.fit(
                    x,
                    y,
                    plan,
                    classes=material.classes,
                    keys=keys,
                    checkpoints=checkpoints,
                    on_progress=on_progress,
                )
            else:
                model = embedding.fit(
                    x, y, plan, classes=material.classes, keys=keys, on_progress=on_progress
                )
        model.save(folder)
    digest = hashlib.sha256((folder / image_model.TENSORS).read_bytes()).hexdigest()
    return digest, {"shape": [int(side) for side in x.shape[1:]], "warnings": []}


def _kept(folder: Path, order: SynthOrder, rows: int) -> np.ndarray:
    """The rows that the generator may see: (rows,) bool."""
    return ~is_held_out(folder, order, rows)


def is_held_out(folder: Path, order: SynthOrder, rows: int) -> np.ndarray:
    """Those that were kept away from it, each by its own coin: (rows,) bool.

    Raises:
        DataError: the folder was shared without its private part.
    """
    if not order.test:
        return np.zeros(rows, bool)
    return read_split(folder, order.test).is_held_out(0, rows)
