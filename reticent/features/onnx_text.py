"""ONNX models of texts: word pieces in, one row of numbers out, one text per call and without padding."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from reticent.core.errors import DataError
from reticent.features.extractor import Extractor
from reticent.features.onnx_session import first_line
from reticent.features.wordpiece import read_word_pieces

TOKENIZER = "tokenizer.json"

_PIECES = "input_ids"
_KNOWN = {_PIECES, "attention_mask", "token_type_ids"}
_TYPES = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


def is_for_texts(session: Any) -> bool:
    """Whether a model takes the numbers of word pieces."""
    return any(each.name == _PIECES or each.type in _TYPES for each in session.get_inputs())


def from_session(path: Path, content: bytes, session: Any, output: str) -> Extractor:
    """A model of texts as an extractor; of what it says of each piece the mean is taken.

    Raises:
        DataError: it wants other inputs, or texts of one length, or there is no tokenizer beside it.
    """
    inputs = {each.name: each for each in session.get_inputs()}
    _require_inputs(path, inputs)
    pieces = read_word_pieces(path.with_name(TOKENIZER))
    _require_vocabulary(path, session, pieces.vocabulary)
    settings = f"texts {output} {pieces.digest}"
    digest = hashlib.blake2b(hashlib.sha256(content).digest() + settings.encode(), digest_size=20)

    def apply(text: Any) -> np.ndarray:
        numbers = pieces(str(text))
        given = {
            _PIECES: numbers,
            "attention_mask": np.ones_like(numbers),
            "token_type_ids": np.zeros_like(numbers),
        }
        asked = {name: given[name][None].astype(_TYPES[each.type]) for name, each in inputs.items()}
        try:
            (found,) = session.run([output], asked)
        except Exception as error:  # noqa: BLE001  # the runtime's own errors have no public base
            raise DataError(
                f"{path} does not take a text of {len(numbers)} word pieces: {first_line(error)}",
                remedy=f"Is the {TOKENIZER} beside it the one that it was published with?",
            ) from None
        row = np.asarray(found, np.float32)[0]
        return row.mean(axis=0) if row.ndim == 2 else row

    return Extractor(name=path.name, digest=digest.hexdigest(), apply=apply, takes="texts")


def _require_inputs(path: Path, inputs: dict[str, Any]) -> None:
    strange = sorted(set(inputs) - _KNOWN)
    if _PIECES not in inputs or strange or any(each.type not in _TYPES for each in inputs.values()):
        said = ", ".join(f"{name}: {each.type}" for name, each in list(inputs.items())[:4])
        raise DataError(
            f"{path} takes {said}, and a model of texts takes whole numbers called {', '.join(_KNOWN)}.",
            remedy="Export it with these names, as the usual tools do.",
        )
    if any(isinstance(each.shape[-1], int) and each.shape[-1] > 0 for each in inputs.values()):
        raise DataError(
            f"{path} takes texts of {inputs[_PIECES].shape[-1]} word pieces only, so others would be padded.",
            remedy="Export it with a free length of texts: padding changes what it says of them.",
        )


def _require_vocabulary(path: Path, session: Any, vocabulary: Any) -> None:
    """Asks about the last piece, so that a tokenizer of another model is found out at once."""
    last = max(vocabulary.values())
    asked = {
        each.name: np.full((1, 1), last if each.name == _PIECES else each.name == "attention_mask").astype(
            _TYPES[each.type]
        )
        for each in session.get_inputs()
    }
    try:
        session.run(None, asked)
    except Exception:  # noqa: BLE001  # the runtime's own errors have no public base
        raise DataError(
            f"{path} does not know word piece {last:,} of the {TOKENIZER} beside it.",
            remedy="Put the tokenizer there that the model was published with.",
        ) from None
