"""A small table for notebooks, from plain text: what `_repr_html_` of the public types returns."""

from __future__ import annotations

import html
from collections.abc import Iterable

from reticent.core.printable import printable


def html_table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """A table with a caption and two columns; all text is escaped.

    >>> html_table("Plan", [("steps", "<30>")])
    '<table><caption>Plan</caption><tr><th>steps</th><td>&lt;30&gt;</td></tr></table>'
    """
    body = "".join(f"<tr><th>{_safe(name)}</th><td>{_safe(value)}</td></tr>" for name, value in rows)
    return f"<table><caption>{_safe(title)}</caption>{body}</table>"


def _safe(text: str) -> str:
    return html.escape(printable(text))
