"""What a generator says about itself: columns of noise, bounds that cut rows off, a model that is wrong."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from reticent.core.keys import Keys
from reticent.data.domain import Category, Domain, Number
from reticent.synthetic import pipeline
from reticent.synthetic.generators import Generator
from reticent.synthetic.quality import evaluation
from reticent.synthetic.request import SynthRequest
from reticent.synthetic.tables import planning, table_model
from reticent.synthetic.tables.codes import Coder
from reticent.synthetic.tables.plausibility import fit_to_counts, noise_warnings, quantiles
from reticent.synthetic.tables.table_model import TableModel


def made(
    rows: int, ages: tuple[float, float], *, epsilon: float = 1.0, seed: int = 0, other: bool = False
) -> tuple[TableModel, Coder]:
    """A model of ages between 18 and 68, about 40, in a column with these bounds."""
    random = np.random.default_rng(seed)
    age = np.round(np.clip(random.normal(40, 12, rows), 18, 68))
    columns = {
        "age": Number(bounds=ages, whole=True),
        "sex": Category(values=("f",) if other else ("f", "m"), other=other),
    }
    coder = Coder(Domain(columns=columns))
    bins = coder.columns[0].bins
    assert bins is not None
    codes = np.stack([bins.encode(age), random.integers(0, 2, rows)], axis=1).astype(np.int32)
    plan = planning.plan(coder.sizes, rows, epsilon, 1e-6, "mst", ordered=coder.ordered)
    return table_model.fit(codes, plan, keys=Keys.seeded(seed)), coder


def test_bounds_that_cut_off_most_rows_are_named() -> None:
    model, coder = made(5000, (32.0, 39.0))
    (said,) = noise_warnings(model, coder, ())
    assert "'age' has about" in said
    assert "at 32 and about" in said
    assert "Declare its bounds" in said
    assert not noise_warnings(model, coder, ("age",))  # somebody declared them, and means them


def test_a_column_of_which_one_word_was_found_is_named() -> None:
    model, coder = made(5000, (18.0, 68.0), other=True)
    (said,) = noise_warnings(model, coder, ())
    assert "'sex' has one word" in said
    assert "written as (other)" in said
    assert not noise_warnings(model, coder, ("sex",))


@pytest.mark.parametrize("seed", range(3))
def test_bounds_that_hold_the_rows_are_not_complained_about(seed: int) -> None:
    model, coder = made(5000, (18.0, 68.0), seed=seed)
    assert not noise_warnings(model, coder, ())


def test_columns_that_are_mostly_noise_are_named_and_others_are_not() -> None:
    model, coder = made(300, (18.0, 68.0))
    (said,) = noise_warnings(model, coder, ())
    assert said.startswith("'age'")
    assert "noise" in said
    assert "epsilon" in said


def test_quantiles_come_with_the_noise_they_carry() -> None:
    widths = {}
    for rows in (500, 50_000):
        model, coder = made(rows, (18.0, 68.0))
        low, shown, high = quantiles(model, coder)["age"]["50%"]
        assert low - 2 < 40 < high + 2  # half a bin
        assert low <= shown <= high
        widths[rows] = high - low
    assert widths[500] > 4 * widths[50_000]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rows", [300, 5000])
def test_a_model_fits_the_counts_it_was_made_of(seed: int, rows: int) -> None:
    model, _ = made(rows, (18.0, 68.0), seed=seed)
    assert fit_to_counts(model).has_passed


def test_a_model_that_lost_its_counts_fails() -> None:
    """A planted bug: the codes of a column come out in the reverse order, which samples do not show."""
    model, _ = made(5000, (18.0, 90.0))
    merging = model.merging
    upside_down = replace(
        merging,
        groups=(merging.groups[0][::-1].copy(), merging.groups[1]),
        shares=(merging.shares[0][::-1].copy(), merging.shares[1]),
    )
    found = fit_to_counts(replace(model, merging=upside_down))
    assert not found.has_passed
    assert found.worst_column == 0


def test_counts_survive_the_file_and_old_files_are_read(tmp_path: Path) -> None:
    model, _ = made(500, (18.0, 68.0))
    model.save(tmp_path / "m")
    read = TableModel.load(tmp_path / "m")
    assert read.counts is not None
    assert model.counts is not None
    for one, other in zip(read.counts, model.counts, strict=True):
        np.testing.assert_array_equal(one, other)
    replace(model, counts=None).save(tmp_path / "old")
    assert fit_to_counts(TableModel.load(tmp_path / "old")).worst_column is None


def _request(path: Path, test: float = 0.0) -> SynthRequest:
    domain = path.with_suffix(".toml")
    return SynthRequest(source=str(path), epsilon=20.0, domain=str(domain), method="mst", test=test)


def test_a_synthetic_table_is_written_as_its_original(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    lines = [f"'M\xfcnchen';{random.normal(5, 1):.2f}".replace(".", ",") for _ in range(200)]
    path = tmp_path / "t.csv"
    path.write_bytes("\n".join(["'Stadt';'Gr\xf6\xdfe'", *lines, ""]).encode("latin-1"))
    columns = {
        "Gr\xf6\xdfe": Number(bounds=(0.0, 10.0)),
        "Stadt": Category(values=("M\xfcnchen", "K\xf6ln;Deutz")),
    }
    written = "CSV, separated by semicolon, with a header, quoted by ', decimal comma, latin-1"
    Domain(columns=columns, format=written).write(path.with_suffix(".toml"))
    pipeline.make(_request(path), tmp_path / "g", keys=Keys.seeded(0))
    Generator(tmp_path / "g").write(tmp_path / "out.csv", 50, seed=0)
    head, *rows = (tmp_path / "out.csv").read_bytes().decode("latin-1").splitlines()
    assert head == "'Stadt';'Gr\xf6\xdfe'"
    assert any(row.startswith("'M\xfcnchen';") for row in rows)
    assert all(re.fullmatch(r"'[^']+';\d+,\d+", row) for row in rows)
    card = json.loads((tmp_path / "out.csv.card.json").read_text())
    assert card["differs from the original's file"] == ["words are in ', numbers are not"]
    assert set(card["quantiles"]) == {"Gr\xf6\xdfe"}


def test_membership_is_measured_with_rows_from_the_whole_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of this table come in order, and the first ones are unlike the others."""
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["a,b", *(f"{row // 8},{row % 2}" for row in range(800))]) + "\n")
    columns = {"a": Number(bounds=(0.0, 100.0)), "b": Category(values=("0", "1"))}
    Domain(columns=columns).write(path.with_suffix(".toml"))
    pipeline.make(_request(path, test=0.2), tmp_path / "g", keys=Keys.seeded(0))
    attack, seen = evaluation.density_attack, []

    def watched(model, training, held_out):
        seen.append((training[:, 0].mean(), held_out[:, 0].mean()))
        return attack(model, training, held_out)

    monkeypatch.setattr(evaluation, "density_attack", watched)
    evaluation.evaluate(Generator(tmp_path / "g"))
    ((ours, theirs),) = seen
    assert abs(ours - theirs) < 4  # of 32 bins; the first rows alone have a mean of 3, and the others of 16
