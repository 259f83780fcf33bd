"""`reticent attack --attacks KIND,...`: every kind under its own key, one line where it has no meaning."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from reticent.core.keys import Keys
from reticent.runs.fit import fit
from reticent.runs.request import Request

DOMAIN = """version = 1
target = "ill"
[columns.age]
kind = "integer"
bounds = [20, 80]
[columns.weight]
kind = "number"
bounds = [40, 120]
[columns.town]
kind = "category"
values = ["a", "b", "c"]
other = false
[columns.ill]
kind = "label"
values = ["no", "yes"]
"""


def ordered(folder: Path, method: str = "sgd") -> Request:
    """The old are ill, but in town a the young are: that is what its share does to a model."""
    rng = np.random.default_rng(0)
    lines = ["age,weight,town,ill"]
    for _ in range(1500):
        age, weight, town = rng.integers(20, 80), rng.uniform(40, 120), "abc"[rng.integers(3)]
        ill = (age > 50) != (town == "a")
        lines.append(f"{age},{weight:.3f},{town},{'yes' if ill else 'no'}")
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    (folder / "people.toml").write_text(DOMAIN)
    domain = str(folder / "people.toml")
    epsilon = 25.0 if method == "output" else 40.0  # a single release ends at about 29
    return Request(
        source=str(folder / "people.csv"), target="ill", epsilon=epsilon, domain=domain, method=method
    )


@pytest.fixture(scope="module")
def people(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("people")
    fit(ordered(folder), folder / "run", keys=Keys.seeded(0))
    return folder / "run"


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("digits") / "run"
    fit(Request(source="digits", epsilon=25.0, method="output"), folder, keys=Keys.seeded(0))
    return folder


@pytest.fixture(scope="module")
def everything(people: Path, tmp_path_factory) -> tuple[dict, Path]:
    """All that can be asked about a table, asked once."""
    from typer.testing import CliRunner

    from reticent.cli.app import app

    goal = tmp_path_factory.mktemp("found") / "deep" / "down"
    names = "attribute,property,inversion,leakage,defences"
    words = ["attack", people, "--attacks", names, "--column", "town", "--property", "town = a"]
    words += ["--share", 0.8, "--shadows", 5, "-o", goal, "--json"]
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads((goal / "attack.json").read_text()), goal


def test_every_kind_stands_under_its_own_key(everything) -> None:
    found, goal = everything
    assert list(found) == ["attribute", "property", "inversion", "leakage", "defences"]
    assert all(part["in_words"] for part in found.values())
    assert [path.name for path in goal.iterdir()] == ["attack.json"]  # a table has no pictures
    assert [path.name for path in goal.parent.iterdir()] == [goal.name]


def test_the_share_of_a_group_is_guessed_on_unseen_models_and_on_the_run(everything) -> None:
    found = everything[0]["property"]
    assert found["property"] == "town = a"
    assert found["shares"] == [pytest.approx(1 / 3, abs=0.15), 0.8]
    assert found["accuracy"]["low"] > 0.6
    assert (found["taught_on"], found["held_out"]) == (40, 20)
    assert found["this_run"]["share"] == pytest.approx(1 / 3, abs=0.08)
    assert found["this_run"]["probability_of_high"] < 0.5


def test_a_typical_record_is_told_in_the_words_of_the_table(everything) -> None:
    records = everything[0]["inversion"]["records"]
    assert list(records) == ["no", "yes"]
    assert int(records["yes"]["age"]) > int(records["no"]["age"])
    assert set(records["yes"]) == {"age", "weight", "town"}
    assert records["yes"]["town"] in "abc"
    assert everything[0]["inversion"]["ways"]["among records of its kind"]["recognised"]["value"] == 1


def test_noise_as_in_the_run_leaves_nothing_of_a_record_in_its_gradient(everything, people: Path) -> None:
    found = everything[0]["leakage"]
    raw, clipped, *_, last = found["rows"]
    for row in (raw, clipped):
        assert (row["psnr"]["value"], row["label"]["value"], row["cells"]["value"]) == (120, 1, 1)
    plan = json.loads((people / "run.json").read_text())["recipe"]["plan"]
    assert last["noise_multiplier"] == found["noise_multiplier_of_the_run"] == plan["noise_multiplier"]
    assert last["psnr"]["high"] < found["mean_record_psnr"]["low"]
    assert 0.5 <= found["commonest_label"] < 0.65
    assert last["cells"]["value"] < 0.7


def test_defences_stand_beside_the_run_itself(everything) -> None:
    rows = {row["defence"]: row for row in everything[0]["defences"]["rows"]}
    names = list(rows)
    assert names[0].startswith("none")
    assert names[-1].startswith("this run, epsilon ")
    assert {"label only", "temperature 4", "weight decay", "noise up to 1"} <= set(names)
    assert rows["label only"]["attacks"]["gap"]["auc"] == rows[names[0]]["attacks"]["gap"]["auc"]
    assert rows["label only"]["changed"] > 0 == rows[names[-1]]["changed"]


@pytest.mark.thorough
def test_images_are_shown_in_pictures(reticent, digits: Path, tmp_path: Path) -> None:
    goal = tmp_path / "found"
    code, out, err = reticent("attack", digits, "--attacks", "inversion,leakage", "-o", goal)
    assert code == 0, err
    assert sorted(path.name for path in goal.iterdir()) == ["attack.json", "inversion.png", "leakage.png"]
    found = json.loads((goal / "attack.json").read_text())
    assert "attacks" not in found
    ways = found["inversion"]["ways"]
    assert set(ways) == {"from the label alone", "among records of its kind"}
    assert all(way["recognised"]["low"] > 0.2 for way in ways.values())
    assert found["leakage"]["rows"][0]["psnr"]["value"] > 100
    assert found["leakage"]["noise_multiplier_of_the_run"] is None
    assert "was not trained in steps" in " ".join(out.split())


def test_convex_methods_have_shadow_models(reticent, tmp_path: Path) -> None:
    fit(ordered(tmp_path, method="output"), tmp_path / "run", keys=Keys.seeded(1))
    words = ("--shadows", 6, "--property", "town = a", "--share", 0.9, "--json")
    code, out, err = reticent("attack", tmp_path / "run", *words)
    assert code == 0, err
    found = json.loads(out)
    assert found["shadows"] == 6
    assert found["property"]["accuracy"]["low"] > 0.5
    assert {"likelihood", "label_only_likelihood", "shadow_classifier"} <= set(found["attacks"])
    assert found["attacks"]["likelihood"]["auc"]["low"] < 0.55


def test_single_membership_attacks_may_be_named_beside_a_kind(reticent, people: Path, tmp_path: Path) -> None:
    words = ("--attacks", "gap, threshold, leakage", "--shadows", 0, "--json", "-o", tmp_path / "found")
    code, out, err = reticent("attack", people, *words)
    assert code == 0, err
    found = json.loads(out)
    assert list(found["attacks"]) == ["gap", "threshold"]
    assert found["leakage"]["how"] == "by division"
    assert found == json.loads((tmp_path / "found" / "attack.json").read_text())
    assert sorted(path.name for path in (tmp_path / "found").iterdir()) == ["attack.json", "roc.svg"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--attacks", "extraction"), "--task next-character"),
        (("--attacks", "membersip"), "Did you mean 'membership'?"),
        (("--attacks", ","), "There is no attack"),
        (("--attacks", "attribute"), "a category of this run: town."),
        (("--attacks", "property"), "Available columns: town."),
        (("--property", "town"), "is not a property"),
        (("--property", "twn = a"), "Did you mean 'town'?"),
        (("--property", "age = 30"), "'age' is not a category"),
        (("--property", "town = d"), "'town' has no value 'd'"),
        (("--attacks", "property", "--property", "town = a", "--share", 1.5), "share"),
        (("--attacks", "property", "--property", "town = a", "--shadows", 0), "needs shadow models"),
        (("--share", 0.5), "--share 0.5 needs a property"),
        (("--attacks", "likelihood", "--shadows", 0), "likelihood needs shadow models"),
    ],
)
def test_what_has_no_meaning_is_refused_and_nothing_is_written(
    reticent, people: Path, tmp_path: Path, words: tuple, said: str
) -> None:
    code, out, err = reticent("attack", people, *words, "-o", tmp_path / "found")
    assert (code, out) == (1, "")
    assert said in err
    assert err.count("error:") == 1
    assert not any(tmp_path.iterdir())


def test_rows_without_names_have_no_property_or_column(reticent, digits: Path) -> None:
    code, _, err = reticent("attack", digits, "--property", "sex = Female")
    assert (code, "arrays without names" in err) == (1, True)
    code, _, err = reticent("attack", digits, "--attacks", "attribute")
    assert (code, "not trained on a table" in err) == (1, True)


def test_a_picture_that_fails_leaves_no_folder(reticent, people: Path, tmp_path: Path, monkeypatch) -> None:
    from reticent.report.figures import attacks as attack_figures

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(attack_figures, "save_roc", full)
    words = ("--attacks", "gap", "--shadows", 0, "-o", tmp_path / "found")
    code, _, err = reticent("attack", people, *words)
    assert (code, "No space left" in err) == (1, True)
    assert not any(tmp_path.iterdir())


def test_files_and_scores_tell_of_membership_only(reticent, tmp_path: Path) -> None:
    (tmp_path / "scores.csv").write_text("score,is_member\n" + "1,1\n0,0\n" * 20)
    words = ("attack", "--scores", tmp_path / "scores.csv", "--attacks")
    assert "not leakage" in reticent(*words, "leakage")[2]
    assert "there is nothing to choose" in reticent(*words, "threshold")[2]
