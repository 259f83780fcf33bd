"""HTML that cannot forget to escape: text is text until this module has made markup of it.

>>> str(tag("p", "a < b", class_="note"))
'<p class="note">a &lt; b</p>'
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reticent.report.figures.charts import escape

_ALONE = frozenset({"br", "input", "link", "meta", "hr"})


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


Content = str | int | float | None | Iterable[Any]


def tag(name: str, /, *children: Content, **attributes: str | int | float | bool | None) -> Markup:
    """An element. Whatever is not `Markup` is escaped, and None is left out.

    An underscore at the end of an attribute's name is dropped, others become hyphens: `class_`, `data_job`.
    """
    said = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _ALONE:
        return Markup(f"<{name}{said}>")
    return Markup(f"<{name}{said}>{join(*children)}</{name}>")


def join(*children: Content) -> Markup:
    """Children one after the other."""
    return Markup("".join(map(_child, children)))


def _child(value: Any) -> str:
    if value is None or value is False:
        return ""
    if isinstance(value, Markup):
        return value
    if isinstance(value, (str, int, float)):
        return escape(str(value))
    return "".join(map(_child, value))


def _attribute(key: str, value: Any) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
