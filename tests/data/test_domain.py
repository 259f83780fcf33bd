"""A domain survives its file, and never contradicts itself."""

from __future__ import annotations

import os
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.core.errors import DataError, DomainError
from reticent.data.domain import Category, Column, Domain, Ignored, Integer, Label, Number
from reticent.data.kinds import BLANKS

text = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
words = text.map(lambda word: word.strip(BLANKS)).filter(lambda word: word != "")
word_lists = st.none() | st.lists(words, min_size=1, max_size=4, unique=True).map(tuple)
floats = st.floats(allow_nan=False, allow_infinity=False)


def marks(*names: str) -> st.SearchStrategy[frozenset[str]]:
    return st.frozensets(st.sampled_from(names))


def pairs(numbers: st.SearchStrategy) -> st.SearchStrategy:
    return st.none() | st.tuples(numbers, numbers).map(lambda pair: (min(pair), max(pair)))


columns = st.one_of(
    st.builds(Number, bounds=pairs(floats), missing=st.booleans(), looked_up=marks("bounds", "missing")),
    st.builds(Integer, bounds=pairs(st.integers(-(2**70), 2**70)), looked_up=marks("bounds", "missing")),
    st.builds(Category, values=word_lists, other=st.booleans(), looked_up=marks("values", "missing")),
    st.builds(Ignored, reason=text),
    st.tuples(st.dates(), st.dates()).map(lambda days: Number.of_dates(min(days), max(days), lenient=True)),
)


@st.composite
def domains(draw: st.DrawFn) -> Domain:
    named: dict[str, Column] = draw(st.dictionaries(text, columns, min_size=1, max_size=5))
    target = draw(st.none() | text)
    if target is not None:
        named[target] = draw(st.builds(Label, values=word_lists, looked_up=marks("values")))
    lists = [column.values or () for column in named.values() if isinstance(column, (Category, Label))]
    taken = {value for values in lists for value in values}
    markers = draw(st.lists(text.filter(lambda word: word not in taken), unique=True, max_size=4))
    return Domain(columns=named, target=target, missing_markers=tuple(markers))


@given(domain=domains())
def test_any_domain_survives_toml_in_the_same_order(domain: Domain) -> None:
    again = Domain.from_toml(domain.to_toml())
    assert again == domain
    assert list(again.columns) == list(domain.columns)


def test_a_file_is_written_and_read_back(tmp_path) -> None:
    domain = Domain(
        columns={"age": Integer(bounds=(0, 99)), "sick": Label(values=("no", "yes"))}, target="sick"
    )
    domain.write(tmp_path / "table.toml")
    assert Domain.read(tmp_path / "table.toml") == domain
    assert os.listdir(tmp_path) == ["table.toml"]


def test_a_domain_that_cannot_be_written_leaves_nothing_behind(tmp_path) -> None:
    domain = Domain(columns={"age": Integer()})
    with pytest.raises(DataError, match=r"nowhere.*its folder exists"):
        domain.write(tmp_path / "nowhere" / "table.toml")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError):
        domain.write(tmp_path / "folder")
    assert os.listdir(tmp_path) == ["folder"]


def test_a_looked_up_value_is_marked_for_machine_and_reader() -> None:
    column = Number(bounds=(0, 1), looked_up=frozenset({"bounds"}))
    assert 'looked_up = ["bounds"] # not yet public' in Domain(columns={"age": column}).to_toml()


def test_what_is_not_public_is_listed_and_refused() -> None:
    domain = Domain(
        columns={
            "age": Number(bounds=(0, 1), looked_up=frozenset({"bounds", "missing"})),
            "job": Category(values=None),
            "town": Category(values=("A",)),
        },
        source="a.toml",
    )
    assert domain.not_public() == ["age.bounds", "age.missing", "job.values"]
    assert domain.undeclared() == ["job.values"]
    with pytest.raises(DomainError, match=r"a\.toml: 3 values .*age\.bounds.*looked_up.*--prepare private"):
        domain.require_public()


def test_a_public_domain_is_accepted() -> None:
    Domain(columns={"age": Number(bounds=(0, 1))}).require_public()


def test_another_target_turns_a_category_into_a_label_and_the_label_into_a_category() -> None:
    domain = Domain(
        columns={"a": Category(values=("x",), missing=True), "b": Label(values=("y",))}, target="b"
    )
    turned = domain.with_target("a")
    assert turned.columns == {"a": Label(values=("x",)), "b": Category(values=("y",))}
    assert turned.target == "a"


DAY = "version = 1\n[columns.a]\nkind = 'date'\n"
AGE = '[columns.age]\nkind = "number"\n'

