"""Features of records, by a public model that stays as it is: computed once, then trained on privately."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent.core.pages import open_page

if TYPE_CHECKING:
    from reticent.features.computing import compute as compute
    from reticent.features.extractor import Extractor as Extractor
    from reticent.features.extractor import from_function as from_function
    from reticent.features.extractor import from_jax as from_jax
    from reticent.features.hashing import hashed_words as hashed_words
    from reticent.features.isolation import require_alone as require_alone
    from reticent.features.onnx_model import from_onnx as from_onnx

open_page(__name__)
