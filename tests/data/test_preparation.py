"""Private preparation: it finds what a table shows to everybody, and nothing that one row alone shows."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.special import chdtrc, ndtr

from reticent.accounting.tight_epsilon import tight
from reticent.core.errors import CannotMeet, DataError, InvalidArgument
from reticent.core.keys import Keys, Stream
from reticent.data.domain import Category, Domain, Ignored, Integer, Label, Number
from reticent.data.encoding import encode
from reticent.data.files import Table, open_table
from reticent.data.preparation import categories, numbers, prepare, releases_for
from reticent.data.preparation.noise import PreparationNoise, PreparationRelease
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.whole import normal_grid

ROWS = 4000
LOUD = PreparationNoise(noise_multiplier=1.0, delta=1e-6)


def people(folder: Path, rows: int = ROWS, extra: str = "") -> Table:
    """Ages from 20 to 69, two sexes, incomes with a tail, and a name that nobody shares."""
    rng = np.random.default_rng(0)
    path = folder / "people.csv"
    lines = ["age,sex,income,name,rich"]
    for row in range(rows):
        age, sex, income = rng.integers(20, 70), "mf"[rng.integers(2)], rng.exponential(3e4)
        lines.append(f"{age},{sex},{income:.2f},person {row},{'yes' if income > 3e4 else 'no'}")
    path.write_text("\n".join(lines) + "\n" + extra)
    return open_table(path)


def test_finds_kinds_bounds_words_and_classes(tmp_path: Path) -> None:
    domain = prepare(people(tmp_path), LOUD, Keys.seeded(0), target="rich").domain
    age, sex, income, name, rich = domain.columns.values()
    assert isinstance(age, Number) and age.bounds and 10 < age.bounds[0] <= 22 and 65 <= age.bounds[1] < 90  # noqa: PT018
    assert isinstance(sex, Category) and sex.values == ("f", "m")  # noqa: PT018
    assert isinstance(income, Number) and income.bounds and 9e4 < income.bounds[1] < 4e5  # noqa: PT018
    assert isinstance(name, Ignored)
    assert rich == Label(values=("no", "yes"), lenient=True)
    assert domain.not_public() == []


def test_a_target_of_which_nothing_is_declared_is_found_beside_columns_that_are(tmp_path: Path) -> None:
    table = people(tmp_path)
    unknown = {name: Ignored(looked_up=frozenset({"kind"})) for name in table.names}
    declared = Domain(columns={**unknown, "age": Number(bounds=(0.0, 500.0))})
    domain = prepare(table, LOUD, Keys.seeded(0), domain=declared, target="rich").domain
    assert domain.columns["age"] == Number(bounds=(0.0, 500.0))
    assert isinstance(domain.columns["rich"], Label)


def test_a_word_that_one_row_has_is_never_shown_and_its_row_still_encodes(tmp_path: Path) -> None:
    table = people(tmp_path, extra="33,martian,100.00,zed,no\n")
    sex = prepare(table, LOUD, Keys.seeded(1), target="rich").domain.columns["sex"]
    assert isinstance(sex, Category)
    assert "martian" not in (sex.values or ())
    assert sex.other


def test_declared_values_stay_and_only_the_rest_is_looked_for(tmp_path: Path) -> None:
    declared = Domain(
        columns={
            "age": Integer(bounds=(0, 120)),
            "sex": Category(values=("f", "m", "x"), missing=True, looked_up=frozenset({"missing"})),
            "income": Integer(bounds=(1, 2), looked_up=frozenset({"bounds"})),
            "rich": Label(values=("no", "yes")),
        },
        target="rich",
    )
    needed = releases_for(declared)
    assert needed == (PreparationRelease.RANGES, PreparationRelease.QUANTILES)
    noise = PreparationNoise(noise_multiplier=1.0, delta=1e-6, releases=needed)
    columns = prepare(people(tmp_path), noise, Keys.seeded(2), domain=declared).domain.columns
    assert columns["age"] == Integer(bounds=(0, 120))
    assert columns["sex"] == Category(values=("f", "m", "x"), missing=True)
    assert isinstance(columns["income"], Integer)
    assert columns["income"].bounds != (1, 2)
    assert releases_for(Domain(columns={"rich": Label(values=("a", "b"))}, target="rich")) == ()


def test_a_kind_that_was_looked_up_is_found_anew_and_paid_for(tmp_path: Path) -> None:
    """One word among the numbers decides what a draft says, and nothing of what is found."""
    marks = frozenset({"kind"})
    drafts = [
        {"age": Integer(bounds=(20, 69), looked_up=marks | {"bounds", "missing"})},
        {"age": Category(values=("20", "unknown"), missing=True, looked_up=marks | {"values", "missing"})},
        {"age": Ignored(reason="line 7 is not a number", looked_up=marks)},
    ]
    found = []
    for columns in drafts:
        draft = Domain(columns={**columns, "rich": Label(values=("no", "yes"))}, target="rich")
        assert releases_for(draft) == tuple(PreparationRelease)
        found.append(prepare(people(tmp_path), LOUD, Keys.seeded(0), domain=draft).domain.columns["age"])
    assert isinstance(found[0], Number)
    assert found == [found[0]] * 3


def test_a_numeric_target_is_regressed_on_or_classified(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rng = np.random.default_rng(3)
    rows = [f"{rng.normal():.4f},{rng.integers(3)},{rng.normal():.5f}" for _ in range(ROWS)]
    path.write_text("x,class,size\n" + "\n".join(rows) + "\n")
    by_class = prepare(open_table(path), LOUD, Keys.seeded(3), target="class").domain
    assert by_class.columns["class"] == Label(values=("0", "1", "2"), other=True, lenient=True)
    by_size = prepare(open_table(path), LOUD, Keys.seeded(4), target="size").domain
    assert isinstance(by_size.columns["size"], Number)


def test_a_rare_class_becomes_the_other_one(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    kinds = ["a"] * 2000 + ["b"] * 2000 + [f"rare {n}" for n in range(300)]
    path.write_text("x,y\n" + "\n".join(f"1,{kind}" for kind in kinds) + "\n")
    assert prepare(open_table(path), LOUD, Keys.seeded(5), target="y").domain.columns["y"] == Label(
        values=("a", "b"), other=True, lenient=True
    )


def test_a_few_rare_numbers_do_not_turn_classes_into_a_quantity(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    kinds = ["1", "2", "3"] * 1000 + [str(number) for number in range(50, 65)]
    path.write_text("x,y\n" + "\n".join(f"a,{kind}" for kind in kinds) + "\n")
    found = prepare(open_table(path), LOUD, Keys.seeded(8), target="y").domain.columns["y"]
    assert found == Label(values=("1", "2", "3"), other=True, lenient=True)


def test_a_class_too_rare_to_be_seen_among_several_does_not_stop_the_encoding(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "\n".join(f"1,{kind}" for kind in "abc" * 1000 + "z") + "\n")
    table = open_table(path)
    domain = prepare(table, LOUD, Keys.seeded(6), target="y").domain
    assert domain.columns["y"] == Label(values=("a", "b", "c"), other=True, lenient=True)
    assert encode(table, domain)["y"][-1] == 3


def test_numbers_too_rare_to_be_seen_beside_zeros_keep_their_sign(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("gain,y\n" + "0,a\n0,b\n" * 1000 + "7000,a\n-1,b\n")
    table = open_table(path)
    domain = prepare(table, LOUD, Keys.seeded(7), target="y").domain
    assert domain.columns["gain"] == Number(bounds=(-1, 1), missing=True, lenient=True, whole=True)
    assert encode(table, domain)["x"][-3:, 0].tolist() == [0, 1, -1]


def test_whole_numbers_are_told_from_others(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [f"{n % 70},{n % 70 + 0.5},{n % 70 if n % 4 else 0.25},{'ab'[n % 2]}" for n in range(2000)]
    path.write_text("age,height,mixed,y\n" + "\n".join(rows) + "\n")
    domain = prepare(open_table(path), LOUD, Keys.seeded(0), target="y").domain
    found = {name: getattr(column, "whole", None) for name, column in domain.columns.items()}
    assert found == {"age": True, "height": False, "mixed": False, "y": None}
    domain.write(tmp_path / "d.toml")
    assert Domain.read(tmp_path / "d.toml").columns == domain.columns


def test_a_row_is_in_one_count_of_each_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise is for that: one record more moves the vector of counts by the root of the columns."""
    seen = []

    def watched(
        self: PreparationNoise, root: object, release: PreparationRelease, counts: np.ndarray, columns: int
    ):
        seen.append((release, np.array(counts), columns))
        return np.array(counts, float)

    monkeypatch.setattr(PreparationNoise, "noisy", watched)
    lines = ["1,a,2.5", "x,b,2024-01-31", ",c,1.5"] * 200
    for more in ([], ["7,d,2024-02-01"]):
        path = tmp_path / f"t{len(more)}.csv"
        path.write_text("p,q,r\n" + "\n".join([*lines, *more]) + "\n")
        prepare(open_table(path), LOUD, Keys.seeded(len(more)))
    (_, first, columns), (_, second, _) = (one for one in seen if one[0] is PreparationRelease.KINDS)
    moved = second - first
    assert columns == 3
    assert np.linalg.norm(moved) <= np.sqrt(columns)
    assert moved.sum() == 3


