"""Rows that are held out, of models and of generators: by one function, from a seed that stays at home."""

from __future__ import annotations

import json
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from reticent import convex
from reticent.audit.from_run import audit_run
from reticent.core.errors import DataError, IntegrityError
from reticent.core.keys import Keys
from reticent.core.observer import NOBODY, Observer
from reticent.data import held_out
from reticent.data.dataset import Dataset
from reticent.data.domain import Domain, Label, Number
from reticent.data.held_out import BLOCK, Split
from reticent.data.sampling import Poisson
from reticent.report.from_run import collect_facts
from reticent.runs import arrays
from reticent.runs.fit import fit, resume
from reticent.runs.folder import read_record
from reticent.runs.learners import learner
from reticent.runs.method import Inputs
from reticent.runs.methods.table import METHODS, read
from reticent.runs.origin import mark_as_own
from reticent.runs.predict import Predictor
from reticent.runs.private_part import read_split
from reticent.runs.problem import Problem
from reticent.runs.reopen import open_again
from reticent.runs.request import Request
from reticent.runs.source import Source
from reticent.synthetic import pipeline, pricing
from reticent.synthetic.generators import Generator
from reticent.synthetic.quality.evaluation import evaluate
from reticent.synthetic.request import SynthRequest, SynthSource
from reticent.training import loop
from reticent.training.checkpoint import Checkpoints

ROWS = 400
SHARE = 0.2
# The runs of pate are in test_pate_runs, those of federated, which needs users, in test_federate_command.
WITHOUT_PUBLIC_ROWS = [name for name in METHODS if name not in ("pate", "federated")]

Coins = Callable[[np.ndarray], None]


def table_of(folder: Path, rows: int = ROWS, *, without: int | None = None) -> Request:
    """An order for rows that are all different, and what is declared about them."""
    folder.mkdir(exist_ok=True)
    numbers = [row for row in range(rows) if row != without]
    lines = [f"{row},{row % 7},{'yes' if row % 7 > 3 else 'no'}" for row in numbers]
    (folder / "t.csv").write_text("\n".join(["a,b,y", *lines, ""]))
    columns = {"a": Number(bounds=(0, 1000)), "b": Number(bounds=(0, 6)), "y": Label(values=("no", "yes"))}
    Domain(columns=columns, target="y").write(folder / "t.toml")
    return Request(
        source=str(folder / "t.csv"),
        target="y",
        domain=str(folder / "t.toml"),
        epsilon=8.0,
        test=SHARE,
    )


@pytest.fixture
def coins(monkeypatch: pytest.MonkeyPatch) -> Iterator[Coins]:
    """Gives the first rows of every table these coins: numbers from 0 to 1, below the share held out."""

    def give(chosen: np.ndarray) -> None:
        block = np.zeros(BLOCK, np.uint64)
        block[: len(chosen)] = (chosen * 2.0**63).astype(np.uint64) * np.uint64(2)
        held_out._draw_block.cache_clear()
        monkeypatch.setattr(held_out, "_coins", lambda seed, block_number: block)

    yield give
    held_out._draw_block.cache_clear()


def divided(order: Request) -> tuple[set[float], set[float]]:
    """What the first column says of each row: of those to train on, and of the others."""
    source = Source(order)
    source.split = Split(share=order.test, seed=0)
    found = arrays.divided_by(source, source.public_domain, NOBODY)
    return set(found.train_on["x"][:, 0].tolist()), set(found.held_out["x"][:, 0].tolist())


@pytest.mark.parametrize("gone", [0, 7, ROWS - 1])
def test_a_row_that_goes_moves_no_other_in_train_and_in_synth(
    tmp_path: Path, coins: Coins, gone: int
) -> None:
    chosen = np.random.default_rng(gone).random(ROWS)
    whole, rest = table_of(tmp_path / "whole"), table_of(tmp_path / "rest", without=gone)
    coins(chosen)
    before = divided(whole)
    mask = pipeline.is_held_out(generator_with_seed(tmp_path), SynthSource(synth(whole)))
    coins(np.delete(chosen, gone))
    after = divided(rest)
    masks = mask, pipeline.is_held_out(generator_with_seed(tmp_path), SynthSource(synth(rest)))
    assert sum(len(one ^ other) for one, other in zip(before, after, strict=True)) == 1
    assert np.array_equal(np.delete(masks[0], gone), masks[1])
    assert masks[0].sum() == len(before[1])  # both commands hold out the same rows


