"""Cells of which training saw none: they count as what is typical, never as a weight that is all noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reticent.core.errors import DataError, DomainError
from reticent.core.keys import Keys
from reticent.data.domain import Category, Domain, Number
from reticent.data.encoding import OddCells, encode, feature_names
from reticent.data.files import Table, open_table
from reticent.data.preparation import prepare
from reticent.data.preparation.noise import PreparationNoise, PreparationRelease

LOUD = PreparationNoise(noise_multiplier=1.0, delta=1e-6)


def written(folder: Path, *lines: str, name: str = "t.csv") -> Table:
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return open_table(path, header=True)


def many(folder: Path, *extra: str, absent: float = 0.0) -> Table:
    rng = np.random.default_rng(0)
    lines = ["age,sex,y"]
    for _ in range(4000):
        age = "" if rng.random() < absent else rng.integers(20, 70)
        sex = "" if rng.random() < absent else "fm"[int(rng.random() < 0.25)]
        lines.append(f"{age},{sex},{'yes' if rng.random() < 0.5 else 'no'}")
    return written(folder, *lines, *extra)


def test_cells_that_hardly_any_row_lacks_have_no_feature(tmp_path: Path) -> None:
    domain = prepare(many(tmp_path, ",,no"), LOUD, Keys.seeded(0), target="y", keeps_rest=False).domain
    assert feature_names(domain) == ("age", "sex = f", "sex = m")
    age, sex = domain.columns["age"], domain.columns["sex"]
    assert isinstance(age, Number)
    assert age.typical == pytest.approx(44.5, abs=6)
    assert isinstance(sex, Category)
    assert sex.prior == pytest.approx((0.75, 0.25), abs=0.03)


def test_cells_that_many_rows_lack_have_one(tmp_path: Path) -> None:
    table = many(tmp_path, absent=0.2)
    domain = prepare(table, LOUD, Keys.seeded(0), target="y", keeps_rest=False).domain
    assert feature_names(domain) == ("age", "age = (missing)", "sex = f", "sex = m", "sex = (missing)")
    kept = prepare(many(tmp_path), LOUD, Keys.seeded(0), target="y", keeps_rest=True).domain
    assert feature_names(kept) == (
        "age",
        "age = (missing)",
        "sex = f",
        "sex = m",
        "sex = (other)",
        "sex = (missing)",
    )


DOMAIN = Domain(
    columns={
        "age": Number(bounds=(0.0, 100.0), lenient=True, typical=75.0),
        "sex": Category(values=("f", "m"), other=False, prior=(0.75, 0.25)),
    },
    ignore_case=True,
)


def test_absent_and_unknown_cells_are_typical_and_counted(tmp_path: Path) -> None:
    table = written(tmp_path, "age,sex", "50,F", ",", "tall,robot", "1e9,m", "-1e308,f")
    odd = OddCells()
    found = encode(table, DOMAIN, odd=odd)["x"]
    expected = [[0, 1, 0], [0.5, 0.75, 0.25], [0.5, 0.75, 0.25], [1, 0, 1], [-1, 1, 0]]
    assert np.allclose(found, expected)
    assert odd == {
        ("age", "missing"): 1,
        ("age", "not a number"): 1,
        ("age", "outside the bounds"): 2,
        ("sex", "missing"): 1,
        ("sex", "another word"): 1,
    }
    assert (np.linalg.norm(found[:, 1:], axis=1) <= 1).all()


def test_case_counts_unless_a_domain_says_otherwise(tmp_path: Path) -> None:
    strict = Domain(columns={"sex": Category(values=("f", "m"), other=False)})
    with pytest.raises(DataError, match="'F' is none of the 2 declared values"):
        encode(written(tmp_path, "sex,b", "F,1"), strict)
    with pytest.raises(DomainError, match="differ in case only"):
        Domain(columns={"sex": Category(values=("f", "F"))}, ignore_case=True)


@pytest.mark.parametrize(
    "column",
    [
        Category(values=("a", "b"), prior=(0.5,)),
        Category(values=("a", "b"), prior=(0.9, 0.9)),
        Category(values=("a", "b"), prior=(-0.5, 0.9)),
        Category(values=("a", "b"), prior=(float("nan"), 0.9)),
        Number(bounds=(0, 1), typical=float("inf")),
        Number(bounds=(0, 1), typical="much"),  # type: ignore[arg-type]
    ],
)
def test_what_is_not_typical_is_refused(column: Category | Number) -> None:
    with pytest.raises(DomainError, match=r"prior|typical"):
        Domain(columns={"c": column})


def test_a_domain_file_keeps_it_all() -> None:
    assert Domain.from_toml(DOMAIN.to_toml()) == DOMAIN


HOSTILE = ("1e308,f,yes", "-1e308,m,no", ",,", "nan,nan,nan", "0,unheard of,yes", "5e-324,F,no", "x,x,x")


@pytest.mark.parametrize("row", HOSTILE)
@pytest.mark.parametrize("target", ["y", "age"])
def test_one_row_moves_no_release_by_more_than_its_norm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: str, target: str
) -> None:
    """The counts before noise, with and without one record: what the price of the noise is about."""
    without, given = (_counts(monkeypatch, many(tmp_path, *extra), target) for extra in ((), (row,)))
    for (release, ours, columns), (_, theirs, _) in zip(given, without, strict=True):
        if ours.shape == theirs.shape:
            assert np.linalg.norm(ours - theirs) <= np.sqrt(columns) * (1 + 1e-12), release
        else:  # a word that only this record has
            assert release is PreparationRelease.WORDS
            assert np.square(ours).sum() - np.square(theirs).sum() >= 0
            assert ours.sum() - theirs.sum() <= columns


def _counts(
    monkeypatch: pytest.MonkeyPatch, table: Table, target: str
) -> list[tuple[PreparationRelease, np.ndarray, int]]:
    kept = []
    with monkeypatch.context() as patch:

        def noisy(
            self: object, root: object, release: PreparationRelease, counts: np.ndarray, columns: int
        ) -> np.ndarray:
            kept.append((release, np.array(counts, float), columns))
            return np.array(counts, float)

        patch.setattr(PreparationNoise, "noisy", noisy)
        prepare(table, LOUD, Keys.seeded(0), target=target, keeps_rest=False)
    return kept


@pytest.mark.parametrize("row", ["1e308", "-1e308", "", "nan", "5e-324", "x"])
def test_a_numeric_target_counts_more_often_and_the_noise_grows_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: str
) -> None:
    """Nine numbers: the target counts twice, so a row moves the histograms by the root of 8 + 4."""
    rng = np.random.default_rng(0)
    names = [f"c{number}" for number in range(8)]
    lines = [",".join((*names, "y"))]
    lines += [",".join(f"{value:.2f}" for value in rng.normal(50, 9, 9)) for _ in range(3000)]
    runs = [
        _counts(monkeypatch, written(tmp_path, *lines, *extra), "y") for extra in ((), (",".join([row] * 9),))
    ]
    moved = {
        release: (np.linalg.norm(ours - theirs), columns)
        for (release, theirs, _), (_, ours, columns) in zip(*runs, strict=True)
        if release in (PreparationRelease.RANGES, PreparationRelease.QUANTILES)
    }
    assert len(moved) == 2
    for distance, columns in moved.values():
        assert columns == 12
        assert distance <= np.sqrt(12) * (1 + 1e-12)
    assert moved[PreparationRelease.QUANTILES][0] == pytest.approx(np.sqrt(12))  # each row is in a cell
