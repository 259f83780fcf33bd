"""Features by a public model: each record by itself, computed once; refused where a model has a memory."""

from __future__ import annotations

import json

import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from onnx_files import tokenizer, write_model, write_text_model

import reticent as rt
from reticent.features.computing import fingerprint

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (7, 6, 6, 3)).astype(np.uint8)


def test_batch_norm_left_in_training_mode_is_refused(tmp_path):
    extractor = rt.features.from_onnx(
        write_model(tmp_path / "m.onnx", shape=["n", 3, 8, 8], is_training=True)
    )
    with pytest.raises(rt.DataError, match="inference mode"):
        rt.features.compute(extractor, IMAGES)


@pytest.mark.parametrize("slots", ["n", 1, 4])
def test_a_row_depends_on_its_own_record_alone(tmp_path, slots):
    model = write_model(tmp_path / "m.onnx", shape=[slots, 3, 8, 8])
    extractor = rt.features.from_onnx(model)
    found = rt.features.compute(extractor, IMAGES)
    order = RNG.permutation(len(IMAGES))[:5]
    assert found.shape == (7, 5)
    assert np.array_equal(rt.features.compute(extractor, IMAGES[order]), found[order])


def test_a_jax_loop_rounds_a_record_alike_wherever_it_stands():
    weights = RNG.normal(size=(108, 5)).astype(np.float32)
    extractor = rt.features.from_jax(
        lambda image: jnp.tanh(image.astype(jnp.float32).ravel() @ weights / 1000), name="f", digest="1"
    )
    many = np.concatenate([IMAGES] * 12)
    found = rt.features.compute(extractor, many)
    assert all(np.array_equal(found[:7], found[at : at + 7]) for at in range(0, len(many), 7))
    np.testing.assert_allclose(found[0], extractor.row(IMAGES[0]), rtol=1e-4)


def test_a_function_with_a_memory_is_refused():
    seen: list[float] = []

    def centred(image: np.ndarray) -> np.ndarray:
        seen.append(float(image.mean()))
        return image.ravel() - np.mean(seen)

    with pytest.raises(rt.DataError, match="depend on one record alone"):
        rt.features.compute(rt.features.from_function(centred, name="f", digest="1"), IMAGES)


def test_features_are_computed_once_for_the_same_model_and_records(tmp_path):
    asked: list[int] = []

    def apply(image: np.ndarray) -> list[float]:
        asked.append(1)
        return [float(image.sum()), 1.0]

    extractor = rt.features.from_function(apply, name="f", digest="1")
    first = rt.features.compute(extractor, IMAGES, cache=tmp_path)
    asked.clear()
    assert np.array_equal(rt.features.compute(extractor, IMAGES, cache=tmp_path), first)
    assert len(asked) < len(IMAGES) + 2  # the probes alone
    (kept,) = tmp_path.glob("features-*.npy")
    assert kept.stat().st_mode & 0o077 == 0
    other = rt.features.from_function(apply, name="f", digest="2")
    names = {
        fingerprint(extractor.digest, IMAGES),
        fingerprint(other.digest, IMAGES),
        fingerprint(extractor.digest, IMAGES[::-1]),
    }
    assert len(names) == 3
    kept.write_bytes(kept.read_bytes()[:100])  # damaged: computed anew
    assert np.array_equal(rt.features.compute(extractor, IMAGES, cache=tmp_path), first)


def test_large_features_stay_on_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr("reticent.features.computing._LARGE", 16)
    extractor = rt.features.from_function(lambda text: [len(text)], name="f", digest="1")
    texts = ["a" * number for number in range(9)]
    for _ in range(2):
        found = rt.features.compute(extractor, texts, cache=tmp_path)
        assert isinstance(found, np.memmap)
        assert found[:, 0].tolist() == list(range(9))
    assert [path.name[:9] for path in tmp_path.iterdir()] == ["features-"]


