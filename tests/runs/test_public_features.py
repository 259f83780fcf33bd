"""Runs on images and texts by a public model: what they promise, keep, compare and refuse."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_files import write_model, write_text_model
from PIL import Image
from typer.testing import CliRunner

from reticent.cli.app import app
from reticent.core.errors import DataError, IntegrityError, InvalidArgument
from reticent.core.observer import Observer
from reticent.data.domain import Domain, Featured
from reticent.data.files.images import MOST_PIXELS, ImageFiles, ImageFolder, decode_image
from reticent.ledger.ledger import Ledger
from reticent.runs.fit import fit
from reticent.runs.origin import mark_as_own
from reticent.runs.predict import Predictor
from reticent.runs.reopen import open_again
from reticent.runs.request import Request

RNG = np.random.default_rng(0)


def paint(path: Path, shade: int, *, size: int | None = None) -> None:
    """An image of noise on top of a shade, of a size of its own."""
    height, width = (size, size) if size else RNG.integers(6, 16, 2)
    pixels = RNG.integers(0, 80, (height, width, 3)) + np.array([shade, 60, 160 - shade])
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "public.onnx", shape=["n", 3, 8, 8])


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("private") / "images"
    for at in range(60):
        paint(folder / ("cat", "dog")[at % 2] / f"{at}.png", 150 * (at % 2))
    return folder


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("public") / "others"
    for at in range(20):
        paint(folder / f"{at}.png", 7 * at)
    return folder


def asked(source: Path, features: Path | None, **more: Any) -> Request:
    words: dict[str, Any] = {"epsilon": 4.0, "method": "output", **more}
    return Request(source=str(source), features=None if features is None else str(features), **words)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, images: Path, model: Path, public: Path) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    fit(asked(images, model, public=str(public)), folder)
    return folder


def test_the_sentence_and_the_record_name_the_public_model(run, model):
    said = json.loads((run / "run.json").read_text())
    assert "the model that makes the features (public.onnx, digest " in said["sentence"]
    assert "never saw a private record" in said["sentence"]
    assert "whitened by are public" in said["sentence"]
    column = Domain.read(run / "domain.toml").columns["image"]
    assert isinstance(column, Featured)
    assert column.digest == said["request"]["features_digest"]
    assert column.model == "public.onnx"
    assert column.width == 5
    assert Domain.from_toml(Domain.read(run / "domain.toml").to_toml()).columns["image"] == column


def test_features_are_kept_in_the_private_part_and_not_computed_again(run, images, monkeypatch):
    (kept,) = (run / "private").glob("features-*.npy")
    assert kept.stat().st_mode & 0o077 == 0
    monkeypatch.setattr("reticent.features.computing._write", lambda *given: pytest.fail("computed again"))
    again = open_again(run)
    lengths = np.linalg.norm(np.concatenate([again.train_on["x"], again.held_out["x"]]), axis=1)
    assert len(lengths) == 60
    assert (lengths <= 1).all()
    assert lengths.min() > 0.99


def test_an_audit_reads_the_kept_features_and_says_what_it_does_not_test(
    images, model, tmp_path, monkeypatch
):
    run = tmp_path / "run"
    fit(asked(images, model, method="gd"), run)
    monkeypatch.setattr("reticent.features.computing._write", lambda *given: pytest.fail("computed again"))
    found = CliRunner().invoke(app, ["audit", str(run), "--canaries", "40"], catch_exceptions=False)
    said = " ".join(found.output.split())
    assert (found.exit_code, "Canaries joined behind the public model" in said) == (0, True), said
    assert json.loads((run / "private" / "audit.json").read_text())["canaries"]["gradient_canaries"] == 40


def test_new_images_are_predicted_by_the_same_model_only(run, images, model, tmp_path):
    found = list(Predictor(run).table(Predictor(run).open(images / "cat")))
    assert [row["image"] for row in found] == sorted(row["image"] for row in found)
    assert len(found) == 30
    other = write_model(tmp_path / "public.onnx", shape=["n", 3, 8, 8])
    with pytest.raises(IntegrityError, match="digest differs"):
        Predictor(run).open(images, features=str(other))
    stranger = tmp_path / "run"
    shutil.copytree(run, stranger, ignore=lambda *_: ["private"])
    with pytest.raises(DataError, match="Say where the model is"):
        Predictor(stranger).open(images)
    assert len(list(Predictor(stranger).table(Predictor(stranger).open(images, features=str(model))))) == 60
    white = stranger / "whitening.safetensors"
    white.write_bytes(white.read_bytes()[:-4] + b"\0\0\0\0")
    with pytest.raises(IntegrityError, match="digest differs"):
        Predictor(stranger).open(images, features=str(model))


def test_other_images_in_their_place_are_noticed_and_leave_nothing(run, images):
    before, first = sorted((run / "private").iterdir()), images / "cat" / "0.png"
    kept = first.read_bytes()
    try:
        paint(first, 90)
        with pytest.raises(IntegrityError, match="at least one cell differs"):
            open_again(run)
    finally:
        first.write_bytes(kept)
    assert sorted((run / "private").iterdir()) == before


def test_another_model_in_its_place_is_noticed(run, model, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    predictor = Predictor(folder)
    mark_as_own(folder, predictor.record)
    kept = model.read_bytes()
    try:
        write_model(model, shape=["n", 3, 8, 8])
        with pytest.raises(IntegrityError, match="digest differs"):
            open_again(folder)
    finally:
        model.write_bytes(kept)


def test_records_that_are_public_and_private_are_refused_unless_they_are_declared(
    images, model, public, tmp_path
):
    both = tmp_path / "both"
    shutil.copytree(public, both)
    shutil.copy(images / "cat" / "0.png", both / "copy.png")
    request = asked(images, model, public=str(both))
    with pytest.raises(DataError, match=r"1 of the 21 public records .* among the private ones .*copy.png"):
        fit(request, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    done = fit(replace(request, overlap_is_public=True), tmp_path / "run")
    assert "records that are among the public ones are public" in str(done.record.result.guarantee)


def broken(folder: Path) -> None:
    (folder / "dog" / "1.png").write_bytes((folder / "dog" / "3.png").read_bytes()[:120])


def linked(folder: Path) -> None:
    (folder / "dog" / "link.png").symlink_to("/etc/hostname")


def beside(folder: Path) -> None:
    paint(folder / "alone.png", 0)


def emptied(folder: Path) -> None:
    shutil.rmtree(folder / "cat")
    shutil.rmtree(folder / "dog")


def one_class(folder: Path) -> None:
    shutil.rmtree(folder / "cat")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (broken, r"dog/1\.png cannot be read as an image"),
        (linked, r"link\.png is a symbolic link, which is not followed"),
        (beside, r"alone\.png.* lie beside its folders"),
        (emptied, "There is no image"),
        (one_class, "fewer than two values"),
    ],
)
def test_a_folder_that_cannot_be_used_is_refused_and_nothing_is_charged(
    images, model, tmp_path, spoil, message
):
    folder, ledger = tmp_path / "images", tmp_path / "ledger.db"
    shutil.copytree(images, folder)
    spoil(folder)
    with Ledger.create(ledger) as book:
        book.limit("photos", epsilon=9.0, delta=1e-2)
    with pytest.raises((DataError, InvalidArgument), match=message):
        fit(asked(folder, model, ledger=str(ledger), dataset="photos"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with Ledger.open(ledger) as book:
        assert [entry.kind for entry in book.entries("photos")] == ["limit"]


def test_a_class_of_one_image_is_left_out_and_said(images, model, tmp_path):
    folder = tmp_path / "images"
    shutil.copytree(images, folder)
    paint(folder / "emu" / "1.png", 0)
    (folder / "notes.txt").write_text("by hand")
    warned: list[str] = []
    done = fit(asked(folder, model), tmp_path / "run", observer=Observer(warn=warned.append))
    assert done.record.result.problem is not None
    assert done.record.result.problem.classes == ("cat", "dog")
    assert any("1 rows have a label that fewer than 5 rows share" in line for line in warned)
    assert any("notes.txt" in line for line in warned)


@pytest.mark.parametrize("name", ["../x.png", "/etc/hostname", "a/../../x.png"])
def test_no_image_outside_of_its_folder_is_opened(tmp_path, name):
    paint(tmp_path / "x.png", 0)
    (tmp_path / "inside").mkdir()
    with pytest.raises(DataError, match="lies outside"):
        ImageFiles(tmp_path / "inside", [name])[0]


def test_an_image_of_too_many_pixels_is_refused_before_it_is_decoded(tmp_path, monkeypatch):
    path = tmp_path / "huge.png"
    Image.new("1", (MOST_PIXELS // 4096 + 1, 4096)).save(path)  # a few kilobytes
    monkeypatch.setattr("reticent.data.files.images._pixels", lambda picture: pytest.fail("decoded"))
    with pytest.raises(DataError, match=r"huge has 16,385 x 4,096 pixels|16,385 x 4,096 pixels"):
        decode_image(path.read_bytes(), called="huge")


def test_images_in_a_table_of_paths(images, model, tmp_path):
    names = ImageFolder(images).batches(["image"])
    paths = [cell for rows in names for cell in rows.batch.column("image").to_pylist()]
    table = images.parent / "list.csv"
    table.write_text("file,kind\n" + "".join(f"images/{name},{name[:3]}\n" for name in paths))
    done = fit(asked(table, model, images="file", target="kind"), tmp_path / "run")
    assert done.record.result.problem is not None
    assert done.record.result.problem.shape == (5,)
    table.write_text(table.read_text().replace(paths[3], "nowhere.png"))
    with pytest.raises(DataError, match=r"There is no image .*nowhere\.png"):
        fit(asked(table, model, images="file", target="kind"), tmp_path / "other")


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["review", "label"])
        rows.writerows([("the film is " + ("good", "bad")[at % 2], "yn"[at % 2]) for at in range(400)])
    return path


def test_texts_by_their_words_and_by_a_model(texts, tmp_path):
    said = fit(asked(texts, None, text="review", target="label", epsilon=20.0), tmp_path / "words").record
    assert "never saw" not in str(said.result.guarantee)  # a hash has learned from nobody
    assert said.result.metrics["accuracy"] == 1
    model = write_text_model(tmp_path / "model")
    done = fit(asked(texts, model, text="review", target="label"), tmp_path / "run")
    assert "texts.onnx" in str(done.record.result.guarantee)
    new = tmp_path / "new.csv"
    new.write_text("review\ngood good film\n")
    predictor = Predictor(tmp_path / "words")
    (row,) = predictor.table(predictor.open(new))
    assert row["prediction"] == "y"


@pytest.mark.parametrize(
    ("before", "after", "more", "message"),
    [
        ("is good", "is good", {"text": None}, "Pass --text COLUMN"),
        ("is good", "is good", {"text": "label"}, "both the target and what it is predicted from"),
        ("is good", "is good", {"images": "review"}, "two are named"),
        ("is good", "is good", {"text": None, "images": "review"}, "takes texts, and 'review' holds images"),
        ("is good", "is good", {"model": "mlp", "method": "sgd", "text": "revue"}, "Did you mean"),
        ("is good", "is good", {"model": "additive", "method": "additive"}, "does not learn from features"),
        ("the film is good", " ", {}, r"line 2, column 'review': there is no text"),
        ("is good", "is b\xe9ni", {}, "not written in UTF-8"),
    ],
)
def test_texts_that_cannot_be_used(texts, tmp_path, before, after, more, message):
    texts.write_bytes(texts.read_text().replace(before, after, 1).encode("latin-1"))
    model = write_text_model(tmp_path / "model")
    with pytest.raises((DataError, InvalidArgument), match=message):
        fit(asked(texts, model, **{"text": "review", "target": "label", **more}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_folder_of_images_without_a_model(images, tmp_path):
    with pytest.raises(InvalidArgument, match=r"Pass --features MODEL\.onnx"):
        fit(asked(images, None), tmp_path / "run")
    with pytest.raises(InvalidArgument, match="features are whitened by them"):
        asked(images, None, public="somewhere")
