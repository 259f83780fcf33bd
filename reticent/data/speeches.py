"""A play as windows of characters, each with the speaker whose words they are.

The symbols are public, not found: every printable character of ASCII, and the end of a line.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

ALPHABET = ("\n", *map(chr, range(32, 127)))

_UNKNOWN = ALPHABET.index("?")


class Windows(NamedTuple):
    """Pieces of text and what follows each place of them.

    Args:
        x: (windows, length) places in `ALPHABET`.
        y: (windows, length) of the next character; -1 where the words of the speaker end.
        speakers: (windows,) whose they are, counted from 0 in the order of their names.
    """

    x: np.ndarray
    y: np.ndarray
    speakers: np.ndarray


def codes_of(text: str) -> np.ndarray:
    """Characters as places in `ALPHABET`; a question mark stands for those that are not in it.

    >>> codes_of("a\\n").tolist()
    [66, 0]
    """
    places = {symbol: place for place, symbol in enumerate(ALPHABET)}
    return np.array([places.get(symbol, _UNKNOWN) for symbol in text], np.int32)


def text_of(codes: np.ndarray) -> str:
    """The characters at these places of `ALPHABET`."""
    return "".join(ALPHABET[code] for code in codes)


def speeches(text: str) -> dict[str, str]:
    """The words of each speaker, one speech after the other, by name in the order of names.

    >>> speeches("First Citizen:\\nSpeak.\\n\\nAll:\\nResolved.\\n\\nFirst Citizen:\\nYou know.")
    {'All': 'Resolved.\\n\\n', 'First Citizen': 'Speak.\\n\\nYou know.\\n\\n'}
    """
    found: dict[str, list[str]] = {}
    for block in text.split("\n\n"):
        name, _, words = block.partition("\n")
        if name.endswith(":") and words:
            found.setdefault(name[:-1], []).append(f"{words}\n\n")
    return {name: "".join(found[name]) for name in sorted(found)}


def windows_of(text: str, length: int, most: int) -> Windows:
    """The first windows of each speaker, at most so many: what one speaker says decides about no other's.

    >>> found = windows_of("All:\\nResolved.", 8, 2)
    >>> text_of(found.x[0]), found.y[1].tolist(), found.speakers.tolist()
    ('Resolved', [0, 0, -1, -1, -1, -1, -1, -1], [0, 0])
    """
    inputs, targets, owners = [], [], []
    for number, words in enumerate(speeches(text).values()):
        codes = codes_of(words)
        for start in range(0, min(len(codes), most * length), length):
            piece = codes[start : start + length + 1]
            x, y = np.zeros(length, np.int32), np.full(length, -1, np.int32)
            x[: len(piece[:length])] = piece[:length]
            y[: len(piece) - 1] = piece[1:]
            inputs.append(x)
            targets.append(y)
            owners.append(number)
    return Windows(
        np.array(inputs, np.int32).reshape(-1, length),
        np.array(targets, np.int32).reshape(-1, length),
        np.array(owners, np.int64),
    )
