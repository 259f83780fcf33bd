"""What somebody asks for when they want synthetic data, and what it is about."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from reticent.core import checks
from reticent.core.errors import DataError, IntegrityError, InvalidArgument
from reticent.core.postgres import without_password
from reticent.data import catalog
from reticent.data.domain import Domain, Ignored
from reticent.data.files import Table, open_table
from reticent.data.held_out import Split, expected_rows
from reticent.data.preparation import releases_for
from reticent.data.preparation.noise import PreparationRelease
from reticent.runs.declared import Declared, assume_public, with_bounds, with_missing
from reticent.runs.public_domain import layout_for
from reticent.runs.record import RunRecord
from reticent.runs.request import require_protecting
from reticent.runs.row_fingerprint import RowDigest
from reticent.runs.source import digest_of_tables
from reticent.runs.users import check_users, refuse_users, rows_of_users, with_users, without_user

TABLE_METHODS, IMAGE_METHODS = ("mst", "aim"), ("embedding", "gan")
_FEWEST = 50  # rows: of fewer nothing but noise comes out


@dataclass(frozen=True, kw_only=True)
class SynthRequest:
    """Everything that decides a generator besides the data.

    Args:
        source: a table, or the name of an image dataset in the catalog.
        method: `mst` or `aim` for tables, `embedding` or `gan` for images; `auto` is aim or embedding.
        target: a column whose relation to every other is measured in any case.
        ignore: columns that are left out: identifiers and free text.
        test: the share of rows that is kept away from the generator, to judge it by: the probability of each
            row's own coin. 0 for none, and at most a half: plans have room for twice the rows they are for.
        user, rows_per_user: the column that names users, which is left out, and how many rows of each count.
        missing: cells that mean "not known", beside the usual ones.
        bounds: of columns, by name: public.
    """

    source: str
    epsilon: float
    delta: float | None = None
    method: str = "auto"
    target: str | None = None
    ignore: tuple[str, ...] = ()
    domain: str | None = None
    prepare: Literal["private", "public", "assume-public"] = "private"
    test: float = 0.0
    ledger: str | None = None
    dataset: str | None = None
    layout: dict[str, Any] = field(default_factory=dict)
    user: str | None = None
    rows_per_user: int | None = None
    missing: tuple[str, ...] = ()
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ignore", tuple(self.ignore))
        object.__setattr__(self, "missing", tuple(map(str, self.missing)))
        pairs = {name: (float(low), float(high)) for name, (low, high) in self.bounds.items()}
        object.__setattr__(self, "bounds", pairs)
        object.__setattr__(self, "source", without_password(self.source))
        checks.positive(epsilon=self.epsilon)
        require_protecting(self.epsilon)
        checks.one_of(("private", "public", "assume-public"), prepare=self.prepare)
        checks.one_of(("auto", *TABLE_METHODS, *IMAGE_METHODS), method=self.method)
        if not (0 <= self.test <= 0.5):
            raise InvalidArgument(
                f"test={self.test:g} is not a share of the rows to hold out.",
                remedy="Pass one from 0 to 0.5, such as 0.2.",
            )
        if (self.ledger is None) != (self.dataset is None):
            raise InvalidArgument(
                "A ledger and the name of the dataset in it go together.",
                remedy="Pass both --ledger and --dataset.",
            )
        check_users(self.user, self.rows_per_user, self.target)


class SynthSource:
    """What a request is about: a table with its domain, or images of the catalog."""

    def __init__(self, request: SynthRequest) -> None:
        self.request = request
        self.table: Table | None = None
        self.splits: catalog.Splits | None = None
        self.declared: Domain | None = None
        self.declares = Declared(None)
        self.split: Split | None = None
        self.row_digest: RowDigest | None = None
        if request.source in catalog.names() and not Path(request.source).exists():
            self._open_images(request)
        else:
            self._open_table(request)
        if self.rows < _FEWEST:
            raise DataError(
                f"{request.source} has {self.rows} rows, and nothing private can be learned from so few.",
                remedy=f"Collect at least {_FEWEST}, and expect little below a thousand.",
            )

    @property
    def has_coins(self) -> bool:
        """Whether rows are kept away from the generator, by coins."""
        return bool(self.request.test)

    @property
    def train_rows(self) -> int:
        """How many rows can be expected to be learned from: public."""
        return expected_rows(self.rows, self.request.test)

    @property
    def public_domain(self) -> Domain | None:
        """What is declared about a table; None for images."""
        return self.declared

    @property
    def is_images(self) -> bool:
        return self.splits is not None

    @property
    def method(self) -> str:
        known = IMAGE_METHODS if self.is_images else TABLE_METHODS
        chosen = (
            ("embedding" if self.is_images else "aim")
            if self.request.method == "auto"
            else self.request.method
        )
        if chosen not in known:
            what = "images" if self.is_images else "a table"
            raise InvalidArgument(
                f"The method '{chosen}' is not for {what}.",
                remedy=f"Choose one of: auto, {', '.join(known)}.",
            )
        return chosen

    def _open_images(self, request: SynthRequest) -> None:
        refuse_users(request)
        self.splits = catalog.load(request.source)
        found = self.splits.train
        if "x" not in found or "y" not in found or found["x"].ndim < 2 or self.splits.domain is not None:
            raise DataError(
                f"'{request.source}' holds no images with classes.",
                remedy="Name a file with a table, or images such as mnist or digits.",
            )
        self.classes = catalog.describe(request.source).classes
        self.rows = len(found)

    def _open_table(self, request: SynthRequest) -> None:
        declared = None if request.domain is None else Domain.read(request.domain)
        known = () if declared is None else declared.columns
        expected = {*known, *request.ignore, *filter(None, (request.target, request.user))}
        table = open_table(request.source, **layout_for(request.layout, declared), expected=expected)
        self.table = rows_of_users(table, request)
        self.table.require([*request.ignore, *([request.target] if request.target else [])])
        if request.target in request.ignore:
            raise InvalidArgument(
                f"'{request.target}' is the target, and to be left out.", remedy="Choose one of the two."
            )
        self.rows = self.table.row_count
        if declared is not None:
            self.declared = _without(without_user(declared, request), request.ignore)
            if request.target is not None:
                self.declared = self.declared.with_target(request.target)
        self.table.require(request.bounds)
        known = with_missing(self.table, self.declared, request.missing)
        known = with_bounds(self.table, known, request.bounds, None)
        if known is not self.declared and known is not None:
            self.declared = _without(known, request.ignore)
        if request.prepare == "assume-public":
            settled = {*request.ignore, *filter(None, (request.user,))}
            self.declares = assume_public(self.table, self.declared, request.target, settled)
            assert self.declares.domain is not None
            self.declared = _without(self.declares.domain, request.ignore)

    def releases(self) -> tuple[PreparationRelease, ...]:
        """What has to be found privately."""
        if self.table is None:
            return ()
        needed = releases_for(self.declared, self.request.target)
        if needed and self.request.prepare == "public":
            if self.declared is None:
                raise DataError(
                    f"Nothing is declared about the {len(self.table.names)} columns of "
                    f"{self.request.source}.",
                    remedy="Write a domain file (reticent domain TABLE -o FILE) and pass --domain, "
                    "or let a tenth of the budget find it: --prepare private.",
                )
            self.declared.require_public()
        return needed

    def take_in(self, rows: dict[str, np.ndarray]) -> None:
        """Adds rows that were read to the fingerprint of the run."""
        if self.row_digest is not None:
            self.row_digest.add(with_users(self.table, rows), 0)

    @property
    def named_data(self) -> Any:
        """The records of a dataset of the catalog: what a ledger tells it by."""
        assert self.splits is not None
        return self.splits.train

    def digest(self, key: str) -> str:
        """The digest of the table's bytes; images of the catalog have a checksum of their own."""
        return "" if self.table is None else digest_of_tables([self.table.path], key)


def request_of(record: RunRecord) -> SynthRequest:
    """The request that a record keeps.

    Raises:
        IntegrityError: it is not a request for a generator of this version.
    """
    try:
        return SynthRequest(**record.request.to_json())
    except (TypeError, ValueError, AttributeError):
        raise IntegrityError(
            "The request in run.json is not one that this version can follow.",
            remedy="Restore run.json from a copy.",
        ) from None


def usable(domain: Domain, ignore: tuple[str, ...]) -> tuple[Domain, tuple[str, ...]]:
    """A domain without what was left out, or found to be identifiers or free text; and the latter's names."""
    lost = tuple(
        name for name, column in domain.columns.items() if isinstance(column, Ignored) and name not in ignore
    )
    return _without(domain, (*ignore, *lost)), lost


def _without(domain: Domain, names: tuple[str, ...]) -> Domain:
    kept = {name: column for name, column in domain.columns.items() if name not in names}
    return replace(domain, columns=kept, target=domain.target if domain.target in kept else None)
