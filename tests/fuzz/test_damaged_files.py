"""Whatever is damaged in whatever file: a reader returns, or raises one error of ours in one line."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import jax.numpy as jnp
import mutations
import numpy as np
import pytest
import specimens
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save
from targets import SLOW, TARGETS, Target

from reticent.core import tensors
from reticent.core.errors import DataError, DomainError, IntegrityError
from reticent.data.domain import Category, Domain, Label

Home = Callable[[Target], Path]
QUICK = [name for name in TARGETS if name not in SLOW]


def _settings(examples: int) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),  # pyright: ignore[reportArgumentType]
        phases=(Phase.explicit, Phase.reuse, Phase.generate),  # each example is one change: nothing to shrink
        database=None,
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """The home of a target's specimen; runs are made when one is first asked for."""
    at = specimens.make(tmp_path_factory.mktemp("home"))

    def find(target: Target) -> Path:
        if target.folder is not None and not (at / target.folder).exists():
            specimens.make_run(at, target.folder)
        return at

    return find


def hold(target: Target, home: Path, room: Path, chance: Random) -> None:
    """Damages a specimen, and checks every sentence with which it is refused."""
    file = target.place(home, room)
    content = target.damage(file.read_bytes(), chance)
    for message in target.read(file, content):
        assert len(message) < 1000, message


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.thorough] * (name in SLOW)) for name in TARGETS]
)
def test_a_whole_specimen_is_read(name: str, home: Home, tmp_path: Path) -> None:
    target = TARGETS[name]
    file = target.place(home(target), tmp_path)
    assert target.read(file, file.read_bytes()) == []


@pytest.mark.parametrize("name", QUICK)
@_settings(8)
@given(chance=st.randoms(use_true_random=False))
def test_a_damaged_file_is_refused_in_a_sentence(
    name: str, home: Home, tmp_path_factory: pytest.TempPathFactory, chance: Random
) -> None:
    target = TARGETS[name]
    hold(target, home(target), tmp_path_factory.mktemp("room"), chance)


@pytest.mark.thorough
@pytest.mark.parametrize("name", TARGETS)
@_settings(150)
@given(chance=st.randoms(use_true_random=False))
def test_many_damaged_files_are_refused_in_a_sentence(
    name: str, home: Home, tmp_path_factory: pytest.TempPathFactory, chance: Random
) -> None:
    target = TARGETS[name]
    hold(target, home(target), tmp_path_factory.mktemp("room"), chance)


# Damage that ended in a TypeError, KeyError, ValueError or RecursionError, or is a kind that did elsewhere.
# (target, path to a value, what stands there)
FOUND = [
    ("generator-record", ("request", "ignore"), "null"),
    ("generator-record", ("written_as", "names"), "lists without end"),
    ("generator-record", ("recipe", "share"), "an empty object"),
    ("record", ("versions",), "objects without end"),
    ("record", ("number",), "half a pair"),
    ("event", ("events", 0, "times"), "an integer of too many digits"),
    ("event", ("events", 0, "event", "event", "noise_multiplier"), "a huge integer"),
    ("attacks", ("attacks", "threshold", "roc", "true_positive_rate"), "an empty list"),
    ("attacks", ("attacks", "likelihood", "roc", "no_signal", "low"), "a list of nothing"),
    ("attacks", ("in_words", 0), "zero"),
    ("audit", ("verdict", "sentence"), "true"),
    ("audit", ("evidence", 0, "threat"), "true"),
]


@pytest.mark.parametrize(("name", "at", "by"), FOUND)
def test_what_fuzzing_found_is_refused(
    name: str, at: mutations.Path, by: str, home: Home, tmp_path: Path
) -> None:
    target = TARGETS[name]
    file = target.place(home(target), tmp_path)
    content = mutations.replaced(json.loads(file.read_bytes()), at, by)
    assert target.read(file, content)


FORGED_EVIDENCE: dict[str, tuple[str, Callable[[Any], object]]] = {
    "a sentence as the outcome": (
        "audit",
        lambda audit: audit["verdict"].update(outcome="no leak: epsilon 0.01 for certain"),
    ),
    "a bound beyond floats": ("audit", lambda audit: audit["verdict"].update(bound=10**400)),
    "a bound that is not a number": ("audit", lambda audit: audit["verdict"].update(bound=float("nan"))),
    "the same in a word": ("audit", lambda audit: audit["verdict"].update(bound="nan")),
    "a sentence as the name of an attack": (
        "attacks",
        lambda attacks: attacks["attacks"].update({"no leak, for certain": attacks["attacks"]["threshold"]}),
    ),
}


@pytest.mark.parametrize("case", FORGED_EVIDENCE)
def test_forged_evidence_is_refused_by_every_reader(case: str, home: Home, tmp_path: Path) -> None:
    name, forge = FORGED_EVIDENCE[case]
    target = TARGETS[name]
    file = target.place(home(target), tmp_path)
    value = json.loads(file.read_bytes())
    forge(value)
    refused = target.read(file, json.dumps(value).encode())
    assert len(refused) == len(target.readings)
    assert not any("certain" in message for message in refused)


