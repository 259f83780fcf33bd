"""How the site reads docstrings: an `Example:` is a section of examples, and so is a bare doctest."""

from __future__ import annotations

import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"^>>> .*?(?=\n\n|\Z)", flags=re.MULTILINE | re.DOTALL)


class Docstrings(griffe.Extension):
    """Renames the section, or fences the doctest, before anything is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _readable(obj.docstring.value)


def _readable(text: str) -> str:
    titled = re.sub(r"^Example:$", "Examples:", text, flags=re.MULTILINE)
    return _DOCTEST.sub(lambda found: f"```pycon\n{found[0]}\n```", titled)
