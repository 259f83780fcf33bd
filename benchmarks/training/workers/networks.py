"""The networks of the cases as functions of one example, for the workers that run JAX."""

from __future__ import annotations

from benchmarks.training.cases import CNN_CLASSES, MLP_SIZES, TEXT, TRANSFORMER
from reticent.models.course_cnn import course_cnn
from reticent.models.mlp import mlp
from reticent.models.model import Model
from reticent.models.text_bag import text_bag
from reticent.models.transformer import transformer


def network(name: str) -> Model:
    match name:
        case "mlp":
            return mlp(MLP_SIZES)
        case "cnn":
            return course_cnn(CNN_CLASSES)
        case "text":
            return text_bag(**TEXT)
        case _:
            return transformer(**TRANSFORMER)
