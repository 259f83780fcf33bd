"""Texts as numbers of word pieces, as BERT and its relatives were given them: by a public `tokenizer.json`.

A text becomes exactly its own pieces. Nothing is padded: a model that is given padding says something else of
a text, and takes longer over it.

Reference:
    Devlin et al. (2019), arXiv:1810.04805v2, and the code they published (tokenization.py).
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reticent.core import strict_json
from reticent.core.errors import DataError
from reticent.core.files import MISFITS, read_named

_LARGEST = 1 << 26  # bytes of the file
_USUAL_LENGTH = 512  # pieces, of a file that does not say
_LONGEST_TEXT = 1 << 16  # characters that are looked at: more make no further pieces
_CONTROL = ("Cc", "Cf", "Co", "Cs")
_IDEOGRAPHS = (
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)),
    *((0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
)


class WordPieces(NamedTuple):
    """From a text to the numbers of its pieces.

    Args:
        vocabulary: pieces and their numbers; those inside a word begin with `inside`.
        first, last: of every text.
        longest_word: in characters; a longer one is unknown.
        most: pieces of a text, `first` and `last` among them; the rest of a longer one is left out.
        strips_accents: whether the letters under accents are taken alone.

    Example:
        >>> pieces = WordPieces({"[UNK]": 0, "play": 1, "##ing": 2, ".": 3}, unknown=0, first=8, last=9)
        >>> pieces("Playing.").tolist()
        [8, 1, 2, 3, 9]
    """

    vocabulary: Mapping[str, int]
    unknown: int
    first: int
    last: int
    inside: str = "##"
    longest_word: int = 100
    most: int = _USUAL_LENGTH
    lowers: bool = True
    strips_accents: bool = True
    digest: str = ""

    def __call__(self, text: str) -> np.ndarray:
        found: list[int] = []
        for word in self._words(text[:_LONGEST_TEXT]):
            found += self._pieces(word)
            if len(found) >= self.most - 2:
                break
        return np.array([self.first, *found[: self.most - 2], self.last], np.int64)

    def _words(self, text: str) -> Iterator[str]:
        for word in _space_out(text).split():
            if self.lowers:
                word = word.lower()
            if self.strips_accents:
                word = "".join(
                    sign for sign in unicodedata.normalize("NFD", word) if unicodedata.category(sign) != "Mn"
                )
            yield from _apart(word)

    def _pieces(self, word: str) -> list[int]:
        """The longest piece that the word begins with, then that of the rest, and so on."""
        if len(word) > self.longest_word:
            return [self.unknown]
        found, start = [], 0
        while start < len(word):
            prefix = self.inside if start else ""
            for end in range(len(word), start, -1):
                number = self.vocabulary.get(prefix + word[start:end])
                if number is not None:
                    break
            else:
                return [self.unknown]
            found.append(number)
            start = end
        return found


def read_word_pieces(path: Path | str) -> WordPieces:
    """The tokenizer in a `tokenizer.json`, if it is one of word pieces.

    Raises:
        DataError: there is no such file, it is damaged, or holds another kind of tokenizer.
    """
    try:
        content = read_named(Path(path), most=_LARGEST)
    except OSError as error:
        raise DataError(
            f"Cannot read the tokenizer {path}: {error.strerror}.",
            remedy="A model of texts needs the file tokenizer.json that it was published with: put it into "
            "the same folder.",
        ) from error
    try:
        return _parse(strict_json.parse(content))._replace(digest=hashlib.sha256(content).hexdigest())
    except MISFITS as error:
        raise DataError(
            f"{path} does not describe a tokenizer of word pieces (BERT): {error}.",
            remedy="Choose a model with such a tokenizer, or pass texts through rt.features.from_function.",
        ) from error


def _parse(said: Any) -> WordPieces:
    model, normaliser = said["model"], said.get("normalizer") or {}
    kinds = {"model": model.get("type"), "normalizer": normaliser.get("type")}
    if kinds != {"model": "WordPiece", "normalizer": "BertNormalizer"}:
        raise ValueError(f"its parts are {kinds}")
    vocabulary = {str(piece): int(number) for piece, number in model["vocab"].items()}
    first, last = _ends(said, vocabulary)
    lowers = bool(normaliser.get("lowercase", True))
    strips = normaliser.get("strip_accents")
    most = (said.get("truncation") or {}).get("max_length", _USUAL_LENGTH)
    if not (3 <= int(most) <= 1 << 14):
        raise ValueError(f"texts of {most} pieces")
    return WordPieces(
        vocabulary,
        unknown=vocabulary[model["unk_token"]],
        first=first,
        last=last,
        inside=str(model.get("continuing_subword_prefix", "##")),
        longest_word=int(model.get("max_input_chars_per_word", 100)),
        most=int(most),
        lowers=lowers,
        strips_accents=lowers if strips is None else bool(strips),
    )


def _ends(said: Any, vocabulary: Mapping[str, int]) -> tuple[int, int]:
    """The numbers of what comes before and after every text."""
    after = said.get("post_processor") or {}
    if after.get("type") == "TemplateProcessing":
        special = [part["SpecialToken"]["id"] for part in after["single"] if "SpecialToken" in part]
        if len(special) == 2 and "Sequence" in after["single"][1]:
            return vocabulary[special[0]], vocabulary[special[1]]
        raise ValueError("texts do not have one mark before and one behind them")
    return vocabulary["[CLS]"], vocabulary["[SEP]"]


def _space_out(text: str) -> str:
    """Without control signs, blanks of all kinds as one, and ideographs each a word."""
    kept = []
    for sign in text:
        code = ord(sign)
        if code in (0, 0xFFFD) or (sign not in "\t\n\r" and unicodedata.category(sign) in _CONTROL):
            continue
        is_word = any(low <= code <= high for low, high in _IDEOGRAPHS) if code > 0x3000 else False
        kept.append(" " if sign.isspace() else f" {sign} " if is_word else sign)
    return "".join(kept)


def _apart(word: str) -> Iterator[str]:
    """A word and the punctuation in it, in their order."""
    start = 0
    for at, sign in enumerate(word):
        if _is_punctuation(sign):
            if start < at:
                yield word[start:at]
            yield sign
            start = at + 1
    if start < len(word):
        yield word[start:]


def _is_punctuation(sign: str) -> bool:
    return (sign.isascii() and sign.isprintable() and not sign.isalnum() and sign != " ") or (
        unicodedata.category(sign).startswith("P")
    )
