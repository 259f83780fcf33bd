"""An ONNX file as something that can be asked: read whole, checked, and run alike every time.

The file is given to the runtime as bytes. One that keeps numbers in other files is refused before that, so no
other file is opened on its word; operators that are not ONNX's own are refused by the runtime. Nothing in it
is executed as code. It may still ask for much memory and time: use a model that somebody stands for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reticent.core.errors import DataError, Unavailable
from reticent.core.files import read_named

_LARGEST = 1 << 30  # bytes of a file


def content_of(path: Path) -> bytes:
    """What the file holds.

    Raises:
        DataError: it is not there, may not be read, or is too large.
    """
    try:
        return read_named(path, most=_LARGEST)
    except OSError as error:
        why = f"it has more than {_LARGEST >> 30} GiB" if error.errno == 27 else error.strerror
        raise DataError(
            f"Cannot read the model {path}: {why}.",
            remedy="Give the .onnx file of a model that is in one file and small enough to run here.",
        ) from error


def open_session(path: Path, content: bytes) -> Any:
    """The model in these bytes, ready to be asked.

    Raises:
        DataError: it is not a model that can be run here, or keeps numbers in other files.
        Unavailable: onnx or onnxruntime is not installed.
    """
    try:
        import onnx
        import onnxruntime
    except ImportError:
        raise Unavailable(
            "Features from an ONNX model need the packages 'onnx' and 'onnxruntime', and one is missing.",
            remedy="Install it: pip install 'reticent[onnx]'.",
        ) from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.use_deterministic_compute = True
    options.log_severity_level = 4
    try:
        files = _other_files(onnx.load_model_from_string(content))
    except Exception as error:  # noqa: BLE001  # protobuf's own errors have no public base
        raise _not_a_model(path, error) from None
    if files:
        # The runtime would look for them where this process happens to work, and above.
        raise DataError(
            f"{path} keeps its numbers in other files ({', '.join(files[:3])}), which are not opened.",
            remedy="Export it into one file: in Python, onnx.save_model(onnx.load(FILE), NEW).",
        )
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001  # the runtime's own errors have no public base
        raise _not_a_model(path, error) from None


def _other_files(message: Any) -> list[str]:
    """The names of the files in which a model keeps numbers, wherever in it they are named."""
    from onnx import TensorProto

    found, waiting = [], [message]
    while waiting:
        part = waiting.pop()
        if isinstance(part, TensorProto) and (
            part.data_location != TensorProto.DEFAULT or len(part.external_data)
        ):
            places = [entry.value for entry in part.external_data if entry.key == "location"]
            found += places or ["without a name"]
        for field, value in part.ListFields():
            if field.type == field.TYPE_MESSAGE:
                waiting += [value] if hasattr(value, "ListFields") else value
    return sorted(set(found))


def _not_a_model(path: Path, error: Exception) -> DataError:
    return DataError(
        f"{path} is not an ONNX model that can be run here: {first_line(error)}",
        remedy="Was it downloaded whole, in one file? Export it again, with standard operators.",
    )


def first_line(error: Exception) -> str:
    line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return f"{line[:160].rstrip('.')}."