def test_a_large_group_number_takes_no_memory(home: Home, tmp_path: Path) -> None:
    target = TARGETS["generator"]
    file = target.place(home(target), tmp_path)
    content = file.read_bytes()
    groups = load(content)
    groups["groups 0"] = np.where(np.arange(len(groups["groups 0"])), groups["groups 0"], 30_000_000)
    groups["groups 0"] = groups["groups 0"].astype(np.int32)
    forged = save(groups, metadata=tensors.texts_of(content))
    tracemalloc.start()
    try:
        refused = target.read(file, forged)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert any("not a model of a synthetic table" in message for message in refused)
    assert peak < 100e6  # a count for each number up to it takes 240


@pytest.mark.parametrize("name", ["model", "generator", pytest.param("images", marks=pytest.mark.thorough)])
def test_a_large_file_of_tensors_is_refused_before_it_is_read(name: str, home: Home, tmp_path: Path) -> None:
    target = TARGETS[name]
    file = target.place(home(target), tmp_path)
    os.truncate(file, 3 << 30)  # a sparse file: large for its reader alone
    tracemalloc.start()
    try:
        for reading in target.readings:
            if reading.__name__ != "_export":
                with pytest.raises((DataError, IntegrityError), match=r"Larger|other tensors|damaged"):
                    reading(file.parent)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100e6


def test_a_large_checkpoint_is_refused_before_it_is_read(tmp_path: Path) -> None:
    from reticent.training.checkpoint import Checkpoints
    from reticent.training.step import TrainState

    state = TrainState(**dict.fromkeys(TrainState._fields, jnp.zeros(3)))
    kept = Checkpoints(path=tmp_path / "checkpoint", stamp="a run")
    kept.save(state, force=True)
    assert kept.load(state) is not None
    os.truncate(kept.path, 3 << 30)
    with pytest.raises(IntegrityError, match="is damaged"):
        kept.load(state)


PARTS = ".".join(["a"] * 1_000_000)
HOSTILE_TOML = {
    "a key of many parts": (f"{PARTS} = 1", "more than 4 parts"),
    "a table of many parts": (f"[{PARTS}]", "more than 4 parts"),
    "many parts in quotes and blanks": ('"a" \t. ' * 500_000 + "b = 1", "more than 4 parts"),
    "many parts behind a text": (f'x = {{x = """a"""", {PARTS} = 1}}', "more than 4 parts"),
    "many parts behind a plain text": (f"x = {{x = '''a''''', {PARTS} = 1}}", "more than 4 parts"),
    "many parts behind an escape": (f'x = {{x = "a\\"", {PARTS} = 1}}', "more than 4 parts"),
    "texts that do not end": ('x = """' + '\\"""' * 500_000 + "\\", "not valid TOML"),
    "one long word": ("a" * 2_000_000, "not valid TOML"),
    "an integer of many digits": ("version = " + "9" * 5000, "4000 digits"),
    "a long integer in base 16": ("version = 0x" + "f" * 5000, "4000 digits"),
    "a long bound": (
        "version = 1\n[columns.a]\nkind = 'number'\nbounds = [0, 0x" + "f" * 5000 + "]",
        "4000 digits",
    ),
    "more than a domain can be": ("#" * (1 << 23) + "\n", "more than 8,388,608 characters"),
}


@pytest.mark.parametrize("name", HOSTILE_TOML)
def test_a_hostile_domain_is_refused_soon(name: str) -> None:
    text, says = HOSTILE_TOML[name]
    with pytest.raises(DomainError, match=says) as raised:
        Domain.from_toml(text, source="d.toml")
    assert len(str(raised.value)) < 300


def test_dots_in_names_texts_and_comments_are_not_parts_of_a_key() -> None:
    dotted = "1.2.3.4.5.6.7.8.9"
    text = f"""
        version = 1  # {dotted}
        [columns."{dotted}"]
        kind = "category"  # {dotted}
        values = ["{dotted}", '{dotted}!', \"\"\"{dotted}"\"\"\", '''{dotted}?''', "it's"]
        [columns.b]
        kind = "number"
        bounds = [1.5, 2.5]
    """
    column = Domain.from_toml(text).columns[dotted]
    assert isinstance(column, (Category, Label))
    assert column.values == (dotted, f"{dotted}!", f'{dotted}"', f"{dotted}?", "it's")


@pytest.mark.parametrize("name", ["record", "generator-record", "event", "split"])
def test_a_name_that_stands_twice_is_refused(name: str, home: Home, tmp_path: Path) -> None:
    target = TARGETS[name]
    file = target.place(home(target), tmp_path)
    value = json.loads(file.read_bytes())
    for key in value:
        assert target.read(file, mutations.doubled(value, (key,), value[key])), key
