"""Names that look alike are one name, or the second is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.core.errors import InvalidArgument
from reticent.ledger.ledger import Ledger
from reticent.ledger.names import find_look_alike, normalize, skeleton
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Gaussian


@pytest.mark.parametrize("same", [" patients", "patients  ", "ｐａｔｉｅｎｔｓ", "\u00a0patients\u2003"])
def test_blanks_and_compatible_forms_are_the_same_name(ledger: Ledger, same: str):
    ledger.for_dataset(same).charge(
        Gaussian(noise_multiplier=30.0), adjacency=Adjacency.ADD_OR_REMOVE, purpose="test"
    )
    assert ledger.account(same).name == "patients"
    assert ledger.has_charge(same, purpose="test")
    ledger.limit(same, epsilon=4.0, delta=1e-6)
    assert ledger.datasets() == ("patients",)


@pytest.mark.parametrize(
    "alike",
    [
        "Patients",
        "PATIENTS",
        "p\u0430tients",  # Cyrillic a
        "\u0440\u0430ti\u0435nts",  # Cyrillic er, a, ie
        "\u03c1atients",  # Greek rho
        "\u03a1atients",  # Greek capital rho
        "pat\u0131ents",  # dotless i
        "patlents",
        "pat1ents",
        "patients\u0301",
        "pati ents",
    ],
)
def test_a_look_alike_is_refused_and_says_what_differs(ledger: Ledger, alike: str):
    before = ledger.head
    for attempt in (
        lambda: ledger.limit(alike, epsilon=9.0, delta=1e-6),
        lambda: ledger.alias(alike, same_rows_as="patients"),
    ):
        with pytest.raises(InvalidArgument, match="looks like 'patients', which is in the ledger: it has"):
            attempt()
    with pytest.raises(InvalidArgument, match="It looks like 'patients', with"):
        ledger.for_dataset(alike)
    assert ledger.head == before


@pytest.mark.parametrize(
    ("known", "alike"),
    [
        ("Nurses", "\u039durses"),  # Greek capital nu, whose lower case is drawn like v
        ("Health", "\u0397ealth"),  # eta
        ("Mothers", "\u039cothers"),  # mu
        ("Year", "\u03a5ear"),  # upsilon
        ("Zone", "\u0396one"),  # zeta
        ("year", "\u03a5EAR"),
        ("Yes", "\u04aees"),  # Cyrillic straight u
        ("Gene", "\u050cene"),  # Komi sje
        ("Lore", "L\u00f8re"),
        ("Lodz", "\u0141odz"),
        ("data", "\u0111ata"),
        ("ΝΟΣΟΣ", "νοσος"),  # the same Greek word in another case
        ("νοσος", "Νοσος"),
    ],
)
def test_a_capital_is_compared_as_it_is_drawn(ledger: Ledger, known: str, alike: str):
    ledger.limit(known, epsilon=1.0, delta=1e-6)
    with pytest.raises(InvalidArgument, match=f"looks like '{known}', which is in the ledger: it has"):
        ledger.limit(alike, epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize(
    "hidden", "\u200b\u200d\u2060\ufeff\u00ad\u202e\x00\n\t\x1b\u034f\u3164\u2800\ufe0f\ue000"
)
def test_a_character_that_does_not_show_is_refused(ledger: Ledger, hidden: str):
    for name in (f"pat{hidden}ients", f"patients{hidden}", hidden):
        with pytest.raises(InvalidArgument, match="invisible"):
            ledger.limit(name, epsilon=1.0, delta=1e-6)
        with pytest.raises(InvalidArgument, match="invisible"):
            ledger.account(name)


@pytest.mark.parametrize("name", ["", " ", "\u2003", "x" * 201])
def test_a_name_has_between_one_and_200_characters(ledger: Ledger, name: str):
    with pytest.raises(InvalidArgument, match="1 to 200"):
        ledger.limit(name, epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize(
    "other", ["patients 2", "patients_2024", "outpatients", "пациенты", "ασθενείς", "患者"]
)
def test_other_names_in_any_script_are_other_datasets(ledger: Ledger, other: str):
    ledger.limit(other, epsilon=1.0, delta=1e-6)
    assert len(ledger.datasets()) == 2


@given(st.text(min_size=1, max_size=20))
def test_a_normal_name_is_its_own_normal_name_and_has_one_skeleton(text: str):
    try:
        name = normalize(text)
    except InvalidArgument:
        return
    assert normalize(name) == name
    assert skeleton(skeleton(name)) == skeleton(name)
    assert find_look_alike(name, [name]) is None