CONTRADICTIONS = {
    "no TOML": ("version = ", "not valid TOML"),
    "unknown version": ("version = 2\n" + AGE, "key 'version': 2"),
    "no version": (AGE, "Write version = 1"),
    "version true": ("version = true\n" + AGE, "key 'version'"),
    "no columns": ("version = 1", "no columns"),
    "unknown key": ("version = 1\ntargt = 'age'\n" + AGE, "'targt' is not known. Did you mean 'target'?"),
    "unknown column key": ("version = 1\n" + AGE + "bound = [0, 1]", "column 'age'.*Did you mean 'bounds'?"),
    "column no table": ("version = 1\ncolumns.age = 3", "column 'age': not a table"),
    "columns no table": ("version = 1\ncolumns = 3", "key 'columns'"),
    "no kind": ("version = 1\n[columns.age]\nbounds = [0, 1]", "column 'age', key 'kind': is missing"),
    "unknown kind": ("version = 1\n[columns.age]\nkind = 'nmber'", "Did you mean 'number'?"),
    "bounds crossed": ("version = 1\n" + AGE + "bounds = [2, 1]", r"'bounds'.* bounds = \[1, 2\]"),
    "bounds no list": ("version = 1\n" + AGE + "bounds = 3", "key 'bounds': 3 is not a list"),
    "bounds three": ("version = 1\n" + AGE + "bounds = [1, 2, 3]", "not a pair of numbers"),
    "bounds text": ("version = 1\n" + AGE + "bounds = ['1', '2']", "not a pair of numbers"),
    "bounds true": ("version = 1\n" + AGE + "bounds = [false, true]", "not a pair of numbers"),
    "bounds NaN": ("version = 1\n" + AGE + "bounds = [nan, 1]", "nan to 1 is not finite"),
    "bounds infinite": ("version = 1\n" + AGE + "bounds = [0, inf]", "not finite"),
    "bounds absurd": ("version = 1\n" + AGE + f"bounds = [0, 1{'0' * 400}]", "not finite"),
    "integer halves": ("version = 1\n[columns.a]\nkind='integer'\nbounds = [0, 1.5]", "not whole"),
    "date numbers": (DAY + "bounds = [0, 9]", "'0' is not a day.*2024-01-31"),
    "date times": (DAY + "bounds = [2024-01-01T10:00:00, 2024-01-02]", "not a day"),
    "date crossed": (DAY + "bounds = [2024-01-02, 2024-01-01]", "is above the"),
    "date one": (DAY + "bounds = [2024-01-02]", "not a pair"),
    "date target": ("version = 1\ntarget='a'\n[columns.a]\nkind='date'", "the target is of kind date"),
    "date key": ("version = 1\n" + AGE + "date = true", "'date' is not known"),
    "missing no flag": ("version = 1\n" + AGE + "missing = 1", "key 'missing': 1 is not true or false"),
    "values empty": ("version = 1\n[columns.a]\nkind='category'\nvalues = []", "list of values is empty"),
    "values twice": ("version = 1\n[columns.a]\nkind='category'\nvalues = ['x', 'x']", "'x' is listed twice"),
    "values numbers": ("version = 1\n[columns.a]\nkind='category'\nvalues = [1]", 'Write it in quotes: "1"'),
    "values padded": ("version = 1\n[columns.a]\nkind='category'\nvalues = [' x']", "begins or ends with"),
    "value missing": ("version = 1\n[columns.a]\nkind='category'\nvalues = ['?']", "also a missing marker"),
    "target unknown": ("version = 1\ntarget='agee'\n" + AGE, "'agee' is not among.*Did you mean 'age'?"),
    "target category": ("version = 1\ntarget='a'\n[columns.a]\nkind='category'", "is of kind category"),
    "label not target": ("version = 1\n[columns.a]\nkind='label'", "label that is not the target"),
    "mark unknown": ("version = 1\n" + AGE + "looked_up = ['bonds']", "'bonds' is not a field that"),
    "markers no list": ("version = 1\nmissing_markers = '?'\n" + AGE, "key 'missing_markers'"),
}  # fmt: skip


@pytest.mark.parametrize(("document", "complaint"), CONTRADICTIONS.values(), ids=CONTRADICTIONS.keys())
def test_a_contradiction_names_file_column_and_key(document: str, complaint: str) -> None:
    with pytest.raises(DomainError, match=complaint) as caught:
        Domain.from_toml(document, source="table.toml")
    assert str(caught.value).startswith("table.toml")
    assert "\n" not in str(caught.value)


@given(document=st.text() | st.binary().map(lambda junk: junk.decode("latin-1")))
def test_any_text_is_a_domain_or_an_error_of_ours(document: str) -> None:
    with suppress(DomainError):
        Domain.from_toml(document)


def test_half_a_character_is_refused_before_it_reaches_a_file() -> None:
    with pytest.raises(DomainError, match="half of a surrogate pair"):
        Domain(columns={"\ud800": Number()})


def test_a_domain_file_that_is_not_there_or_not_text(tmp_path) -> None:
    with pytest.raises(DataError, match="Draft one with"):
        Domain.read(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_bytes(b"\xff")
    with pytest.raises(DomainError, match="UTF-8"):
        Domain.read(tmp_path / "bad.toml")


def test_many_values_are_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """tomlkit numbers an array anew after each value that is appended: 20,000 values took 20 seconds."""
    from tomlkit.items import Array

    numbered, number = [], Array._reindex

    def count(self: Array) -> None:
        numbered.append(self)
        number(self)

    monkeypatch.setattr(Array, "_reindex", count)
    columns = {"town": Category(values=tuple(f"town {n}" for n in range(500)))}
    domain = Domain(columns=columns, target=None, missing_markers=("?",))
    assert Domain.from_toml(domain.to_toml()) == domain
    assert 0 < len(numbered) < 50
