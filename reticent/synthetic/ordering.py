"""What somebody asks for when they want synthetic data, and what it is about."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from reticent.core import checks
from reticent.core.errors import DataError, InvalidArgument
from reticent.data import catalog
from reticent.data.domain import Domain, Ignored
from reticent.data.files import Table, open_table
from reticent.data.preparation import releases_for
from reticent.data.preparation.noise import Release
from reticent.runs.order import require_protecting

TABLE_METHODS, IMAGE_METHODS = ("mst", "aim"), ("embedding", "gan")
_FEWEST = 50  # rows: of fewer nothing but noise comes out


@dataclass(frozen=True, kw_only=True)
class SynthOrder:
    """Everything that decides a generator besides the data.

    Args:
        source: a table, or the name of an image dataset in the catalog.
        method: `mst` or `aim` for tables, `embedding` or `gan` for images; `auto` is aim or embedding.
        target: a column whose relation to every other is measured in any case.
        ignore: columns that are left out: identifiers and free text.
        test: the share of rows that is kept away from the generator, to judge it by: the probability of each
            row's own coin. 0 for none, and at most a half: plans have room for twice the rows they are for.
    """

    source: str
    epsilon: float
    delta: float | None = None
    method: str = "auto"
    target: str | None = None
    ignore: tuple[str, ...] = ()
    domain: str | None = None
    prepare: Literal["private", "public"] = "private"
    test: float = 0.0
    ledger: str | None = None
    dataset: str | None = None
    layout: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ignore", tuple(self.ignore))
        checks.positive(epsilon=self.epsilon)
        require_protecting(self.epsilon)
        checks.one_of(("private", "public"), prepare=self.prepare)
        checks.one_of(("auto", *TABLE_METHODS, *IMAGE_METHODS), method=self.method)
        if not (0 <= self.test <= 0.5):
            raise InvalidArgument(
                f"test={self.test:g} is no share of the rows to keep away.",
                remedy="Pass one from 0 to 0.5, such as 0.2.",
            )
        if (self.ledger is None) != (self.dataset is None):
            raise InvalidArgument(
                "A ledger and the name of the dataset in it go together.",
                remedy="Pass both --ledger and --dataset.",
            )


class SynthMaterial:
    """What an order is about: a table with its domain, or images of the catalog."""

    def __init__(self, order: SynthOrder) -> None:
        self.order = order
        self.table: Table | None = None
        self.splits: catalog.Splits | None = None
        self.declared: Domain | None = None
        if order.source in catalog.names() and not Path(order.source).exists():
            self._open_images(order)
        else:
            self._open_table(order)
        if self.rows < _FEWEST:
            raise DataError(
                f"{order.source} has {self.rows} rows, and nothing private can be learned from so few.",
                remedy=f"Collect at least {_FEWEST}, and expect little below a thousand.",
            )

    @property
    def is_images(self) -> bool:
        return self.splits is not None

    @property
    def method(self) -> str:
        known = IMAGE_METHODS if self.is_images else TABLE_METHODS
        chosen = (
            ("embedding" if self.is_images else "aim") if self.order.method == "auto" else self.order.method
        )
        if chosen not in known:
            what = "images" if self.is_images else "a table"
            raise InvalidArgument(
                f"The method '{chosen}' is not for {what}.",
                remedy=f"Choose one of: auto, {', '.join(known)}.",
            )
        return chosen

    def _open_images(self, order: SynthOrder) -> None:
        self.splits = catalog.load(order.source)
        found = self.splits.train
        if "x" not in found or "y" not in found or found["x"].ndim < 2 or self.splits.domain is not None:
            raise DataError(
                f"'{order.source}' holds no images with classes.",
                remedy="Name a file with a table, or images such as mnist or digits.",
            )
        self.classes = catalog.describe(order.source).classes
        self.rows = len(found)

    def _open_table(self, order: SynthOrder) -> None:
        self.table = open_table(order.source, **order.layout)
        self.table.require([*order.ignore, *([order.target] if order.target else [])])
        if order.target in order.ignore:
            raise InvalidArgument(
                f"'{order.target}' is the target, and to be left out.", remedy="Choose one of the two."
            )
        self.rows = self.table.row_count
        if order.domain is not None:
            self.declared = _without(Domain.read(order.domain), order.ignore)
            if order.target is not None:
                self.declared = self.declared.with_target(order.target)

    def releases(self) -> tuple[Release, ...]:
        """What has to be found privately."""
        if self.table is None:
            return ()
        needed = releases_for(self.declared, self.order.target)
        if needed and self.order.prepare == "public":
            if self.declared is None:
                raise DataError(
                    f"Nothing is declared about the {len(self.table.names)} columns of {self.order.source}.",
                    remedy="Write a domain file (reticent domain TABLE -o FILE) and pass --domain, "
                    "or let a tenth of the budget find it: --prepare private.",
                )
            self.declared.require_public()
        return needed

    def digest(self, key: str) -> str:
        """Of the table's bytes; images of the catalog have a checksum of their own."""
        if self.table is None:
            return ""
        hashed = hashlib.blake2b(key=key.encode(), digest_size=16)
        with open(self.table.path, "rb") as file:
            while piece := file.read(1 << 22):
                hashed.update(piece)
        return hashed.hexdigest()


def order_of(value: Mapping[str, Any]) -> SynthOrder:
    """The order in a record."""
    return SynthOrder(**{**value, "ignore": tuple(value["ignore"])})


def usable(domain: Domain, ignore: tuple[str, ...]) -> tuple[Domain, tuple[str, ...]]:
    """A domain without what was left out, or found to be identifiers or free text; and the latter's names."""
    lost = tuple(
        name for name, column in domain.columns.items() if isinstance(column, Ignored) and name not in ignore
    )
    return _without(domain, (*ignore, *lost)), lost


def _without(domain: Domain, names: tuple[str, ...]) -> Domain:
    from dataclasses import replace

    kept = {name: column for name, column in domain.columns.items() if name not in names}
    return replace(domain, columns=kept, target=domain.target if domain.target in kept else None)
