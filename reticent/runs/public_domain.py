"""What is public about the table of a run: declared, found privately, or found before the run was stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from reticent.core.errors import Inconclusive
from reticent.core.keys import Keys
from reticent.core.observer import Observer
from reticent.data.domain import Domain
from reticent.data.files import Table
from reticent.data.files.dialect import DeclaredFormat
from reticent.data.preparation import prepare
from reticent.data.preparation.noise import PreparationNoise
from reticent.data.preparation.numbers import TAILS, Tails
from reticent.distributed import collectives
from reticent.distributed.consensus import by_first
from reticent.runs import folder as folders
from reticent.runs.open_run import OpenRun
from reticent.runs.users import rows_for_preparation

# Curves have their bins where rows are, so wide bounds cost them little, and what lies beyond bounds is often
# most of what a number varies by.
_TAILS_OF_CURVES = Tails(cut=0.0002, are_continued=True)


def layout_for(layout: Mapping[str, Any], declared: Domain | None) -> dict[str, Any]:
    """How a table is to be read: as the domain says, and before that as the user does."""
    written = None if declared is None else declared.format
    return {**({} if written is None else DeclaredFormat.parse(written).layout), **layout}


def domain_of(
    run: OpenRun, source: Any, noise: PreparationNoise | None, keys: Keys, observer: Observer
) -> Domain | None:
    """The domain, which is in the folder from then on; None for a dataset of the catalog.

    Raises:
        Inconclusive: what was found cannot be used. To say so is a release: the run has failed for good.
    """
    if source.table is None:
        features = getattr(source, "features", None)
        return None if features is None else folders.write_domain(run.folder, source.splits.domain)
    written = collectives.broadcast_json(by_first(lambda: folders.domain_text(run.folder)))
    if written is not None:
        return Domain.from_toml(written, source=str(run.folder / folders.DOMAIN))
    if noise is None:
        return folders.write_domain(run.folder, _with_format(source.public_domain, source.table))
    return _find(run, source, noise, keys, observer)


def _with_format(domain: Domain, table: Table) -> Domain:
    """A domain that says how the file is written, so that new rows are read the same way."""
    if domain.format is not None or table.dialect.format != "csv":
        return domain
    return replace(domain, format=table.dialect.describe_format())


def _find(run: OpenRun, source: Any, noise: PreparationNoise, keys: Keys, observer: Observer) -> Domain:
    """Found just now at the price of `noise`; on the disk before it is said."""
    target = source.request.target
    try:
        with observer.watch("preparing") as on_progress:
            found = prepare(
                rows_for_preparation(source.table),
                noise,
                keys,
                domain=source.declared,
                target=target,
                keeps_rest=run.record.is_generator,
                tails=_TAILS_OF_CURVES if run.record.recipe.method == "additive" else TAILS,
                on_progress=on_progress,
            )
    except Inconclusive as error:  # a second one was not paid for
        run.fail(error)
        raise
    # On the disk before a word of it is said.
    domain = folders.write_domain(run.folder, _with_format(found.domain, source.table))
    for line in found.found:
        observer.say(f"found privately: {line}")
    for line in found.ignored:
        observer.warn(line)
    return domain
