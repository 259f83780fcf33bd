"""Puts what was measured between marks of a page, and leaves the rest of it alone."""

from __future__ import annotations

import datetime
import os
import platform
from dataclasses import asdict
from pathlib import Path

from benchmarks.scale import model
from benchmarks.training.tables import Section


def written(sections: list[Section], *, minutes: float, remark: str, command: str) -> str:
    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[2]
    beside = f" {remark}" if remark else ""
    head = (
        f"Written by `{command}` on {datetime.date.today()} in {minutes:.0f} minutes, on a machine with "
        f"{cores} {platform.machine()} cores and no accelerator, Python {platform.python_version()}.{beside} "
        f"The system's load over the last quarter of an hour was {load:.1f}."
    )
    return "\n\n".join([head, *(section.markdown().replace("## ", "### ", 1) for section in sections)])


def source_of_model() -> str:
    """The model as it is computed with, as a block of Python."""
    text = Path(model.__file__).read_text(encoding="utf-8")
    return _python(text[text.index("import math") :].strip())


def constants_as_python(here: model.Device) -> str:
    """What was measured, for the snippets that compute with it."""
    fields = "".join(
        f"    {name}={f'{value:.3g}'.replace('e+', 'e')},\n" for name, value in asdict(here).items()
    )
    return _python(f"core = Device(  # one core of the machine that was measured\n{fields})")


def _python(text: str) -> str:
    return f"```python\n{text}\n```"


def put_into(page: Path, place: str, content: str) -> None:
    """Replaces what stands between the two marks of this place.

    Raises:
        SystemExit: the page has not both marks.
    """
    begin, end = f"<!-- begin: {place} -->", f"<!-- end: {place} -->"
    before, is_begun, rest = page.read_text(encoding="utf-8").partition(begin)
    _, is_ended, after = rest.partition(end)
    if not is_begun or not is_ended:
        raise SystemExit(f"{page} has no place for what was measured: {begin} and {end}.")
    page.write_text(f"{before}{begin}\n\n{content}\n\n{end}{after}", encoding="utf-8")
