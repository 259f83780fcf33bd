"""What is public about the table of a run: declared, found privately, or found before the run was stopped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reticent.core.errors import Inconclusive
from reticent.core.keys import Keys
from reticent.core.observer import Observer
from reticent.data.domain import Domain
from reticent.data.files.dialect import DeclaredFormat
from reticent.data.preparation import prepare
from reticent.data.preparation.noise import PreparationNoise
from reticent.distributed import collectives
from reticent.distributed.consensus import by_first
from reticent.runs import folder as folders
from reticent.runs.open_run import OpenRun


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
        return None
    written = collectives.broadcast_json(by_first(lambda: folders.domain_text(run.folder)))
    if written is not None:
        return Domain.from_toml(written, source=str(run.folder / folders.DOMAIN))
    if noise is None:
        return folders.write_domain(run.folder, source.public_domain)
    return _found(run, source, noise, keys, observer)


def _found(run: OpenRun, source: Any, noise: PreparationNoise, keys: Keys, observer: Observer) -> Domain:
    """Found just now at the price of `noise`; on the disk before it is said."""
    target = source.request.target
    try:
        with observer.watch("preparing") as on_progress:
            found = prepare(
                source.table, noise, keys, domain=source.declared, target=target, on_progress=on_progress
            )
    except Inconclusive as error:  # a second one was not paid for
        run.fail(error)
        raise
    domain = folders.write_domain(run.folder, found.domain)  # before a word of it is said
    for line in found.found:
        observer.say(f"found privately: {line}")
    for line in found.ignored:
        observer.warn(line)
    return domain
