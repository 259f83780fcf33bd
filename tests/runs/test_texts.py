"""Runs that continue texts: the unit is a speaker, samples cost nothing, planted secrets are measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reticent.core.errors import DataError, InvalidArgument
from reticent.data import catalog
from reticent.data.catalog import Splits
from reticent.data.dataset import Dataset
from reticent.data.speeches import ALPHABET, text_of, windows_of
from reticent.runs.attacks.extraction import extract_from_run
from reticent.runs.continuation import continue_text
from reticent.runs.fit import fit
from reticent.runs.predict import Predictor
from reticent.runs.reopen import open_again
from reticent.runs.request import Request

SPEAKERS = 60


def play() -> str:
    """Sixty speakers with a speech of some hundred characters each."""
    words = ("the king", "my lord", "a horse", "good night", "to be", "what news", "the sea", "sweet love")
    rng = np.random.default_rng(0)
    speeches = [f"SPEAKER {n}:\n" + " ".join(rng.choice(words, 30)) + "." for n in range(SPEAKERS)]
    return "\n\n".join(speeches)


@pytest.fixture(scope="module", autouse=True)
def small_play():
    """The dataset of the catalog, as if it were at hand and small."""
    usual = catalog.load
    characters = np.frombuffer(play().encode(), np.uint8)
    text = Splits(train=Dataset(arrays={"x": characters}, name="tinyshakespeare"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            catalog, "load", lambda name, **named: text if name == "tinyshakespeare" else usual(name, **named)
        )
        yield


@pytest.fixture(scope="module")
def run(small_play: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts") / "run"
    request = Request(
        source="tinyshakespeare", epsilon=4.0, task="next-character", user="speaker", rows_per_user=2
    )
    fit(request, folder)
    return folder


def test_what_a_speaker_says_decides_about_no_window_of_another():
    text = play()
    whole = windows_of(text, 64, 2)
    without = windows_of(text.replace("SPEAKER 7:\n", "Exit SPEAKER 7\n"), 64, 2)
    assert np.bincount(whole.speakers).max() == 2
    assert len(np.unique(whole.speakers)) == SPEAKERS
    left = {row.tobytes() for row in without.x}
    mine = sorted(f"SPEAKER {n}" for n in range(SPEAKERS)).index("SPEAKER 7")
    others = whole.x[whole.speakers != mine]
    assert {row.tobytes() for row in others} == left
    first = next(line for line in text.split("\n\n") if line.startswith("SPEAKER 0:"))
    assert text_of(whole.x[0]) == first.partition("\n")[2][:64]


def test_the_guarantee_is_for_a_speaker_and_scores_are_bits(run: Path):
    predictor = Predictor(run)
    result = predictor.record.result
    assert "one user with up to 2 rows" in str(result.guarantee)
    assert predictor.record.rows < SPEAKERS
    assert result.guarantee.epsilon <= 4.0
    assert 0 < result.metrics["bits per character"] < np.log2(len(ALPHABET))


def test_a_sample_continues_a_prompt_and_is_the_same_for_a_seed(run: Path):
    predictor = Predictor(run)
    first = continue_text(predictor, "the ", characters=80, seed=1)
    assert first == continue_text(predictor, "the ", characters=80, seed=1)
    assert len(first) == 80
    assert first != continue_text(predictor, "the ", characters=80, seed=2)


@pytest.mark.thorough
def test_secrets_are_read_out_of_the_model_without_privacy_and_not_out_of_the_private_one(run: Path):
    found = extract_from_run(open_again(run))
    bits = {
        name: np.mean([getattr(each, name).bits for each in found.secrets])
        for name in ("private", "ordinary")
    }
    assert bits["ordinary"] > 7
    assert bits["private"] < 5
    assert "without privacy" in found.in_words[0]
    assert found.to_json()["secrets"][0]["private"]["space_bits"] == pytest.approx(np.log2(1000))


def test_what_does_not_continue_a_text_is_refused(tmp_path: Path):
    for words, complaint in (
        ({"source": "digits", "task": "next-character"}, "is not a text"),
        ({"source": "digits", "model": "language"}, "continues texts"),
        (
            {"source": "tinyshakespeare", "task": "next-character", "method": "output"},
            "trained with sgd or gd",
        ),
    ):
        with pytest.raises(InvalidArgument, match=complaint):
            fit(Request(epsilon=1.0, **words), tmp_path / "no")  # type: ignore[arg-type]
    fit(Request(source="digits", epsilon=4.0, model="linear"), tmp_path / "digits")
    with pytest.raises(InvalidArgument, match="trains on tables or images"):
        extract_from_run(open_again(tmp_path / "digits"))
    with pytest.raises(DataError, match="does not continue texts"):
        continue_text(Predictor(tmp_path / "digits"))
