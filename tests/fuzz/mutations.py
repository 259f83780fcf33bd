"""Ways to damage a file: JSON by its structure, anything by its bytes.

Every choice is made by a `random.Random`, so that hypothesis, atheris and plain seeds drive the same code.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from hashlib import sha256
from random import Random
from typing import Any

import tomlkit

DEEP = 10_000
Path = tuple[str | int, ...]

# Each is put in the place of every value. Texts are spliced in unquoted: JSON that `json.dumps` cannot write.
_TEXTS = {
    "NaN": "NaN",
    "infinity": "-Infinity",
    "beyond floats": "1e999",
    "a huge integer": "9" * 400,
    "an integer of too many digits": "9" * 5000,
    "lists without end": "[" * DEEP + "]" * DEEP,
    "objects without end": '{"a":' * DEEP + "1" + "}" * DEEP,
    "half a pair": '"\\ud800"',
}
VALUES: dict[str, Any] = {
    "null": None,
    "true": True,
    "zero": 0,
    "a negative number": -1,
    "a small number": 1e-308,
    "2 to the 63": 2**63,
    "2 to the 63 as a float": 2.0**63,
    "a fraction": 0.5,
    "an empty text": "",
    "a text with escapes": "\x1b]0;owned\x07\u202e\0\n",
    "the text inf": "inf",
    "a path upwards": "../../secret",
    "a long text": "x" * 10_000,
    "an empty list": [],
    "a list of nothing": [None, [None], {}],
    "an empty object": {},
    "an object of something else": {"a": {"b": [1]}},
}
REPLACEMENTS = (*VALUES, *_TEXTS)


def paths(value: Any, at: Path = ()) -> Iterator[Path]:
    """Where the values of a JSON value are, the whole of it first."""
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths(item, (*at, key))


def replaced(value: Any, at: Path, by: str) -> bytes:
    """JSON in which the value at a path is another one, by its name in `REPLACEMENTS`."""
    mark = "the place to splice at"
    text = json.dumps(_with(value, at, mark))
    return text.replace(json.dumps(mark), _TEXTS[by] if by in _TEXTS else json.dumps(VALUES[by])).encode()


def without(value: Any, at: Path) -> bytes:
    """JSON in which the value at a path, and its key, are missing."""
    changed = json.loads(json.dumps(value))
    parent = _walk(changed, at[:-1])
    del parent[at[-1]]
    return json.dumps(changed).encode()


def doubled(value: Any, at: Path, by: Any) -> bytes:
    """JSON in which the key at a path stands twice, the second time with another value."""
    key = at[-1]
    if not isinstance(key, str):
        return replaced(value, at, "null")
    mark = "the place to splice at"
    text = json.dumps(_with(value, at, mark))
    first = json.dumps(_walk(value, at))
    return text.replace(json.dumps(mark), f"{first}, {json.dumps(key)}: {json.dumps(by)}").encode()


def changed_json(content: bytes, chance: Random) -> bytes:
    """One change somewhere in a JSON text; of its bytes if it is not JSON."""
    try:
        value = json.loads(content)
        places = list(paths(value))
    except (ValueError, RecursionError):
        return changed_bytes(content, chance)
    at = chance.choice(places)
    how = chance.random()
    if at and how < 0.15:
        return without(value, at)
    if at and how < 0.25:
        return doubled(value, at, chance.choice([None, 0, "", [], {}]))
    if how < 0.4:  # a value of the same file in another place
        other = _walk(value, chance.choice(places))
        return json.dumps(_with(value, at, other)).encode()
    return replaced(value, at, chance.choice(REPLACEMENTS))


def changed_toml(content: bytes, chance: Random) -> bytes:
    """One change of a TOML text: of a value, or of its bytes."""
    if chance.random() < 0.3:
        return changed_bytes(content, chance)
    try:
        value = json.loads(changed_json(json.dumps(tomllib.loads(content.decode())).encode(), chance))
        return tomlkit.dumps(value).encode()
    except (ValueError, TypeError, AttributeError, RecursionError, UnicodeError):  # TOML has no such value
        return changed_bytes(content, chance)


def changed_bytes(content: bytes, chance: Random) -> bytes:
    """A few changes of bytes: flipped, overwritten by extremes, removed, repeated, inserted, or cut off."""
    changed = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(changed) + 1)
        end = min(len(changed), at + chance.choice([1, 1, 2, 4, 8, 32]))
        match chance.randrange(6):
            case 0:
                changed[at:end] = bytes(byte ^ 1 << chance.randrange(8) for byte in changed[at:end])
            case 1:
                changed[at:end] = chance.choice([b"\0", b"\xff", b"\x7f", b"\x80"]) * (end - at)
            case 2:
                del changed[at:end]
            case 3:
                changed[at:at] = changed[at:end] * chance.randint(1, 4)
            case 4:
                changed[at:at] = chance.choice([b'"', b",", b"\n", b"\r", b"[", b"{", b"-", b"9" * 40, b"\0"])
            case _ if chance.random() < 0.3:
                del changed[at:]
    return bytes(changed)


def header_of(tensors: bytes) -> bytes:
    """The JSON at the start of a safetensors file."""
    return tensors[8 : 8 + int.from_bytes(tensors[:8], "little")]


def with_header(tensors: bytes, header: bytes) -> bytes:
    """A safetensors file with another header."""
    body = tensors[8 + int.from_bytes(tensors[:8], "little") :]
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + body


def changed_tensors(content: bytes, chance: Random) -> bytes:
    """One change of a safetensors file: in its header, in JSON within its header, or anywhere."""
    try:
        header = json.loads(header_of(content))
        inner = [key for key, text in header["__metadata__"].items() if text[:1] in "{["]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return changed_bytes(content, chance)
    how = chance.random()
    if inner and how < 0.5:
        key = chance.choice(inner)
        text = changed_json(header["__metadata__"][key].encode(), chance)
        header["__metadata__"][key] = text.decode(errors="replace")
        return with_header(content, json.dumps(header).encode())
    if how < 0.8:
        return with_header(content, changed_json(json.dumps(header).encode(), chance))
    return changed_bytes(content, chance)


def signed(record: bytes, model: bytes) -> bytes:
    """A record that gives the digest of the model beside it, as an adversary's would."""
    try:
        value = json.loads(record)
        value["model"]["digest"] = sha256(model).hexdigest()
        return json.dumps(value).encode()
    except (ValueError, KeyError, TypeError, RecursionError):
        return record


def _with(value: Any, at: Path, by: Any) -> Any:
    if not at:
        return by
    changed = json.loads(json.dumps(value))
    _walk(changed, at[:-1])[at[-1]] = by
    return changed


def _walk(value: Any, at: Path) -> Any:
    for key in at:
        value = value[key]
    return value
