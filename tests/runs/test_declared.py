"""What a request declares about its table: the task, the classes, bounds; and what is taken as public."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reticent.core.errors import DataError, InvalidArgument
from reticent.data.domain import Category, Domain, Ignored, Label, Number
from reticent.data.encoding import encode
from reticent.data.files import open_table
from reticent.data.files.frames import FrameTable
from reticent.ledger.ledger import Ledger
from reticent.runs.declared import Declared, declare
from reticent.runs.payment import delta_of
from reticent.runs.request import Request


def table_of(folder: Path, targets: list[str]) -> Path:
    path = folder / "t.csv"
    path.write_text("age,y\n" + "".join(f"{20 + row % 50},{y}\n" for row, y in enumerate(targets)))
    return path


def declared(folder: Path, targets: list[str], **options) -> Declared:
    return declare(open_table(table_of(folder, targets)), None, target="y", **options)


def test_words_that_differ_in_case_are_one_class_spelt_as_most_are(tmp_path: Path) -> None:
    found = declared(tmp_path, ["Yes"] * 60 + ["yes"] * 90 + ["no"] * 120 + ["NO"] * 40)
    assert found.domain is not None
    assert found.domain.columns["y"] == Label(values=("no", "yes"), lenient=True)
    assert found.domain.ignore_case
    assert found.assumptions == ("the classes of the target 'y' are public: 'no', 'yes'",)
    assert found.domain.columns["age"] == Ignored(looked_up=frozenset({"kind"}))


def test_a_rare_class_is_a_class(tmp_path: Path) -> None:
    found = declared(tmp_path, ["fine"] * 900 + ["review"] * 90 + ["fraud"] * 8)
    assert found.domain is not None
    assert found.domain.columns["y"] == Label(values=("fine", "fraud", "review"), lenient=True)
    assert found.warnings == ()


def test_a_label_that_hardly_anybody_has_is_not_published(tmp_path: Path) -> None:
    found = declared(tmp_path, ["fine"] * 900 + ["bad"] * 90 + ["Mr Smith"] * 4)
    assert found.domain is not None
    assert found.domain.columns["y"] == Label(values=("bad", "fine"), lenient=True)
    assert "4 rows" in found.warnings[0]
    assert "Smith" not in "".join((*found.assumptions, *found.notes, *found.warnings))


@pytest.mark.parametrize(
    ("targets", "values"),
    [
        (["1", "2"] * 100, ("1", "2")),
        (["0", "1", "2"] * 100, ("0", "1", "2")),
        (["0.0", "1.0"] * 100, ("0.0", "1.0")),
        (["10", "9"] * 100, ("9", "10")),
    ],
)
def test_few_whole_numbers_are_classes(tmp_path: Path, targets: list[str], values: tuple[str, ...]) -> None:
    found = declared(tmp_path, targets)
    assert found.domain is not None
    assert found.domain.columns["y"] == Label(values=values, lenient=True)
    assert "--task regress" in found.notes[0]


def test_numbers_are_numbers_if_somebody_says_so_or_there_are_many(tmp_path: Path) -> None:
    for targets, options in ((["1", "2"] * 100, {"task": "regress"}), ([str(k) for k in range(200)], {})):
        found = declared(tmp_path, targets, **options)
        assert found.domain is not None
        assert found.domain.columns["y"] == Number(lenient=True)
        assert found.assumptions == ("it is public that the target 'y' is a number",)
    as_classes = declared(tmp_path, [str(k % 20) for k in range(400)], task="classify")
    assert as_classes.domain is not None
    assert getattr(as_classes.domain.columns["y"], "values", ()) == tuple(map(str, range(20)))


def test_named_classes_are_not_looked_up(tmp_path: Path) -> None:
    found = declared(tmp_path, ["no", "yes", "dunno"] * 50, classes=("no", "yes"))
    assert found.domain is not None
    assert found.domain.columns["y"] == Label(values=("no", "yes"), lenient=True)
    assert found.assumptions == ()
    assert declared(tmp_path, ["no", "yes"] * 50, classes="private") == Declared(None)


def test_bounds_are_declared_by_name(tmp_path: Path) -> None:
    found = declared(tmp_path, ["no", "yes"] * 50, bounds={"age": (0, 120)})
    assert found.domain is not None
    assert found.domain.columns["age"] == Number(bounds=(0.0, 120.0), missing=True, lenient=True)
    target = declared(tmp_path, [str(k) for k in range(100)], bounds={"y": (0, 99)})
    assert target.domain is not None
    assert target.domain.columns["y"] == Number(bounds=(0.0, 99.0), lenient=True)
    with pytest.raises(DataError, match="agge"):
        declared(tmp_path, ["no", "yes"] * 50, bounds={"agge": (0, 120)})


@pytest.mark.parametrize("assumes_public", [False, True])
def test_columns_are_left_out_and_marks_for_missing_cells_named(tmp_path: Path, assumes_public: bool) -> None:
    path, given = tmp_path / "t.csv", {"target": "y", "assumes_public": assumes_public}
    lines = [f"{-999 if n % 9 == 0 else 20 + n % 50},{n},{'?' if n % 2 else 'yes'}" for n in range(200)]
    path.write_text("age,code,y\n" + "\n".join([line.replace("?", "no") for line in lines]) + "\n")
    domain = declare(open_table(path), None, ignore=["code"], missing=["-999"], **given).domain
    assert domain is not None
    assert isinstance(domain.columns["code"], Ignored)
    assert "kind" not in domain.columns["code"].looked_up
    assert domain.missing_markers[-1] == "-999"
    assert domain.columns["y"] == Label(values=("no", "yes"), lenient=True)
    if assumes_public:
        assert getattr(domain.columns["age"], "bounds", None) == (20, 69)
        frame = FrameTable({"age": [-999, 44], "code": [0, 0], "y": ["no", "yes"]})
        assert encode(frame, domain)["x"][0].tolist() == [0.0, 1.0]  # a number is a mark in any file
    for wrong in ({"ignore": ["y"]}, {"ignore": ["code"], "bounds": {"code": (0, 1)}}):
        with pytest.raises(InvalidArgument, match="--ignore"):
            declare(open_table(path), None, **wrong, **given)


def test_all_that_is_read_off_the_data_is_said_to_be(tmp_path: Path) -> None:
    found = declared(tmp_path, ["no", "yes"] * 50, assumes_public=True)
    assert found.domain is not None
    assert found.domain.not_public() == []
    assert found.domain.columns["age"] == Number(bounds=(20.0, 69.0), lenient=True, whole=True)
    assert found.assumptions == (
        "the classes of the target 'y' are public: 'no', 'yes'",
        "what was read off the data is public: the kinds of all columns, which of them have missing cells, "
        "bounds of 1 and words of 1",
    )
    for settled in (
        {"ignore": ["age"]},
        {"bounds": {"age": (0, 99)}},
        {"user": "age"},
    ):  # not what is not used
        beside = declared(tmp_path, ["no", "yes"] * 50, assumes_public=True, **settled)
        assert beside.assumptions[-1].endswith("bounds of 0 and words of 1")


@pytest.mark.parametrize("days", [4, 20])
def test_the_task_is_the_same_where_all_is_read_off_the_data(tmp_path: Path, days: int) -> None:
    """Days in hospital were a number to predict, and twenty classes with --prepare assume-public."""
    targets = [str(1 + row % days) for row in range(400)]
    for options in ({}, {"task": "regress"}, {"task": "classify"}):
        found = declared(tmp_path, targets, assumes_public=True, **options).domain
        beside = declared(tmp_path, targets, **options).domain
        assert found is not None
        assert beside is not None
        assert found.not_public() == []
        assert found.target == "y"
        is_label = isinstance(beside.columns["y"], Label)
        expected = beside.columns["y"] if is_label else Number(bounds=(1.0, days), lenient=True, whole=True)
        assert found.columns["y"] == expected


def test_words_in_any_case_are_one_where_all_is_read_off_the_data(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [
        f"{['Bern', 'BERN', 'Oslo'][row % 3]},{['Yes', 'yes', 'NO', 'no'][row % 4]}" for row in range(240)
    ]
    path.write_text("\n".join(["city,y", *rows, "Oslo,yes"]) + "\n")
    found = declare(open_table(path), None, target="y", assumes_public=True).domain
    assert found is not None
    assert found.ignore_case
    assert found.columns["y"] == Label(values=("NO", "yes"), lenient=True)
    assert getattr(found.columns["city"], "values", ()) == ("BERN", "Oslo")


def test_what_a_file_declares_goes_first(tmp_path: Path) -> None:
    table = open_table(table_of(tmp_path, ["no", "yes", "dunno"] * 50))
    domain = Domain(
        columns={"age": Number(bounds=(0.0, 99.0)), "y": Label(values=("no", "yes"), other=True)}, target="y"
    )
    assert declare(table, domain, target="y") == Declared(domain)
    other = Domain(columns={"age": Number(bounds=(0.0, 99.0)), "y": Category(values=("no", "yes"))})
    found = declare(table, other, target="y").domain
    assert found is not None
    assert isinstance(found.columns["y"], Label)
    assert found.target == "y"


@pytest.mark.parametrize(
    ("targets", "options", "words"),
    [
        ([f"word{k}" for k in range(300)], {}, "fewer than two values"),
        (["a", "b"] * 100 + [f"word{k}" for k in range(300)], {}, "looks like free text"),
        (["yes", "no"] * 50, {"task": "regress"}, "holds words"),
        (["a"] * 100, {}, "fewer than two values"),
        (["a", "b"] * 50, {"task": "regress", "classes": "private"}, "one of the two"),
    ],
)
def test_what_cannot_be_learned_is_refused_with_a_way_out(
    tmp_path: Path, targets: list[str], options: dict, words: str
) -> None:
    with pytest.raises(InvalidArgument, match=words):
        declared(tmp_path, targets, **options)


def test_a_target_that_is_missing_everywhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="missing in every row"):
        declared(tmp_path, ["?"] * 50)


@pytest.mark.parametrize("asked", [None, 1e-7])
def test_beside_a_ledger_a_run_takes_a_tenth_of_its_delta_unless_it_asks(
    tmp_path: Path, asked: float | None
) -> None:
    with Ledger.create(tmp_path / "l.db") as ledger:
        ledger.limit("people", epsilon=4.0, delta=1e-5)
    request = Request(
        source="t.csv", epsilon=1.0, delta=asked, ledger=str(tmp_path / "l.db"), dataset="people"
    )
    assert delta_of(request, rows=5000, claims=True) == pytest.approx(1e-6 if asked is None else asked)
    assert delta_of(request, rows=10**6, claims=True) == 1e-7
    assert delta_of(replace(request, ledger=None, dataset=None), rows=5000, claims=True) == (asked or 1e-5)
    assert delta_of(request, rows=5000, claims=False) == (asked or 1e-5)
