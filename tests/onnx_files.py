"""Small ONNX models for tests: one of images, one of texts with its tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(0)
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad", "film", "##s", "the", ".")


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


def write_text_model(folder: Path, *, pieces: int | str = "n", words: int = len(WORDS)) -> Path:
    """The vector of each word piece: a mean of them is what an extractor makes of a text."""
    folder.mkdir(exist_ok=True)
    graph = helper.make_graph(
        [helper.make_node("Gather", ["w", "input_ids"], ["y"])],
        "words",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, pieces])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.eye(words, 8, dtype=np.float32) + 0.1, "w")],
    )
    path = folder / "texts.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
    return path


def tokenizer() -> dict[str, Any]:
    """What a `tokenizer.json` says: it would pad texts to 128 pieces, and cuts them to 16."""
    return {
        "padding": {"strategy": {"Fixed": 128}, "pad_id": 0},
        "truncation": {"max_length": 16},
        "normalizer": {"type": "BertNormalizer", "lowercase": True, "strip_accents": None},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "vocab": {word: number for number, word in enumerate(WORDS)},
        },
    }