def test_a_record_without_finite_features_counts_as_zeros():
    extractor = rt.features.from_function(lambda x: [np.nan, x[0], np.inf], name="f", digest="1")
    assert rt.features.compute(extractor, np.ones((1, 2))).tolist() == [[0.0, 1.0, 0.0]]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "not an ONNX model"), (b"junk", "not an ONNX model"), (None, "Cannot read")],
)
def test_a_damaged_file_is_named(tmp_path, content, message):
    path = tmp_path / "model.onnx"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(rt.DataError, match=message) as error:
        rt.features.from_onnx(path)
    assert str(path) in str(error.value)


def test_a_model_for_other_inputs_is_refused(tmp_path, monkeypatch):
    fixed = write_model(tmp_path / "fixed.onnx", shape=[1, 3, 8, 8])
    with pytest.raises(rt.InvalidArgument, match=r"8 x 8 pixels, not of 16 x 16"):
        rt.features.from_onnx(fixed, side=16)
    with pytest.raises(rt.InvalidArgument, match="no output 'z'"):
        rt.features.from_onnx(fixed, output="z")
    with pytest.raises(rt.DataError, match="neither one colour nor three"):
        rt.features.from_onnx(write_model(tmp_path / "five.onnx", shape=[1, 5, 8, 8]))
    monkeypatch.setattr("reticent.features.onnx_session._LARGEST", 100)
    with pytest.raises(rt.DataError, match="Cannot read the model"):
        rt.features.from_onnx(fixed)


def test_a_model_that_names_other_files_opens_none(tmp_path, monkeypatch):
    kept = write_model(tmp_path / "kept.onnx", shape=["n", 3, 8, 8])
    model = onnx.load(kept)
    onnx.save_model(
        model, tmp_path / "m.onnx", save_as_external_data=True, location="other", size_threshold=0
    )
    monkeypatch.chdir(tmp_path)  # where the runtime would find the other file
    with pytest.raises(rt.DataError, match=r"in other files \(other\), which are not opened"):
        rt.features.from_onnx(tmp_path / "m.onnx")


def test_a_text_is_its_own_pieces_and_nothing_is_padded(tmp_path):
    extractor = rt.features.from_onnx(write_text_model(tmp_path))
    pieces = np.array([2, 8, 4, 6, 7, 1, 9, 3])  # [CLS] the good film ##s [UNK] . [SEP]
    expected = (np.eye(10, 8, dtype=np.float32) + 0.1)[pieces].mean(axis=0)
    np.testing.assert_allclose(extractor.row("The GOOD\tfilms áb."), expected, rtol=1e-6)
    found = rt.features.compute(extractor, np.array(["good", "bad " * 99], np.dtypes.StringDType()))
    # Of a long text the first 14 pieces, between the two marks.
    np.testing.assert_allclose(found[1], np.array([0, 0, 1, 1, 0, 14, 0, 0]) / 16 + 0.1, rtol=1e-5)
    assert extractor.takes == "texts"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "tokenizer.json").unlink(), "Cannot read the tokenizer"),
        (lambda folder: (folder / "tokenizer.json").write_text("{"), "does not describe a tokenizer"),
        (
            lambda folder: (folder / "tokenizer.json").write_text(
                json.dumps(tokenizer() | {"model": {"type": "BPE"}})
            ),
            "'model': 'BPE'",
        ),
        (lambda folder: write_text_model(folder, words=5), "does not know word piece 9"),
        (
            lambda folder: write_text_model(folder, pieces=32),
            "32 word pieces only, so others would be padded",
        ),
    ],
)
def test_a_text_model_that_cannot_be_asked_is_refused(tmp_path, spoil, message):
    path = write_text_model(tmp_path)
    spoil(tmp_path)
    with pytest.raises(rt.DataError, match=message):
        rt.features.from_onnx(path)


def test_images_of_other_sizes_have_names_of_their_own():
    flat = np.arange(4, dtype=np.uint8)
    assert fingerprint("1", [flat.reshape(2, 2)]) != fingerprint("1", [flat.reshape(1, 4)])
