"""A finished run as a few arrays and a list of rules, for programs that do not have reticent.

Everything in it is public: the model, which the guarantee covers, and the domain.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal, NamedTuple

import numpy as np

from reticent.additive.columns import Columns
from reticent.core.errors import DataError
from reticent.data.dates import DATE_PARTS
from reticent.data.domain import Category, Column, Integer, Number
from reticent.data.encoding import feature_names
from reticent.runs.predict import Predictor
from reticent.runs.predict_features import column_of
from reticent.runs.record import RunRecord

PortableForm = Literal["onnx", "sklearn"]

Layer = tuple[np.ndarray, np.ndarray]


class PortableCurves(NamedTuple):
    """An additive model: a constant, and the values of all cells of all columns, (cells, outputs).

    Args:
        kinds: of the columns, as `additive.Columns` has them.
    """

    kinds: tuple[int, ...]
    constant: np.ndarray
    curve: np.ndarray


@dataclass(frozen=True, kw_only=True)
class PortableModel:
    """Layers with tanh between them, or curves, and how rows become their inputs.

    Of a target that is a number, the output is in its units and has yet to be clipped to its bounds.

    Args:
        layers: weights (inputs, outputs) and constants (outputs,), float32, for features within [-1, 1].
        curves: of an additive model, which has no layers.
        encoding: what `encoding.json` says.
    """

    layers: tuple[Layer, ...]
    curves: PortableCurves | None
    encoding: Mapping[str, Any]


def portable_model(predictor: Predictor, record: RunRecord) -> PortableModel:
    """A linear or additive model or a perceptron on rows of features, without its folder.

    Raises:
        DataError: it is another kind of model.
    """
    require_portable(predictor)
    problem, name = predictor.problem, predictor.learner.name
    if name not in ("linear", "additive", "mlp") or len(problem.shape) != 1:
        raise DataError(
            f"The model '{name}' in {predictor.folder} takes images: it has no other form.",
            remedy="Leave --format out: the release can be used with reticent.",
        )
    low, high = problem.bounds or (-1.0, 1.0)
    half, middle = (high - low) / 2 or 1.0, (low + high) / 2  # 1 and 0 for classes
    params, encoding = predictor.params, _encoding(predictor, record)
    if name == "additive":
        kinds = problem.columns or Columns.of_numbers(problem.shape[0]).kinds
        curve, constant = (np.asarray(params[key], np.float64) * half for key in ("curve", "constant"))
        curves = PortableCurves(kinds, (constant + middle).astype(np.float32), curve.astype(np.float32))
        return PortableModel(layers=(), curves=curves, encoding={**encoding, "kinds": list(kinds)})
    named = [params] if name == "linear" else [params[key] for key in sorted(params)]
    layers = [(np.asarray(each["w"], np.float64), np.asarray(each["b"], np.float64)) for each in named]
    layers[0] = (layers[0][0] * problem.scale, layers[0][1])
    layers[-1] = (layers[-1][0] * half, layers[-1][1] * half + middle)
    whole = tuple((w.astype(np.float32), b.astype(np.float32)) for w, b in layers)
    return PortableModel(layers=whole, curves=None, encoding=encoding)


def portable_files(model: PortableModel, form: PortableForm) -> dict[str, bytes]:
    """The files of a release for other programs, by name.

    Raises:
        Unavailable: a package that this form needs is not installed.
    """
    encoding = (json.dumps(model.encoding, indent=2, allow_nan=False) + "\n").encode()
    if form == "onnx":
        from reticent.runs.onnx_graph import onnx_file

        return {"model.onnx": onnx_file(model), "encoding.json": encoding}
    arrays = {}
    if model.curves is not None:
        arrays = {"constant": model.curves.constant, "curve": model.curves.curve}
    for at, (weights, constants) in enumerate(model.layers):
        arrays |= {f"weights{at}": weights, f"constants{at}": constants}
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    source = resources.files("reticent.runs").joinpath("released_model.py").read_bytes()
    return {"arrays.npz": content.getvalue(), "encoding.json": encoding, "released_model.py": source}


def require_portable(predictor: Predictor) -> None:
    """
    Raises:
        DataError: the model learned from what a public model makes of a record, which no export holds.
    """
    if (found := column_of(predictor.domain)) is not None:
        raise DataError(
            f"The model in {predictor.folder} takes features by {found[1].model}, which is not exported.",
            remedy="Predict with: reticent predict; or in Python: reticent.runs.predict.Predictor(folder).",
        )


def _encoding(predictor: Predictor, record: RunRecord) -> dict[str, Any]:
    """What each feature is, for whoever encodes rows without reticent."""
    problem, domain = predictor.problem, predictor.domain
    if domain is None:
        features, columns = [f"feature {at}" for at in range(problem.shape[0])], None
    else:
        features = list(feature_names(domain))
        columns = [
            _column(name, column)
            for name, column in domain.columns.items()
            if name != domain.target and isinstance(column, (Number, Integer, Category))
        ]
    return {
        "guarantee": str(record.result.guarantee),
        "target": record.request.target,
        "classes": list(problem.classes),
        "bounds": None if problem.bounds is None else list(problem.bounds),
        "features": features,
        "columns": columns,
        "missing_markers": [] if domain is None else list(domain.missing_markers),
        "ignore_case": False if domain is None else domain.ignore_case,
        "rules": _RULES,
    }


def _column(name: str, column: Column) -> dict[str, Any]:
    if isinstance(column, Category):
        return {
            "name": name,
            "values": list(column.values or ()),
            "other": column.other,
            "missing": column.missing,
            "prior": None if column.prior is None else list(column.prior),
            "ordered": column.ordered,
            "buckets": column.buckets,
        }
    assert isinstance(column, (Number, Integer))
    assert column.bounds is not None
    return {
        "name": name,
        "bounds": [float(bound) for bound in column.bounds],
        "missing": column.missing,
        "lenient": getattr(column, "lenient", False),
        "typical": getattr(column, "typical", None),
        "date": getattr(column, "date", False),
        "parts": {part: list(DATE_PARTS[part]) for part in getattr(column, "parts", ())},
    }


_RULES = [
    "features come in the order of 'columns'; cells are read without blanks at both ends",
    "a number is clipped to its bounds and scaled to [-1, 1]; dates are days since 2000-01-01",
    "after a date, and its mark for missing cells, each of its 'parts' has one feature per value: January to "
    "December, Monday to Sunday; 1 for the day's own, and 0 for all of them where the date is missing",
    "a word has one feature per value, 1 for the cell's own; then one for other words, if 'other'",
    "the values of an 'ordered' column share one feature instead: their place among them, from 0 to 1",
    "with 'buckets', the place of a word among the values is BLAKE2b (digest_size=8) of its UTF-8 text, in "
    "small letters if 'ignore_case', as a whole number with the highest byte first, modulo 'buckets'",
    "then one feature that is 1 where the cell is missing, if 'missing'; else a missing number counts as "
    "'typical', and a missing word, or one without a feature, as the shares in 'prior'",
]
