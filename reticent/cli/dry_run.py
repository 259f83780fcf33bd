"""`reticent train --dry-run`: what a run would cost, with nothing charged and nothing written."""

from __future__ import annotations

from typing import Any

from reticent.accounting.rounding import at_most
from reticent.cli import output, preconditions
from reticent.core.errors import InvalidArgument


def print_dry_run(wanted: dict[str, Any], *, as_json: bool) -> None:
    """Prices a request of these fields, and prints what it would do."""
    if wanted["source"] is None or wanted["epsilon"] is None:
        raise InvalidArgument(
            "A dry run needs a table and an epsilon.",
            remedy="Pass both: reticent train TABLE --target COLUMN --epsilon 1 --dry-run",
        )
    preconditions.check_source(wanted["source"])
    from reticent.ledger.address import without_password
    from reticent.runs.dry_run import dry_run
    from reticent.runs.request import Request

    preconditions.warn_of_large_epsilon(wanted["epsilon"])
    found = dry_run(Request(**wanted))
    if as_json:
        output.print_json(found.to_json())
        return
    request, preparation = found.request, found.preparation
    rows = [
        ("data", f"{request.source}, about {found.rows:,} of {found.records:,} rows to train on"),
        ("target", request.target or "the class"),
        ("model", f"{found.model}: {found.why}" if found.why else found.model),
        ("method", f"{found.method}: {found.in_words}"),
        ("budget", f"epsilon {request.epsilon:g}, delta {request.delta:g}"),
        ("public", "; ".join(found.public)),
    ]
    if preparation is not None:
        what = f"{', '.join(found.found)}, for epsilon {at_most(preparation.epsilon)} of the budget"
        rows.append(("found privately", what))
    if request.ledger:
        where = without_password(request.ledger)
        rows.append(("ledger", f"would be charged to '{request.dataset}' in {where}"))
    output.print_table("A dry run", {"": "left", " ": "left"}, rows)
    for note in found.notes:
        output.note(note)
    output.print_line()
    output.print_text(f"It would promise: {found.promise}")
    output.note(f"{found.expected} Nothing was charged, and nothing was written.")
