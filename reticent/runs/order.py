"""What somebody asks for, and what it is about."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from reticent.core import checks
from reticent.core.errors import DataError, DomainError, InvalidArgument
from reticent.data import catalog
from reticent.data.domain import Domain, Integer, Label, Number
from reticent.data.files import Table, open_table
from reticent.data.files.shards import shard_of
from reticent.data.held_out import Split, expected_rows
from reticent.data.preparation import releases_for
from reticent.data.preparation.noise import Release
from reticent.distributed import collectives
from reticent.distributed.consensus import by_all, require_same
from reticent.runs.learners import ModelName
from reticent.runs.method import TargetKind
from reticent.runs.methods.table import METHODS

Prepare = Literal["private", "public"]

HELD_OUT = "held-out"
_PIECES = 64  # of a file, shared out among the processes that take its digest


@dataclass(frozen=True, kw_only=True)
class Order:
    """What somebody asks for: everything that decides a run besides the data.

    Args:
        source: a file, or the name of a dataset in the catalog.
        delta: None for a tenth of 1 / rows or less.
        prepare: `private` finds what the domain leaves open, at a tenth of the budget; `public` refuses.
        test: the share of rows that is held out and scored: the probability of each row's own coin.
        layout: how a text file is to be read, where it is not as detected.
        public: for PATE, a table of unlabelled rows that are nobody's secret, or `held-out`: nine tenths of
            the rows that are not trained on, their labels not looked at.
        teachers: for PATE, how many.
    """

    source: str
    epsilon: float
    target: str | None = None
    delta: float | None = None
    method: str = "auto"
    model: ModelName = "auto"
    domain: str | None = None
    prepare: Prepare = "private"
    test: float = 0.2
    ledger: str | None = None
    dataset: str | None = None
    layout: dict[str, Any] = field(default_factory=dict)
    public: str | None = None
    teachers: int | None = None

    def __post_init__(self) -> None:
        checks.positive(epsilon=self.epsilon)
        checks.one_of(("private", "public"), prepare=self.prepare)
        checks.one_of(("auto", *METHODS), method=self.method)
        checks.one_of(get_args(ModelName), model=self.model)
        if not (0 < self.test < 1):
            raise InvalidArgument(
                f"test={self.test:g} is no share of the rows.",
                remedy="Pass one between 0 and 1, such as 0.2.",
            )
        if (self.ledger is None) != (self.dataset is None):
            raise InvalidArgument(
                "A ledger and the name of the dataset in it go together.",
                remedy="Pass both --ledger and --dataset.",
            )
        if (self.method == "pate") != (self.public is not None):
            raise InvalidArgument(
                "PATE's student learns from public rows, and no other method has a use for them.",
                remedy="Pass --method pate and --public TABLE together; --public held-out for an experiment.",
            )
        if self.teachers is not None:
            checks.count(minimum=2, teachers=self.teachers)
        require_protecting(self.epsilon)


def require_protecting(epsilon: float) -> None:
    if not (epsilon <= 1000):
        raise InvalidArgument(
            f"epsilon={epsilon:g} protects nobody: odds may change by a factor e^{epsilon:g}.",
            remedy="Choose one of about 1, or do without privacy and say so.",
        )


class Material:
    """What an order is about: a table with its domain, or a dataset of the catalog.

    Args:
        is_shared: this process has its own shard of the rows, as each of the others has; see `of`.

    Attributes:
        rows: of all processes together.
        first: how many of them come before those of this process.
        split: which rows are held out; None where whoever made the dataset held some out.
    """

    def __init__(self, order: Order, *, is_shared: bool = False) -> None:
        self.order = order
        self.is_shared = is_shared
        self.splits: catalog.Splits | None = None
        self.table: Table | None = None
        if order.source in catalog.names() and not Path(order.source).exists():
            self.splits = catalog.load(order.source)
            self.rows = len(self.splits.train)
        else:
            whole = open_table(order.source, **order.layout)
            self.table = shard_of(whole, collectives.number(), collectives.count()) if is_shared else whole
            if order.target is None:
                raise InvalidArgument(
                    f"Which column of {order.source} is to be predicted?",
                    remedy=f"Pass --target; there is: {', '.join(self.table.names[:12])}.",
                )
            self.table.require([order.target])
            if len(self.table.names) == 1:
                raise DataError(
                    f"{order.source} has no column besides the target '{order.target}'.",
                    remedy="Give one with columns to predict it from; if there are more, pass --delimiter.",
                )
            if order.model in ("cnn", "scattering"):
                raise InvalidArgument(
                    f"model='{order.model}' is for images, and {order.source} is a table.",
                    remedy="Choose linear or mlp, or leave it to auto.",
                )
            self.rows = self.table.row_count
        self.first = 0
        self.split: Split | None = None
        self.declared = Domain.read(order.domain) if order.domain else None
        self.public = None if order.public in (None, HELD_OUT) else self._opened_public(order.public)

    @classmethod
    def of(cls, order: Order) -> Material:
        """What an order is about, its rows shared by all processes.

        Raises:
            InvalidArgument: they see different files, or were given different orders.
        """
        material = by_all(lambda: cls(order, is_shared=True))
        require_same({"order": repr(order), **material._facts()})
        if material.table is not None:
            counts = collectives.everyones(np.int64(material.rows))
            material.rows, material.first = int(counts.sum()), int(counts[: collectives.number()].sum())
        return material

    def _facts(self) -> dict[str, str]:
        """What every process has to see alike."""
        declared = {} if self.declared is None else {"domain": self.declared.to_toml()}
        if self.table is None:
            return declared
        return declared | {
            "list of columns": ", ".join(self.table.names),
            "format of the table": self.table.dialect.describe(),
            "size of the table": f"{self.table.path.stat().st_size} bytes",
            "content at the ends of the table": _digest_of_ends(self.table.path),
        }

    def _opened_public(self, path: str) -> Table:
        """Unlabelled rows with the same columns; if the target is among theirs, it is not read."""
        if self.table is None:
            raise InvalidArgument(
                f"'{self.order.source}' is a dataset of the catalog, and {path} a table.",
                remedy="Pass --public held-out, which takes nine tenths of its test rows.",
            )
        public = open_table(path, **self.order.layout)
        if missing := [name for name in self.table.names if name not in (*public.names, self.order.target)]:
            raise DataError(
                f"{path} lacks {len(missing)} columns of {self.order.source}: {', '.join(missing[:8])}.",
                remedy="Give the public rows the same columns, under the same names.",
            )
        return public

    @property
    def public_rows(self) -> int:
        """How many unlabelled rows there are to ask about."""
        if self.order.public is None:
            return 0
        if self.public is not None:
            return self.public.row_count
        assert self.splits is not None or self.table is not None
        if self.splits is not None and self.splits.test is not None:
            return public_of_held_out(len(self.splits.test))
        return public_of_held_out(self.rows - self.train_rows)

    def digest(self, key: str) -> str:
        """Of the table's bytes; nothing for a dataset of the catalog, which has a checksum of its own.

        Each process reads its share of the bytes, and all come to the same digest, however many there are.
        """
        if self.table is None:
            return ""
        tables = (self.table, *((self.public,) if self.public else ()))
        own = {
            f"{at} {piece}": _digest_of_piece(table.path, piece, key)
            for at, table in enumerate(tables)
            for piece in range(collectives.number(), _PIECES, collectives.count())
        }
        found = {
            name: digest for theirs in collectives.everyones_json(own) for name, digest in theirs.items()
        }
        return hashlib.blake2b(repr(sorted(found.items())).encode(), digest_size=16).hexdigest()

    @property
    def has_test(self) -> bool:
        """Whether whoever made the dataset held rows out."""
        return self.splits is not None and self.splits.test is not None

    @property
    def train_rows(self) -> int:
        """How many rows are trained on: public, so where coins decide, as many as can be expected."""
        return self.rows if self.has_test else expected_rows(self.rows, self.order.test)

    @property
    def public_domain(self) -> Domain | None:
        """What is declared about a table, with its target; None for a dataset of the catalog."""
        if self.declared is None or self.order.target is None:
            return None
        return self.declared.with_target(self.order.target)

    @property
    def target_kind(self) -> TargetKind | None:
        """What is predicted, by what is public; None if preparation may find either."""
        domain = self.public_domain if self.splits is None else self.splits.domain
        if domain is None or domain.target is None:
            return None if self.splits is None else "classes"  # a dataset without a domain counts its classes
        match domain.columns.get(domain.target):
            case Label():
                return "classes"
            case Number() | Integer() as column if column.bounds and "bounds" not in column.looked_up:
                return "number"
        return None  # a number whose bounds have to be found is a class if it has few values

    @property
    def model(self) -> str:
        """The model that suits it, by what is public."""
        if self.splits is None or len(self.splits.train["x"].shape) == 2:
            return "linear"
        return "scattering" if len(self.splits.train["x"].shape) == 3 else "cnn"

    def releases(self) -> tuple[Release, ...]:
        """What has to be found privately.

        Raises:
            DomainError: something is not public, and the order says to refuse.
        """
        if self.table is None:
            return ()
        needed = releases_for(self.declared, self.order.target)
        if needed and self.order.prepare == "public":
            if self.declared is None:
                raise DomainError(
                    f"Nothing is declared about the {len(self.table.names)} columns of {self.order.source} "
                    f"({', '.join(self.table.names[:8])}).",
                    remedy="Write a domain file (reticent domain TABLE -o FILE) and pass --domain, "
                    "or let a tenth of the budget find it: --prepare private.",
                )
            self.declared.require_public()
        return needed


def _digest_of_piece(path: Path, piece: int, key: str) -> str:
    hashed = hashlib.blake2b(key=key.encode(), digest_size=16)
    size = os.path.getsize(path)
    at, end = size * piece // _PIECES, size * (piece + 1) // _PIECES
    with open(path, "rb") as file:
        file.seek(at)
        while at < end and (content := file.read(min(1 << 22, end - at))):
            hashed.update(content)
            at += len(content)
    return hashed.hexdigest()


def _digest_of_ends(path: Path) -> str:
    """Tells copies of a file apart that differ in their first or last megabyte, without reading the rest."""
    with open(path, "rb") as file:
        first = file.read(1 << 20)
        file.seek(max(os.path.getsize(path) - (1 << 20), 0))
        return hashlib.blake2b(first + file.read(1 << 20), digest_size=16).hexdigest()


def public_of_held_out(rows: int) -> int:
    """How many of the held-out rows are taken for public; the others are scored on."""
    return max(rows - max(round(rows / 10), 1), 0)