def test_too_few_rows_and_a_target_without_classes_are_refused(tmp_path: Path) -> None:
    quiet = PreparationNoise(noise_multiplier=100.0, delta=1e-6)
    with pytest.raises(CannotMeet, match="50 rows are too few"):
        prepare(people(tmp_path, rows=50), quiet, Keys.seeded(0), target="rich")
    with pytest.raises(DataError, match="fewer than two classes of the target 'name'"):
        prepare(people(tmp_path), LOUD, Keys.seeded(0), target="name")
    with pytest.raises(DataError, match="no column 'rihc'"):
        prepare(people(tmp_path), LOUD, Keys.seeded(0), target="rihc")


def test_the_cost_is_that_of_its_gaussians_and_of_the_threshold() -> None:
    noise = PreparationNoise(noise_multiplier=20.0, delta=1e-7)
    cost = tight(noise.event, 1e-5)
    rho = sum(1 / (2 * noise.multiplier(release) ** 2) for release in PreparationRelease)
    one = math.sqrt(1 / (2 * rho))  # a single Gaussian of the same concentration
    from reticent.accounting.theorems.gaussian_dp import epsilon

    assert math.isclose(cost.upper, epsilon(1 / one, 1e-5), rel_tol=0.02)
    replaced = PreparationNoise(noise_multiplier=20.0, delta=1e-7, adjacency=Adjacency.REPLACE)
    assert tight(replaced.event, 1e-5, Adjacency.REPLACE).upper > 1.9 * cost.upper


