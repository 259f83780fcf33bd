"""What attacks and audits wrote, read field by field: a report shows nothing that was not checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from reticent.core import strict_json
from reticent.core.errors import DataError, IntegrityError
from reticent.core.files import misfits_as, read_inside
from reticent.runs.json_values import count, mapping, number, one_of, or_none, text, texts
from reticent.runs.private_part import PRIVATE

_MOST_POINTS = 10_000  # of a curve
_OUTCOMES = ("CONTRADICTED", "CONSISTENT", "UNINFORMATIVE")
_KINDS = ("bound", "bound under an assumption", "estimate")

Fields = dict[str, Any]


def read_attacks(value: Mapping[str, Any]) -> Fields:
    """What a report needs of an `attack.json`.

    Raises:
        TypeError, ValueError, KeyError: it is not what `reticent attack -o` writes.
    """
    return {
        "attacks": {_word(name): _attack(one) for name, one in mapping(value.get("attacks") or {}).items()},
        "verdict": text(value.get("verdict", "")),
        "in_words": texts(value.get("in_words", [])),
    }


def read_audit(value: Mapping[str, Any]) -> Fields:
    """What a report needs of an `audit.json`.

    Raises:
        TypeError, ValueError, KeyError: it is not what `reticent audit -o` writes.
    """
    verdict = mapping(value["verdict"])
    return {
        "verdict": {
            "outcome": one_of(_OUTCOMES, verdict["outcome"]),
            "sentence": text(verdict["sentence"]),
            "claim": _finite(verdict["claim"]),
            "bound": _finite(verdict["bound"]),
            "confidence": _share(verdict["confidence"]),
            "ceiling": _finite(verdict["ceiling"]),
            "power": or_none(number, verdict.get("power")),
            "expected": or_none(number, verdict.get("expected")),
        },
        "evidence": [_evidence(each) for each in value.get("evidence", [])],
    }


def find(folder: Path, name: str) -> tuple[Path, bytes] | None:
    """What an attack or an audit left in the folder of a run: in its private part, or beside that as of old.

    Raises:
        DataError: it is there, and cannot be read.
    """
    for place in (f"{PRIVATE}/{name}", name):
        try:
            return folder / place, read_inside(folder, place)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise DataError(
                f"Cannot read {folder / place}: {error.strerror}.", remedy="Attack or audit again."
            ) from error
    return None


def check(path: Path, content: bytes, read: Callable[[Mapping[str, Any]], Fields]) -> Fields:
    """What is in such a file.

    Args:
        read: `read_attacks` or `read_audit`.

    Raises:
        IntegrityError: it is something else, or damaged.
    """
    damage = IntegrityError(
        f"{path} is not what attack or audit writes, or is damaged.", remedy="Attack or audit again."
    )
    with misfits_as(damage):
        return read(strict_json.parse_object(content))


def _word(value: Any) -> str:
    """The name of an attack: a stranger's may not look like a sentence of ours."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,40}", found := text(value)):
        raise ValueError(f"{found!r} is not the name of an attack")
    return found


def _attack(value: Any) -> Fields:
    found = mapping(value)
    read = {
        "tpr_at_fpr": [_rate(each) for each in found["tpr_at_fpr"]],
        "auc": _interval(found["auc"]),
        "advantage": _interval(found["advantage"]),
    }
    return read | ({"roc": _curve(found["roc"])} if "roc" in found else {})


def _rate(value: Any) -> Fields:
    found = mapping(value)
    return {
        "false_positive_rate": _share(found["false_positive_rate"]),
        "true_positive_rate": _interval(found["true_positive_rate"]),
        "is_resolved": one_of((True, False), found["is_resolved"]),
    }


def _interval(value: Any) -> Fields:
    found = mapping(value)
    return {name: _finite(found[name]) for name in ("value", "low", "high")}


def _curve(value: Any) -> Fields:
    found = mapping(value)
    x = _shares(found["false_positive_rate"])
    if not (0 < len(x) <= _MOST_POINTS) or not (x[0] > 0) or sorted(x) != x:
        raise ValueError("the false-positive rates of a curve do not grow from above zero")
    read: Fields = {"false_positive_rate": x}
    read["true_positive_rate"] = _shares(found["true_positive_rate"], len(x))
    if band := found.get("no_signal"):
        read["no_signal"] = {name: _shares(mapping(band)[name], len(x)) for name in ("low", "high")}
    return read


def _evidence(value: Any) -> Fields:
    found = mapping(value)
    return {
        "threat": text(found["threat"]),
        "kind": one_of(_KINDS, found["kind"]),
        "epsilon": number(found["epsilon"]),
        "canaries": count(found["canaries"]),
        "method": text(found["method"]),
    }


def _shares(value: Any, length: int | None = None) -> list[float]:
    if not isinstance(value, list) or (length is not None and len(value) != length):
        raise ValueError("the parts of a curve are not equally long lists")
    return [_share(item) for item in value]


def _share(value: Any) -> float:
    found = number(value)
    if not (0 <= found <= 1 + 1e-9):
        raise ValueError(f"{found} is not a share")
    return found


def _finite(value: Any) -> float:
    found = number(value)
    if not (abs(found) < 1e300):
        raise ValueError(f"{found} is not finite")
    return found