def generator_with_seed(folder: Path) -> Path:
    (folder / "g" / "private").mkdir(parents=True, exist_ok=True)
    (folder / "g" / "private" / "split.json").write_text('{"seed": "' + 32 * "0" + '"}')
    return folder / "g"


def synth(order: Request) -> SynthRequest:
    return SynthRequest(source=order.source, domain=order.domain, epsilon=8.0, method="mst", test=order.test)


def test_train_and_synth_hold_out_the_same_rows_for_the_same_keys(tmp_path: Path) -> None:
    order = replace(table_of(tmp_path), method="output")
    fit(order, tmp_path / "run", keys=Keys.seeded(0))
    pipeline.make(synth(order), tmp_path / "g", keys=Keys.seeded(0))
    ours, theirs = (read_split(tmp_path / name, SHARE) for name in ("run", "g"))
    assert ours == theirs == Split.draw(SHARE, Keys.seeded(0))
    is_held_out = pipeline.is_held_out(tmp_path / "g", SynthSource(synth(order)))
    assert np.array_equal(is_held_out, ours.is_held_out(0, ROWS))
    again = open_again(tmp_path / "run")
    assert len(again.held_out["y"]) == is_held_out.sum()
    assert len(again.train_on["y"]) == ROWS - is_held_out.sum()