def test_noise_has_the_size_that_is_charged_and_differs_by_release() -> None:
    noise = PreparationNoise(noise_multiplier=2.0, delta=1e-6)
    root = Keys.seeded(6).take(Stream.PREPARATION, steps=range(len(PreparationRelease)))
    drawn = {release: noise.noisy(root, release, np.zeros(20_000), 9) for release in PreparationRelease}
    for release, values in drawn.items():
        statistic = float(np.square(values / noise.deviation(release, 9)).sum())
        assert 5e-7 < chdtrc(values.size, statistic) < 1 - 5e-7  # a false alarm in a million
    units = np.stack([values / noise.deviation(release, 9) for release, values in drawn.items()])
    assert np.abs(np.corrcoef(units) - np.eye(len(PreparationRelease))).max() < 5 / math.sqrt(20_000)
    half = drawn[PreparationRelease.WORDS] / 2  # a planted bug: half of the noise
    statistic = float(np.square(half / noise.deviation(PreparationRelease.WORDS, 9)).sum())
    assert not 5e-7 < chdtrc(half.size, statistic) < 1 - 5e-7


@pytest.mark.parametrize(("multiplier", "columns"), [(0.001, 1), (2.0, 9), (37.0, 100)])
def test_counts_and_noise_lie_on_a_public_grid(multiplier: float, columns: int) -> None:
    noise = PreparationNoise(noise_multiplier=multiplier, delta=1e-6)
    root = Keys.seeded(6).take(Stream.PREPARATION, steps=range(len(PreparationRelease)))
    for release in PreparationRelease:
        exact = noise.multiplier(release) * math.sqrt(columns)
        assert exact < noise.deviation(release, columns) < exact * 1.01
        _, step = normal_grid(1, max_norm=1.0, deviation=exact, are_whole=True)
        noisy, parts = noise.noisy(root, release, np.full(50, 1 << 20), columns), round(1 / step)
        assert np.array_equal(np.rint(noisy * parts) / parts, noisy)
        assert len(np.unique(noisy)) > 40
    with pytest.raises(InvalidArgument, match="whole"):
        noise.noisy(root, PreparationRelease.WORDS, np.full(2, 0.5), columns)


