"""A portable model as an ONNX graph: from encoded features to probabilities, or to a number."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.additive.columns import MAY_BE_MISSING, STEPS, Columns
from reticent.core.errors import Unavailable

if TYPE_CHECKING:
    from reticent.runs.portable import Layer, PortableCurves, PortableModel

Part = tuple[list[Any], list[Any], str]  # nodes, constants, and the name of what comes out

_OPSET, _FORMAT = 17, 8  # old enough for runtimes of the last years


def onnx_file(model: PortableModel) -> bytes:
    """The graph as a file, checked: input `features` (rows, features), float32.

    Classes have the outputs `probabilities` (rows, classes) and `label` (rows,), a number from 0; a number
    has the output `prediction` (rows, 1). Names of features and classes, and the guarantee, are among the
    metadata.

    Raises:
        Unavailable: the package `onnx` is not installed.
    """
    try:
        import onnx
        from onnx import TensorProto, checker, helper
    except ImportError:
        raise Unavailable(
            "The ONNX format needs the package 'onnx', which is not installed.",
            remedy="Install it: pip install 'reticent[onnx]'.",
        ) from None
    nodes, constants, at = _of_curves(model.curves) if model.curves is not None else _of_layers(model.layers)
    features, classes = len(model.encoding["features"]), model.encoding["classes"]
    if classes:
        nodes.append(helper.make_node("Softmax", [at], ["probabilities"], axis=1))
        nodes.append(helper.make_node("ArgMax", [at], ["label"], axis=1, keepdims=0))
        outputs = [
            helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["rows", len(classes)]),
            helper.make_tensor_value_info("label", TensorProto.INT64, ["rows"]),
        ]
    else:
        bounds = np.asarray(model.encoding["bounds"], np.float32)
        constants += [_constant(bound, name) for bound, name in zip(bounds, ("low", "high"), strict=True)]
        nodes.append(helper.make_node("Clip", [at, "low", "high"], ["prediction"]))
        outputs = [helper.make_tensor_value_info("prediction", TensorProto.FLOAT, ["rows", 1])]
    inputs = [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["rows", features])]
    graph = helper.make_graph(nodes, "reticent", inputs, outputs, constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_FORMAT)
    helper.set_model_props(
        made,
        {
            "features": json.dumps(model.encoding["features"]),
            "classes": json.dumps(classes),
            "guarantee": model.encoding["guarantee"],
        },
    )
    checker.check_model(made)
    return onnx.ModelProto.SerializeToString(made)


def _of_layers(layers: Sequence[Layer]) -> Part:
    """Products with tanh between them."""
    from onnx import helper

    nodes, constants, at = [], [], "features"
    for number, (weights, biases) in enumerate(layers):
        if number:
            nodes.append(helper.make_node("Tanh", [at], [f"tanh{number}"]))
            at = f"tanh{number}"
        names = (f"weights{number}", f"constants{number}")
        constants += [_constant(weights, names[0]), _constant(biases, names[1])]
        nodes.append(helper.make_node("Gemm", [at, *names], [f"layer{number}"]))
        at = f"layer{number}"
    return nodes, constants, at


class _Graph:
    """Nodes and constants, named as they come."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, what: str, *inputs: str, **more: Any) -> str:
        """Adds a node; returns the name of what comes out of it."""
        from onnx import helper

        name = f"{what}{len(self.nodes)}"
        self.nodes.append(helper.make_node(what, inputs, [name], **more))
        return name

    def give(self, values: Any) -> str:
        """Adds a constant; returns its name."""
        name = f"constant{len(self.constants)}"
        self.constants.append(_constant(values, name))
        return name

    def take(self, source: str, start: int, end: int) -> str:
        """Adds columns of a matrix from `start` up to, not including, `end`."""
        return self.add("Slice", source, self.give([start]), self.give([end]), self.give([1]))


def _of_curves(curves: PortableCurves) -> Part:
    """The cell of each column, looked up among the cells of all columns: as `additive.Columns.cells_of`."""
    graph, columns, start, cells = _Graph(), Columns(curves.kinds), 0, []
    for kind, width, first in zip(curves.kinds, columns.widths, columns.firsts.tolist(), strict=True):
        part = graph.take("features", start, start + width)
        start += width
        cells.append(
            _word_cell(graph, part, kind, first) if kind > 0 else _number_cell(graph, part, kind, first)
        )
    values = graph.add("Gather", graph.give(curves.curve), graph.add("Concat", *cells, axis=1))
    total = graph.add("ReduceSum", values, graph.give([1]), keepdims=0)  # of (rows, columns, outputs)
    scores = graph.add("Add", total, graph.give(curves.constant))
    return graph.nodes, graph.constants, scores


def _word_cell(graph: _Graph, part: str, words: int, first: int) -> str:
    """The place of the feature that is 1; the one after the last if none is."""
    is_there = graph.add(
        "Greater", graph.add("ReduceMax", part, axes=[1], keepdims=1), graph.give(np.float32(0.5))
    )
    place = graph.add("Add", graph.add("ArgMax", part, axis=1, keepdims=1), graph.give([[first]]))
    return graph.add("Where", is_there, place, graph.give([[first + words]]))


def _number_cell(graph: _Graph, part: str, kind: int, first: int) -> str:
    """The nearest of the steps from -1 to 1; the last cell for a number that is missing."""
    from onnx import TensorProto

    number, zero, one = graph.take(part, 0, 1), graph.give(np.float32(0)), graph.give(np.float32(1))
    is_missing = graph.add("IsNaN", number)
    if kind == MAY_BE_MISSING:
        is_marked = graph.add("Greater", graph.take(part, 1, 2), graph.give(np.float32(0.5)))
        is_missing = graph.add("Or", is_missing, is_marked)
    inside = graph.add("Clip", graph.add("Where", is_missing, zero, number), graph.give(np.float32(-1)), one)
    steps = graph.add("Mul", graph.add("Add", inside, one), graph.give(np.float32(STEPS / 2)))
    place = graph.add("Cast", graph.add("Round", steps), to=TensorProto.INT64)
    return graph.add(
        "Where", is_missing, graph.give([[first + STEPS + 1]]), graph.add("Add", place, graph.give([[first]]))
    )


def _constant(values: Any, name: str) -> Any:
    from onnx import numpy_helper

    return numpy_helper.from_array(np.asarray(values), name)