class Listener:
    """An observer that remembers what was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    @property
    def observer(self) -> Observer:
        return Observer(say=self.lines.append, warn=self.lines.append)


@pytest.mark.parametrize("method", WITHOUT_PUBLIC_ROWS)
@pytest.mark.thorough
def test_what_a_run_says_are_public_numbers_whatever_the_coins(
    tmp_path: Path, coins: Coins, method: str
) -> None:
    """Plans, divisors and sentences are the same for two draws that leave different numbers."""
    order, said = replace(table_of(tmp_path), method=method), []
    for held in (30, 130):
        coins(np.where(np.arange(ROWS) < held, 0.0, 0.9))
        listener = Listener()
        folder = tmp_path / f"run {held}"
        record = fit(order, folder, keys=Keys.seeded(0), observer=listener.observer).record.to_json()
        assert len(open_again(folder).held_out["y"]) == held
        assert "rows" not in record["metrics"]  # how many were held out is as secret
        public = ("records", "rows", "recipe", "event", "guarantee", "sentence", "problem", "assumptions")
        lines = [line.replace(str(folder), "") for line in listener.lines]
        said.append({"lines": lines, **{key: record[key] for key in public}})
        secret = rf"(?<![\d.]){ROWS - held}(?![\d.])"
        assert not re.search(secret, str(said[-1])), "the number of rows that coins left"
    assert said[0] == said[1]
    assert (said[0]["records"], said[0]["rows"]) == (ROWS, 320)
    declared = ROWS if method in ("sgd", "gd", "prototype", "least_squares") else 320
    assert f"the number of records, {declared}, is public" in said[0]["sentence"]
    if method in ("sgd", "gd"):
        assert said[0]["recipe"]["plan"]["sampler"]["examples"] == ROWS


def test_convex_methods_divide_by_the_expected_number_and_rows_without_a_target_add_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit(replace(table_of(tmp_path), method="output"), tmp_path / "run", keys=Keys.seeded(0))
    again, declared, real = open_again(tmp_path / "run"), [], convex.fit
    nowhere = Checkpoints(path=Path(), stamp="")

    def watched(*data: Any, **terms: Any) -> Any:
        declared.append(terms["examples"])
        return real(*data, **terms)

    def followed(rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return (
            read(again.record.recipe)
            .follow(Inputs(again.learner, again.problem, rows, rows, Keys.seeded(1), nowhere))
            .params
        )

    monkeypatch.setattr(convex, "fit", watched)
    missing = {
        **again.train_on,
        "y": np.where(np.arange(len(again.train_on["y"])) < 9, -1, again.train_on["y"]),
    }
    found = [followed(rows) for rows in (missing, {key: part[9:] for key, part in again.train_on.items()})]
    assert all(np.array_equal(found[0][key], found[1][key]) for key in ("w", "b"))
    assert declared == [320, 320]


@pytest.mark.parametrize(
    ("method", "held"),
    [*((method, "everybody") for method in WITHOUT_PUBLIC_ROWS), ("sgd", "nobody"), ("output", "nobody")],
)
def test_coins_that_leave_a_side_empty_stop_nothing(
    tmp_path: Path, coins: Coins, method: str, held: str
) -> None:
    """In a table of 25 rows, all sides of the coins are tried: none of them is an error to notice.

    What a method makes of nobody to train on is its own; that nobody is left to score on is the same for all.
    """
    order = table_of(tmp_path, 25)
    coins(np.full(25, 0.0 if held == "everybody" else 0.9))
    record = fit(replace(order, method=method), tmp_path / "run", keys=Keys.seeded(0)).record
    assert record.state == "finished"
    if held == "nobody":
        assert record.to_json()["metrics"] == {"label": "no rows were held out"}
    else:
        assert len(open_again(tmp_path / "run").held_out["y"]) == 25


def test_a_tiny_table_is_trained_on(tmp_path: Path) -> None:
    assert fit(table_of(tmp_path, 25), tmp_path / "run", keys=Keys.seeded(1)).record.state == "finished"


def test_generators_are_made_however_many_rows_are_left(tmp_path: Path, coins: Coins) -> None:
    order = synth(table_of(tmp_path))
    for held in (0, 200):
        coins(np.where(np.arange(ROWS) < held, 0.0, 0.9))
        done = pipeline.make(order, tmp_path / f"g {held}", keys=Keys.seeded(0))
        assert (done.record.rows, done.record.records) == (320, ROWS)
    coins(np.full(ROWS, 0.9))
    with pytest.raises(DataError, match="0 rows were held out"):
        evaluate(Generator(tmp_path / "g 0"))


@pytest.mark.parametrize(
    ("records", "rows"), [(60_000, 48_000), (1797, 1438), (50, 40), (50, 25), (100, 100)]
)
def test_batches_of_a_gan_have_room_for_every_draw_of_the_coins(records: int, rows: int) -> None:
    declared = pricing._declared_records(records, rows)
    room = Poisson(examples=declared, batch_size=1).most
    assert room >= records or binom.sf(room, records, rows / records) <= 1e-25
    assert rows <= declared <= records


def test_the_seed_is_in_a_part_of_the_folder_that_only_its_owner_can_read(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    fit(replace(table_of(tmp_path), method="output"), folder, keys=Keys.seeded(0))
    seed = read_split(folder, SHARE).seed
    private = folder / "private"
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert stat.S_IMODE((private / "split.json").stat().st_mode) == 0o600
    released = b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file())
    assert f"{seed:x}".encode() not in released
    assert str(seed).encode() not in released
    assert "split" not in json.loads((folder / "run.json").read_text())


def test_a_run_that_was_shared_without_its_private_part_is_still_of_use(tmp_path: Path) -> None:
    order = replace(table_of(tmp_path), method="output")
    fit(order, tmp_path / "run", keys=Keys.seeded(0))
    pipeline.make(synth(order), tmp_path / "g", keys=Keys.seeded(0))
    for name in ("run", "g"):
        shutil.copytree(tmp_path / name, tmp_path / f"shared {name}", ignore=lambda *_: {"private"})
    shared = tmp_path / "shared run"
    assert Predictor(shared).problem == Predictor(tmp_path / "run").problem
    assert "differential privacy" in json.dumps(collect_facts(shared).to_json())
    assert len(Generator(tmp_path / "shared g").sample(5)["y"]) == 5
    for needs_it in (lambda: open_again(shared), lambda: evaluate(Generator(tmp_path / "shared g"))):
        with pytest.raises(DataError, match="was not made by you") as error:
            needs_it()
        assert "reticent trust" in error.value.remedy
    mark_as_own(shared, read_record(shared))
    with pytest.raises(DataError, match=r"split\.json is missing: it says which rows were held out") as error:
        open_again(shared)
    assert "copy private/ from there" in error.value.remedy
    shutil.rmtree(shared / "private")
    shutil.copytree(tmp_path / "run" / "private", shared / "private")
    assert len(open_again(shared).held_out["y"]) > 0
    (shared / "private" / "split.json").write_text("{}")
    with pytest.raises(IntegrityError, match="damaged"):
        open_again(shared)


def test_a_stopped_run_goes_on_with_the_same_rows_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"

    def stop(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(loop, "_compiled", lambda *_: stop)
        with pytest.raises(DataError, match="Interrupted"):
            fit(replace(table_of(tmp_path), model="linear"), folder, keys=Keys.seeded(0))
    split = read_split(folder, SHARE)
    (folder / "private" / "split.json").rename(tmp_path / "elsewhere")
    with pytest.raises(DataError, match="is missing"):
        resume(folder)
    (tmp_path / "elsewhere").rename(folder / "private" / "split.json")
    assert resume(folder, keys=Keys.from_os()).record.state == "finished"
    assert read_split(folder, SHARE) == split


def test_data_that_changed_are_not_divided_again(tmp_path: Path) -> None:
    fit(replace(table_of(tmp_path), method="output"), tmp_path / "run", keys=Keys.seeded(0))
    table_of(tmp_path, without=3)
    with pytest.raises(IntegrityError, match="is shorter than"):
        open_again(tmp_path / "run")


@pytest.mark.thorough
def test_a_run_is_audited_and_trained_again_on_the_rows_that_coins_left(tmp_path: Path) -> None:
    fit(replace(table_of(tmp_path), method="gd", test=0.5), tmp_path / "run", keys=Keys.seeded(0))
    found = audit_run(open_again(tmp_path / "run"), canaries=50, keys=Keys.seeded(1))
    assert found.verdict.exit_code == 0


def test_rows_of_a_user_stay_together() -> None:
    users = np.repeat(np.arange(100), 5)
    data = Dataset(arrays={"x": users[:, None].astype(np.float32), "y": np.zeros(500, np.int32)}, users=users)
    train_on, others = arrays._by_chance(data, Split(share=0.3, seed=1), 0)
    assert not set(train_on["x"][:, 0]) & set(others["x"][:, 0])
    assert len(train_on["y"]) + len(others["y"]) == 500


def test_features_that_are_rounded_by_place_are_computed_where_a_neighbour_has_them() -> None:
    """A record lies at a secret place among more places than there are records, and comes back in order."""
    seen: list[np.ndarray] = []

    def inputs(x: np.ndarray, on_progress: Any = None, /) -> np.ndarray:
        seen.append(x)
        return x[:, :2] + np.arange(len(x))[:, None] / 1024  # as if rounding went by place

    problem = Problem(rows=50, shape=(3,), classes=("a", "b"), bounds=None, scale=1.0)
    rows = np.arange(1, 151, dtype=np.float32).reshape(50, 3)
    parts = arrays.DividedRows(problem, {"x": rows, "y": np.zeros(50)}, {"x": rows[:4], "y": np.zeros(4)})
    learn = replace(learner("linear", problem), inputs=inputs, rounds_by_place=True)
    train_on, held_out = arrays.parts_as_inputs(learn, parts, Keys.seeded(3), NOBODY)
    assert len(seen[0]) == Poisson(examples=50, batch_size=1).most
    places = np.round((train_on["x"] - rows[:, :2])[:, 0] * 1024).astype(int)
    assert np.array_equal(seen[0][places], rows)
    assert len(set(places.tolist())) == 50
    assert not np.array_equal(places, np.sort(places))
    assert len(held_out["x"]) == 4