@pytest.mark.parametrize("delta", [0.1, 1e-3, 1e-9])
def test_a_single_word_is_shown_no_more_often_on_the_grid(delta: float) -> None:
    """The discrete law summed beyond the threshold, against delta: without the step it is above delta."""
    noise = PreparationNoise(noise_multiplier=0.001, delta=delta)  # one level: the coarsest grid there is
    levels, step = normal_grid(1, max_norm=1.0, deviation=0.001, are_whole=True)
    assert levels == 1
    reach = np.arange(-8_000, 8_001)
    law = np.exp(-(reach**2) / (2 * 400.0**2))

    def shown(deviation: float) -> float:
        """By the threshold for this deviation."""
        above = categories.threshold(deviation, 1, delta)
        return float(law[1 + reach * step > above].sum() / law.sum())

    assert shown(noise.deviation(PreparationRelease.WORDS, 1)) <= delta
    assert (
        shown(0.5 * noise.deviation(PreparationRelease.WORDS, 1)) > delta
    )  # planted: a threshold for half the noise
    with pytest.raises(InvalidArgument, match="only one row"):
        PreparationNoise(noise_multiplier=1.0, delta=0.3)
    PreparationNoise(noise_multiplier=1.0, delta=0.3, releases=(PreparationRelease.KINDS,))


def test_a_release_that_was_not_paid_for_is_impossible() -> None:
    noise = PreparationNoise(noise_multiplier=2.0, delta=1e-6, releases=(PreparationRelease.WORDS,))
    root = Keys.seeded(0).take(Stream.PREPARATION, steps=range(4))
    with pytest.raises(AssertionError, match="not paid for"):
        noise.noisy(root, PreparationRelease.KINDS, np.zeros(3), 1)


def test_a_single_word_passes_the_threshold_with_probability_delta() -> None:
    deviation, columns, delta = 3.0, 5, 1e-3
    above = categories.threshold(deviation, columns, delta)
    assert math.isclose(columns * ndtr(-(above - 1) / deviation), delta, rel_tol=1e-9)


@pytest.mark.parametrize("sign", [-1, 1])
def test_one_row_moves_one_cell_of_each_histogram_by_one(sign: int) -> None:
    values = sign * np.array([0.0, 1e-30, 3e-5, 0.2, 1.0, 3.99, 4.0, 1e6, 1e300])
    for count in range(1, len(values) + 1):
        for histogram in (numbers.coarse_counts, lambda x: numbers.fine_counts(x, (-5.0, 5.0))):
            step = histogram(values[:count]) - histogram(values[: count - 1])
            assert (np.abs(step).sum(), step.max()) == (1, 1)


def test_the_coarse_range_holds_what_was_counted() -> None:
    for values in ([0.0], [-3.0, 0.1], [17, 90], [-1e-4], [1e9]):
        counts = 10_000 * numbers.coarse_counts(np.array(values))
        found = numbers.coarse_range(counts, 1.0)
        assert found is not None
        assert found[0] <= min(values) <= max(values) <= found[1]
    assert numbers.coarse_range(np.zeros(numbers.COARSE), 1.0) is None


