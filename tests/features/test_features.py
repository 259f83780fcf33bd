"""Features by a public model: each record by itself, computed once; refused where a model has a memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import reticent as rt
from reticent.features.computing import fingerprint

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (7, 6, 6, 3)).astype(np.uint8)


def write_model(path: Path, *, shape: list[Any], is_training: bool = False) -> Path:
    """A convolution, batch norm and the mean over all places."""
    constants = {
        "w": RNG.normal(size=(5, 3, 3, 3)).astype(np.float32),
        **{name: np.ones(5, np.float32) for name in ("scale", "bias", "mean", "var")},
    }
    outputs = ["n", "m", "v"] if is_training else ["n"]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node(
            "BatchNormalization",
            ["c", "scale", "bias", "mean", "var"],
            outputs,
            training_mode=int(is_training),
        ),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


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
    names = {fingerprint(extractor, IMAGES), fingerprint(other, IMAGES), fingerprint(extractor, IMAGES[::-1])}
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
    monkeypatch.setattr("reticent.features.onnx_model._LARGEST", 100)
    with pytest.raises(rt.DataError, match="Cannot read the model"):
        rt.features.from_onnx(fixed)
