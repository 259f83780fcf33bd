"""A run knows its rows again: another table, or another order of the same one, is refused by name."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.core.errors import DataError, IntegrityError, InvalidArgument
from reticent.core.keys import Keys
from reticent.core.observer import NOBODY, Observer
from reticent.data.domain import Domain, Label, Number
from reticent.data.files.shards import shard_of
from reticent.data.held_out import Split
from reticent.runs import arrays, spill
from reticent.runs.fit import fit, resume
from reticent.runs.reopen import open_again
from reticent.runs.request import Request
from reticent.runs.row_fingerprint import NO_ROWS, KnownRows, RowDigest, fingerprint_rows
from reticent.runs.source import Source
from reticent.synthetic import pipeline
from reticent.synthetic.generators import Generator
from reticent.synthetic.quality.evaluation import evaluate
from reticent.synthetic.request import SynthRequest
from reticent.training import loop

ROWS = 200


def write_table(path: Path) -> list[str]:
    lines = [f"{row},{row % 7},{'yes' if row % 7 > 3 else 'no'}" for row in range(ROWS)]
    path.write_text("\n".join(["a,b,target", *lines]) + "\n")
    domain = Domain(
        columns={
            "a": Number(bounds=(0.0, float(ROWS))),
            "b": Number(bounds=(0.0, 7.0)),
            "target": Label(values=("no", "yes")),
        },
        target="target",
    )
    path.with_suffix(".toml").write_text(domain.to_toml())
    return lines


def request_for(path: Path, method: str = "output") -> Request:
    return Request(
        source=str(path), epsilon=4.0, target="target", domain=str(path.with_suffix(".toml")), method=method
    )


def swap_two(lines: list[str]) -> list[str]:
    return [*lines[:5], lines[9], *lines[6:9], lines[5], *lines[10:]]


def shuffle(lines: list[str]) -> list[str]:
    return random.Random(0).sample(lines, len(lines))


CHANGES: dict[str, tuple[Callable[[list[str]], list[str]], str]] = {
    "two rows swapped": (swap_two, "in another order"),
    "shuffled": (shuffle, "in another order"),
    "shortened": (lambda lines: lines[:-1], "is shorter than .*: 199 rows, not 200"),
    "lengthened": (lambda lines: [*lines, lines[0]], "is longer than .*: 201 rows, not 200"),
    "one cell changed": (lambda lines: ["1,0,no", *lines[1:]], "at least one cell differs"),
    "one row for another": (lambda lines: [*lines[:-1], lines[0]], "at least one cell differs"),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("rows")
    write_table(folder / "t.csv")
    fit(request_for(folder / "t.csv"), folder / "run", keys=Keys.seeded(0))
    return folder / "t.csv", folder / "run"


@pytest.mark.parametrize("change", CHANGES)
def test_another_table_is_named_and_refused(finished: tuple[Path, Path], tmp_path: Path, change: str) -> None:
    table, run = finished
    header, *lines = table.read_text().splitlines()
    changed, said = CHANGES[change]
    other = tmp_path / "other.csv"
    other.write_text("\n".join([header, *changed(lines)]) + "\n")
    with pytest.raises(IntegrityError, match=said) as refused:
        open_again(run, data=other)
    assert "--data FILE" in refused.value.remedy


def test_a_moved_table_is_found_and_may_be_written_in_another_way(
    finished: tuple[Path, Path], tmp_path: Path
) -> None:
    table, run = finished
    moved = tmp_path / "moved.csv"
    moved.write_text(table.read_text().replace(",", ";").replace("\n", "\r\n"))
    before, after = open_again(run), open_again(run, data=moved)
    np.testing.assert_array_equal(before.train_on["x"], after.train_on["x"])


def test_a_run_without_a_fingerprint_says_that_it_cannot_be_checked(tmp_path: Path) -> None:
    write_table(tmp_path / "t.csv")
    fit(request_for(tmp_path / "t.csv"), tmp_path / "run", keys=Keys.seeded(0))
    kept = tmp_path / "run" / "private" / "fingerprint.json"
    assert kept.stat().st_mode & 0o077 == 0
    said: list[str] = []
    open_again(tmp_path / "run", observer=Observer(warn=said.append))
    assert not said
    kept.unlink()
    open_again(tmp_path / "run", observer=Observer(warn=said.append))
    assert len(said) == 1
    assert "cannot be checked" in said[0]
    kept.write_text('{"key": "00"}')
    with pytest.raises(IntegrityError, match="damaged"):
        open_again(tmp_path / "run")


def test_a_dataset_of_the_catalog_is_not_moved(tmp_path: Path) -> None:
    fit(Request(source="breast_cancer", epsilon=4.0, method="output"), tmp_path / "run", keys=Keys.seeded(0))
    open_again(tmp_path / "run")
    with pytest.raises(InvalidArgument, match="of the catalog"):
        open_again(tmp_path / "run", data=tmp_path / "other.csv")


def test_a_stopped_run_resumes_with_a_moved_table_and_not_with_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = write_table(tmp_path / "t.csv")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(loop, "_compiled", lambda *_: stop)
        with pytest.raises(DataError, match="Interrupted"):
            fit(request_for(tmp_path / "t.csv", "gd"), tmp_path / "run", keys=Keys.seeded(0))
    moved = (tmp_path / "t.csv").rename(tmp_path / "moved.csv")
    for changed, said in ((lines[:-1], "is shorter than"), (shuffle(lines), "changed or reordered")):
        other = tmp_path / "other.csv"
        other.write_text("\n".join(["a,b,target", *changed]) + "\n")
        with pytest.raises(IntegrityError, match=said):
            resume(tmp_path / "run", data=other)
    assert resume(tmp_path / "run", data=moved).record.state == "finished"
    open_again(tmp_path / "run", data=moved)


def test_rows_on_disk_have_the_fingerprint_of_rows_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_table(tmp_path / "t.csv")
    found = []
    for is_large in (False, True):
        monkeypatch.setattr(spill, "is_too_large", lambda *_, is_large=is_large: is_large)
        source = Source(request_for(tmp_path / "t.csv"))
        source.split, source.row_digest = Split(share=0.2, seed=1), RowDigest(b"k" * 32)
        (tmp_path / f"{is_large}").mkdir()
        arrays.divided_by(source, source.public_domain, NOBODY, scratch=tmp_path / f"{is_large}")
        found.append(source.row_digest.total())
    assert found[0] == found[1]
    assert found[0].rows == ROWS


def test_shards_add_up_to_the_table(tmp_path: Path) -> None:
    """What each of three processes takes in, of its own rows."""
    write_table(tmp_path / "t.csv")
    found, first = [], 0
    for number in (None, 0, 1, 2):
        source = Source(request_for(tmp_path / "t.csv"))
        source.split, source.row_digest = Split(share=0.2, seed=1), RowDigest(b"k" * 32)
        if number is not None:
            assert source.table is not None
            source.table, source.first = shard_of(source.table, number, 3), first
            first += source.table.row_count
        arrays.divided_by(source, source.public_domain, NOBODY)
        found.append(source.row_digest.total())
    whole, *parts = found
    assert sum(parts, start=NO_ROWS) == whole


def test_a_generator_is_not_judged_by_rows_in_another_order(tmp_path: Path) -> None:
    lines = write_table(tmp_path / "t.csv")
    request = SynthRequest(
        source=str(tmp_path / "t.csv"),
        epsilon=10.0,
        target="target",
        domain=str(tmp_path / "t.toml"),
        test=0.2,
        method="mst",
    )
    pipeline.make(request, tmp_path / "made", keys=Keys.seeded(0))
    assert KnownRows.read(tmp_path / "made") is not None
    (tmp_path / "t.csv").write_text("\n".join(["a,b,target", *shuffle(lines)]) + "\n")
    with pytest.raises(IntegrityError, match="in another order"):
        evaluate(Generator(tmp_path / "made"))


@given(st.lists(st.integers(0, 3), max_size=12), st.lists(st.integers(0, 3), max_size=12), st.integers(0, 12))
def test_fingerprints_tell_tables_apart_and_add_up(first: list[int], other: list[int], cut: int) -> None:
    def digest(rows: list[int], start: int = 0):
        return fingerprint_rows(b"key", {"x": np.array(rows, np.int32), "y": np.zeros(len(rows))}, start)

    whole = digest(first)
    assert digest(first[:cut]) + digest(first[cut:], min(cut, len(first))) == whole
    assert (whole == digest(other)) == (first == other)
    assert (whole.in_any_order == digest(other).in_any_order) == (sorted(first) == sorted(other))