def test_a_tail_that_drowns_in_little_noise_goes_on_and_an_edge_stays() -> None:
    source, rows, deviation = np.random.default_rng(0), 260_000, 80.0
    values, within = source.exponential(60.0, rows) - 50, (-1024.0, 1024.0)
    tail = {sign: numbers.fine_counts(sign * values, within) for sign in (-1, 1)}
    edge = numbers.fine_counts(values[values < 170], within)
    cut = numbers.Tails(cut=0.0002)
    goes_on = cut._replace(are_continued=True)

    def bounds(counts: np.ndarray, tails: numbers.Tails, deviation: float = deviation) -> tuple[float, float]:
        return numbers.quantile_bounds(counts + noise * deviation, within, deviation, rows, tails=tails)

    is_wide, are_kept = [], []
    for _ in range(50):
        noise = source.normal(size=numbers.FINE)
        for sign, counts in tail.items():
            before, after = (bounds(counts, tails)[::sign] for tails in (cut, goes_on))
            assert before[0] == after[0]
            assert sign * before[1] <= sign * after[1] <= 1024
            # About 100 rows are beyond 430, and drown in the noise; the last is at 679.
            is_wide.append(sign * before[1] < 550 and 620 < sign * after[1] < 850)
            assert bounds(counts, goes_on, rows / 450) == bounds(counts, cut, rows / 450)
        before, after = (bounds(edge, tails) for tails in (cut, goes_on))
        are_kept.append(before == after)
        assert max(before[0] - after[0], after[1] - before[1]) < 180  # by a noise beside the edge: two cells
    assert np.mean(is_wide) > 0.8 < np.mean(are_kept)


def test_dates_money_and_identifiers_are_found_by_noisy_counts_and_names(tmp_path: Path) -> None:
    days = [f"2024-{n % 12 + 1:02d}-{n % 28 + 1:02d}" for n in range(ROWS)]
    lines = [f'{n},{day},"${n % 100 * 1000:,}",{"+-"[n % 2]}' for n, day in enumerate(days)]
    lines += ['7,soon,"$5,000",+', '8,x,"a few",-']
    lines = [
        f"{line},{'Bonn' if n % 3 == 0 else f'town {n}'},note {n},{'rare' if n < 3 else 'usual'}"
        for n, line in enumerate(lines)
    ]
    path = tmp_path / "t.csv"
    path.write_text("id,seen,paid,y,town,note,state\n" + "\n".join(lines) + "\n")
    prepared = prepare(open_table(path), LOUD, Keys.seeded(0), target="y")
    seen, paid = prepared.domain.columns["seen"], prepared.domain.columns["paid"]
    assert isinstance(seen, Number)
    assert seen.date
    year = Number.of_dates("2024-01-01", "2024-12-31").bounds
    assert seen.bounds is not None and year is not None  # noqa: PT018
    assert seen.bounds[0] <= year[0] < year[1] <= seen.bounds[1]
    assert isinstance(paid, Number)
    assert paid.bounds is not None
    assert 50_000 < paid.bounds[1] < 500_000
    assert prepared.domain.columns["id"] == Ignored(reason="an identifier, by its name")
    assert prepared.domain.columns["y"] == Label(values=("+", "-"), lenient=True)
    assert any("'id' is not used: an identifier" in line for line in prepared.ignored)
    assert any("'town': 1 of its words are frequent" in line for line in prepared.ignored)
    assert any("about 67% of the rows" in line and "--buckets town=256" in line for line in prepared.ignored)
    assert any("'note' is not used" in line and "--buckets note=256" in line for line in prepared.ignored)
    assert any("'state': one of its words is frequent" in line for line in prepared.ignored)
    assert {"state: 1 value", "y: 2 values"} <= set(prepared.found)
    assert any(line.startswith("seen: 20") for line in prepared.found)
    assert Domain.from_toml(prepared.domain.to_toml()) == prepared.domain
    data = encode(open_table(path), prepared.domain)
    assert np.isfinite(data["x"]).all()
    assert data["y"].tolist()[:4] == [0, 1, 0, 1]
