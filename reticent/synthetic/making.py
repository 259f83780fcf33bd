"""From a table or images to a generator in a folder: price, pay, prepare, measure, write.

    run.json        what was asked for, the event, the guarantee, versions; as any run has it
    domain.toml     what is public about the table
    generator...    the model: safetensors and JSON, without a seed

A run that was stopped goes on from what is in its folder, and is never charged twice.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from copy import copy
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from reticent import __version__
from reticent.accounting.guarantee import Guarantee
from reticent.accounting.tight import guarantee
from reticent.core.errors import DataError, IntegrityError, ReticentError
from reticent.core.keys import Keys
from reticent.data.domain import Domain
from reticent.data.preparation import require_enough_rows
from reticent.data.preparation.noise import PreparationNoise
from reticent.distributed.agreement import require_alone
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import ApproximateDp, Composed, Event
from reticent.runs import folder as folders
from reticent.runs.onlooker import NOBODY, Onlooker
from reticent.runs.paying import (
    PLACES,
    charge,
    claim_beside,
    found_domain,
    mark_paid,
    pay,
    preparation_noise,
    preparation_record,
)
from reticent.runs.problem import checked_delta
from reticent.runs.stopping import said_when_stopped, what_now
from reticent.synthetic import embedding, gan, images, planning, tables
from reticent.synthetic.codes import Coder
from reticent.synthetic.ordering import SynthMaterial, SynthOrder, order_of, usable
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
    rows = material.rows - round(order.test * material.rows)
    noise = _preparation(material)
    assert order.delta is not None
    # The columns are not known before preparation: beside it, the generator gets a claim.
    share = claim_beside(noise.event if noise else None, epsilon=order.epsilon, delta=order.delta)
    event = _event(material, rows, noise, share)
    number = secrets.token_hex(8)
    record: dict[str, Any] = {
        "version": folders.VERSION,
        "kind": "generator",
        "state": "started",
        "number": number,
        "table": material.digest(number),
        "order": asdict(order),
        "rows": rows,
        "recipe": {"method": order.method, "in_words": _WORDS[order.method], "share": list(share)},
        "preparation": preparation_record(noise, delta=order.delta),
        "event": events.to_json(event),
        "split": secrets.randbits(63),
        "versions": {"reticent": __version__, "numpy": np.__version__},
        "dialect": _dialect(material),
    }
    folders.create(folder)
    with folders.held(folder), said_when_stopped(folder, record, onlooker, what="synth"):
        pay(folder, record, event, onlooker, what="synth", price=partial(_event_for, material, rows))
        return _go_on(folder, record, material, noise, keys or Keys.from_os(), onlooker, started)


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
            noise = _preparation(material)
            event = _event(material, record["rows"], noise, tuple(record["recipe"]["share"]))
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


# What it costs

_WORDS = {
    "mst": "noisy counts of columns and of a tree of pairs",
    "aim": "noisy counts of columns and of pairs, chosen round by round",
    "embedding": "one noisy sum of features",
    "gan": "a discriminator trained by DP-SGD, and a generator that sees only it",
}


def _preparation(material: SynthMaterial) -> PreparationNoise | None:
    order = material.order
    assert order.delta is not None
    return preparation_noise(material.releases(), epsilon=order.epsilon, delta=order.delta)


def _event(
    material: SynthMaterial, rows: int, noise: PreparationNoise | None, share: tuple[float, float]
) -> Event:
    """Everything that will be released, decided from what is public."""
    epsilon, delta = share
    if noise is not None:
        _require_enough(material, rows, noise, share)
        return Composed(events=(noise.event, ApproximateDp(epsilon=epsilon, delta=delta)))
    if material.is_images:
        return _image_plan(material, rows, share).event
    assert material.declared is not None
    return _table_plan(_coder(material, material.declared), rows, share, material.order.method).event


def _event_for(material: SynthMaterial, rows: int, epsilon: float) -> Event:
    """What the same generator would release if it were asked for with another epsilon."""
    other = copy(material)
    other.order = replace(material.order, epsilon=epsilon)
    noise = _preparation(other)
    assert other.order.delta is not None
    share = claim_beside(noise.event if noise else None, epsilon=epsilon, delta=other.order.delta)
    return _event(other, rows, noise, share)


def _require_enough(
    material: SynthMaterial, rows: int, noise: PreparationNoise, share: tuple[float, float]
) -> None:
    """Refuses, before it is paid for, what would drown in noise however few values the columns have."""
    assert material.table is not None
    if material.declared is None:
        require_enough_rows(material.table, noise, material.rows)
    columns = len(material.table.names) - len(material.order.ignore)
    planning.plan((2,) * max(columns, 1), rows, share[0], share[1], material.method)


def _coder(material: SynthMaterial, domain: Domain) -> Coder:
    return Coder(domain, ignore=material.order.ignore)


def _table_plan(coder: Coder, rows: int, share: tuple[float, float], method: str) -> planning.TablePlan:
    return planning.plan(
        coder.sizes, rows, share[0], share[1], method, target=coder.target, ordered=coder.ordered
    )


def _image_plan(
    material: SynthMaterial, rows: int, share: tuple[float, float]
) -> embedding.EmbeddingPlan | gan.GanPlan:
    epsilon, delta = share
    assert material.splits is not None
    shape = material.splits.train["x"].shape[1:]
    # Directions in which drawings that nobody made differ; for what is no square picture, others.
    prior = "strokes" if len(shape) == 2 and shape[0] == shape[1] else "waves" if len(shape) > 1 else "none"
    if material.order.method == "gan":
        return gan.plan(epsilon=epsilon, delta=delta, examples=rows, prior=prior)
    return embedding.plan(epsilon=epsilon, delta=delta, examples=rows, prior=prior)


# What is made


def _go_on(
    folder: Path,
    record: dict[str, Any],
    material: SynthMaterial,
    noise: PreparationNoise | None,
    keys: Keys,
    onlooker: Onlooker,
    started: float,
) -> Made:
    mark_paid(record, *keys.assumptions, *((PLACES,) if record["rows"] < material.rows else ()))
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
        "history": [],
        "seconds": time.perf_counter() - started,
        "warnings": about["warnings"],
    }
    folders.write_record(folder, record)
    folders.tidy(folder)
    return Made(folder=folder, record=record)


def _sentence(record: dict[str, Any]) -> Guarantee:
    names = ("the names of the columns are public",) if record["preparation"] is not None else ()
    rows = (f"the number of records, {record['rows']}, is public",)
    return guarantee(
        events.from_json(record["event"]),
        record["order"]["delta"],
        Adjacency.ADD_OR_REMOVE,
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
    coder = _coder(material, domain)
    warnings = [*coder.warnings, *(f"'{name}' {_LOST}" for name in lost)]
    for line in warnings:
        onlooker.warn(line)
    goal = folder / GENERATOR
    if goal.exists():  # it was written before the run was stopped: it is out, and is not drawn again
        tables.TableModel.load(goal)
    else:
        with onlooker.watch("encoding") as on_progress:
            codes = coder.encode(material.table, on_progress=on_progress)
        codes = codes[_kept(record, len(codes))]
        share = record["recipe"]["share"]
        plan = _table_plan(coder, record["rows"], (share[0], share[1]), order.method)
        with onlooker.watch("measuring and modelling") as on_progress:
            tables.fit(codes, plan, keys=keys, on_progress=on_progress).save(goal)
    digest = hashlib.sha256(goal.read_bytes()).hexdigest()
    return digest, {"shape": [len(coder.sizes)], "warnings": warnings}


def _images(
    folder: Path, record: dict[str, Any], material: SynthMaterial, keys: Keys, onlooker: Onlooker
) -> tuple[str, dict[str, Any]]:
    assert material.splits is not None
    kept = _kept(record, material.rows)
    x, y = (np.asarray(material.splits.train[name])[kept] for name in ("x", "y"))
    share = record["recipe"]["share"]
    plan = _image_plan(material, record["rows"], (share[0], share[1]))
    if not images.complete(folder):
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
    digest = hashlib.sha256((folder / images.TENSORS).read_bytes()).hexdigest()
    return digest, {"shape": [int(side) for side in x.shape[1:]], "warnings": []}


def _kept(record: dict[str, Any], rows: int) -> np.ndarray:
    """The rows that the generator may see: all, or those that chance left when some were held out."""
    order = np.random.default_rng(record["split"]).permutation(rows)
    return np.sort(order[: record["rows"]])


def held_out(record: dict[str, Any], rows: int) -> np.ndarray:
    """The others."""
    return np.setdiff1d(np.arange(rows), _kept(record, rows))
