"""What a request is about: the rows, and what is public about them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from reticent.core.errors import DataError, DomainError, InvalidArgument
from reticent.core.files import PIECES, digest_of_ends, digest_of_piece
from reticent.core.observer import Observer
from reticent.core.postgres import is_database
from reticent.data import catalog
from reticent.data.domain import Domain, Featured, Integer, Label, Number
from reticent.data.files import Table
from reticent.data.files.images import LABEL, ImageFolder
from reticent.data.files.made import MadeTable
from reticent.data.files.shards import shard_of
from reticent.data.held_out import Split, expected_rows
from reticent.data.preparation import is_found, releases_for
from reticent.data.preparation.noise import PreparationRelease
from reticent.distributed import collectives
from reticent.distributed.consensus import by_all, require_same
from reticent.pretraining.public_model import WEIGHTS
from reticent.runs.declared import Declared, declare_as_asked, with_column
from reticent.runs.feature_source import (
    TEXT,
    Asked,
    asked_of_catalog,
    asked_of_table,
    domain_of_catalog,
    made_splits,
    made_table,
    open_features,
    open_rows,
    records_of,
    require_no_overlap,
)
from reticent.runs.image_learners import refuse_images
from reticent.runs.method import TargetKind
from reticent.runs.public_domain import layout_for
from reticent.runs.public_features import PublicFeatures
from reticent.runs.public_start import OVERLAP_IS_PUBLIC, PublicStart
from reticent.runs.request import HELD_OUT, Request
from reticent.runs.row_fingerprint import RowDigest
from reticent.runs.texts import as_windows
from reticent.runs.users import (
    refuse_made_up,
    refuse_users,
    rows_of_users,
    units_of,
    with_users,
    without_user,
)


class Source:
    """What a request is about: a table with its domain, or a dataset of the catalog.

    Args:
        is_shared: this process has its own shard of the rows, as each of the others has; see `of`.

    Attributes:
        rows: of all processes together; users, where the request is about users.
        first: how many of them come before those of this process.
        split: which rows are held out; None where whoever made the dataset held some out.
        row_digest: takes in the rows as they are read, so that a later command recognises them.
        why_model: why `auto` became the model that it is.
        start: the public weights that the run starts from.
    """

    def __init__(self, request: Request, *, is_shared: bool = False, folder: Path | None = None) -> None:
        self.request = request
        self.features: PublicFeatures | None = None
        self.asked: Asked | None = None
        self.is_shared = is_shared
        self.made: MadeTable | None = None
        self._has_features = False
        self.splits: catalog.Splits | None = None
        self._loaded: catalog.Splits | None = None
        self.table: Table | None = None
        self.declares = Declared(None)
        self.start: PublicStart | None = None
        self.speakers: np.ndarray | None = None  # of the windows of a text
        self.declared: Domain | None = Domain.read(request.domain) if request.domain else None
        if request.target is None and self.declared is not None and self.declared.target is not None:
            self.request = request = replace(request, target=self.declared.target)
        if request.source in catalog.names() and not Path(request.source).exists():
            refuse_users(request)
            self._loaded = catalog.load(request.source)
            self.request, self.splits, self.speakers = as_windows(request, self._loaded)
            request, known = self.request, self.splits.train if self.speakers is None else {*self.speakers}
            self.rows = request.federated.get("clients") or len(known)
            self._open_start(folder)
            if (asked := asked_of_catalog(request, self.splits)) is not None:
                self._take_features(asked, folder)
        else:
            refuse_made_up(request)
            known = () if self.declared is None else self.declared.columns
            expected = {*known, *filter(None, (request.target, request.user))}
            layout = layout_for(request.layout, self.declared)
            whole = open_rows(request.source, **layout, expected=expected)
            if isinstance(whole, ImageFolder) and request.target is None:
                self.request = request = replace(request, target=LABEL)
            shard = shard_of(whole, collectives.number(), collectives.count()) if is_shared else whole
            self.declared = None if self.declared is None else without_user(self.declared, request)
            is_whole, asked = shard is whole, asked_of_table(request, whole)
            if asked is not None:
                column = self._take_features(asked, folder)
                request = self.request
                self.declared = with_column(whole, self.declared, asked.column, column)
                assert self.features is not None
                shard = self.made = made_table(shard, asked, self.features)
            self.table = rows_of_users(shard, request)
            if request.target is None:
                raise InvalidArgument(
                    f"Which column of {request.source} is to be predicted?",
                    remedy=f"Pass --target. Available columns: {', '.join(self.table.names[:12])}.",
                )
            self.table.require([request.target])
            if len(self.table.names) == 1:
                raise DataError(
                    f"{request.source} has no column besides the target '{request.target}'.",
                    remedy="Give one with columns to predict it from; if there are more, pass --delimiter.",
                )
            refuse_images(request)
            table = self.table if is_whole else rows_of_users(whole, request)
            self.declares = declare_as_asked(request, request.target, table, self.declared)
            self.declared = self.declares.domain
            self.rows = units_of(self.table)
        self._assume_features()
        self.first = 0
        self.split: Split | None = None
        self.row_digest: RowDigest | None = None
        self.why_model = ""
        public = request.public if request.method == "pate" else None
        self.public = None if public in (None, HELD_OUT) else self._open_public(public)

    def _take_features(self, asked: Asked, folder: Path | None) -> Featured:
        """Opens the public model; what a domain says of the column that it makes numbers of."""
        request = self.request
        if request.model not in ("auto", "linear", "mlp"):
            raise InvalidArgument(
                f"The model '{request.model}' does not learn from features.", remedy="Choose linear or mlp."
            )
        self.asked, self.features = asked, open_features(request, asked, folder)
        self.request = replace(request, features_digest=self.features.digest)
        if self.splits is not None:
            classes = catalog.describe(request.source).classes
            domain = domain_of_catalog(asked, self.features, classes)
            self.splits = self.splits._replace(domain=domain)
        return self.features.column

    def _assume_features(self) -> None:
        """Adds what the guarantee takes for granted about the public model, if there is one."""
        if self.features is not None:
            said = (*self.features.assumptions, *(OVERLAP_IS_PUBLIC,) * self.request.overlap_is_public)
            self.declares = self.declares._replace(assumptions=(*self.declares.assumptions, *said))

    def make_features(self, observer: Observer, scratch: Path | None = None) -> None:
        """Asks the public model about all records, once; a broken one is found here.

        Args:
            scratch: a folder for what the run has no place for yet.

        Raises:
            DataError: a record is broken or empty, or among the public ones.
        """
        if self.features is None or self.asked is None or self._has_features:
            return
        self.features.observer = observer
        self.features.cache = self.features.cache or scratch
        if self.splits is not None:
            require_no_overlap(self.features, records_of(self.splits.train, self.asked), self.request)
            self.splits = made_splits(self.splits, self.asked, self.features)
        elif self.made is not None:
            require_no_overlap(self.features, self.made.records(), self.request)
            self.made.rows()
        self._has_features = True

    def _open_start(self, folder: Path | None) -> None:
        """Reads the public weights, whose digest the request keeps: a copy that the run has, if it does."""
        request = self.request
        if request.start is None:
            return
        has_copy = folder is not None and (folder / WEIGHTS).is_file()
        place = folder if folder is not None and has_copy else Path(request.start)
        self.start = PublicStart.read(place, request.learn, request.start_digest)
        self.request = replace(request, start_digest=self.start.weights.digest)
        said = (self.start.weights.assumption, *(OVERLAP_IS_PUBLIC,) * request.overlap_is_public)
        self.declares = self.declares._replace(assumptions=(*self.declares.assumptions, *said))

    @classmethod
    def of(cls, request: Request, folder: Path | None = None) -> Source:
        """What a request is about, its rows shared by all processes.

        Raises:
            InvalidArgument: they see different files, or were given different requests.
        """
        source = by_all(lambda: cls(request, is_shared=True, folder=folder))
        require_same({"request": repr(request), **source._facts()})
        if source.table is not None:
            counts = collectives.gather_arrays(np.int64(source.rows))
            source.rows, source.first = int(counts.sum()), int(counts[: collectives.number()].sum())
        return source

    def _facts(self) -> dict[str, str]:
        """What every process has to see alike."""
        declared = {} if self.declared is None else {"domain": self.declared.to_toml()}
        if self.table is None:
            return declared
        return declared | {
            "list of columns": ", ".join(self.table.names),
            "format of the table": self.table.dialect.describe(),
            "size of the table": f"{self.table.path.stat().st_size} bytes",
            "content at the ends of the table": digest_of_ends(self.table.path),
        }

    def _open_public(self, path: str) -> Table:
        """Unlabelled rows with the same columns; if the target is among theirs, it is not read."""
        if self.table is None:
            raise InvalidArgument(
                f"'{self.request.source}' is a dataset of the catalog, and {path} a table.",
                remedy="Pass --public held-out, which takes nine tenths of its test rows.",
            )
        layout = layout_for(self.request.layout, self.declared)
        for private in ("query", "table"):  # of the private rows
            layout.pop(private, None)
        public = open_rows(path, **layout)
        if missing := [name for name in self.table.names if name not in (*public.names, self.request.target)]:
            raise DataError(
                f"{path} lacks {len(missing)} columns of {self.request.source}: {', '.join(missing[:8])}.",
                remedy="Give the public rows the same columns, under the same names.",
            )
        if self.asked is not None and self.features is not None:
            return made_table(public, self.asked, self.features)
        return public

    @cached_property
    def named_data(self) -> Any:
        """The records of a dataset of the catalog as they are in it: what a ledger tells it by."""
        assert self._loaded is not None
        train = self._loaded.train
        if TEXT not in train.arrays:
            return train
        texts = [str(text).encode() for text in train[TEXT]]
        lengths = np.array([len(text) for text in texts])
        return {
            "text": np.frombuffer(b"".join(texts), np.uint8),
            "lengths": lengths,
            **{key: train[key] for key in train if key != TEXT},
        }

    @property
    def public_rows(self) -> int:
        """How many unlabelled rows there are to ask about."""
        if self.request.public is None:
            return 0
        if self.public is not None:
            return self.public.row_count
        assert self.splits is not None or self.table is not None
        if self.splits is not None and self.splits.test is not None:
            return public_of_held_out(len(self.splits.test))
        return public_of_held_out(self.rows - self.train_rows)

    def digest(self, key: str) -> str:
        """The digest of the table's bytes; nothing for a dataset of the catalog, which has its own checksum.

        Each process reads its share of the bytes, and all come to the same digest, however many there are.
        """
        if self.table is None:
            return ""
        paths = [table.path for table in (self.table, self.public) if table is not None]
        return digest_of_tables(paths, key)

    def take_in(self, rows: Mapping[str, np.ndarray], first: int) -> None:
        """Adds rows that were read to the fingerprint of the run; `first` counts those before them."""
        if self.row_digest is not None:
            self.row_digest.add(with_users(self.table, rows, first), first)

    @property
    def has_test(self) -> bool:
        """Whether whoever made the dataset held rows out."""
        return self.splits is not None and self.splits.test is not None

    @property
    def has_coins(self) -> bool:
        """Whether rows are held out by coins: nobody held any out before."""
        return not self.has_test

    @property
    def train_rows(self) -> int:
        """How many rows are trained on: public, so where coins decide, as many as can be expected."""
        return self.rows if self.has_test else expected_rows(self.rows, self.request.test)

    @property
    def public_domain(self) -> Domain | None:
        """What is declared about a table, with its target; None for a dataset of the catalog.

        None too where preparation finds what the target holds.
        """
        if self.declared is None or self.request.target is None:
            return None
        if is_found(self.declared.columns.get(self.request.target)):
            return None
        return self.declared.with_target(self.request.target)

    @property
    def target_kind(self) -> TargetKind | None:
        """What is predicted, by what is public; None if preparation may find either."""
        domain = self.public_domain if self.splits is None else self.splits.domain
        if domain is None or domain.target is None:
            return None if self.splits is None else "classes"  # a dataset without a domain counts its classes
        match domain.columns.get(domain.target):
            case Label() as column if "kind" not in column.looked_up:
                return "classes"
            case Number() | Integer() as found if "kind" not in found.looked_up:
                return "number"
        return None

    def releases(self) -> tuple[PreparationRelease, ...]:
        """What has to be found privately.

        Raises:
            DomainError: something is not public, and the request says to refuse.
        """
        if self.table is None:
            return ()
        needed = releases_for(self.declared, self.request.target)
        if needed and self.request.prepare == "public":
            if self.declared is None or self.request.domain is None:
                raise DomainError(
                    f"Nothing is declared about the {len(self.table.names)} columns of {self.request.source} "
                    f"({', '.join(self.table.names[:8])}).",
                    remedy="Write a domain file (reticent domain TABLE -o FILE) and pass --domain, "
                    "or let a tenth of the budget find it: --prepare private.",
                )
            self.declared.require_public()
        return needed


def move(request: Any, data: Path | str | None) -> Any:
    """The same request about a table that is at another place; as it is for None.

    Raises:
        InvalidArgument: it is about a dataset of the catalog.
    """
    if data is None:
        return request
    if request.source in catalog.names() and not Path(request.source).exists():
        raise InvalidArgument(
            f"The run was made from the dataset '{request.source}' of the catalog, not from a file.",
            remedy="Leave out --data.",
        )
    return replace(request, source=str(data))


def require_there(request: Any, folder: Path) -> None:
    """
    Raises:
        DataError: the table that a run was made from is not where it was.
    """
    path = Path(request.source)
    if is_database(request.source) or request.source in catalog.names() or path.exists():
        return
    raise DataError(
        f"There is no file {path}, which {folder} was made from.",
        remedy="Say where it is now: --data FILE. A name without a folder is looked for where you are.",
    )


def digest_of_tables(paths: Sequence[Path], key: str) -> str:
    """A keyed digest of files: each process reads its share of the bytes, and all come to the same."""
    own = {
        f"{at} {piece}": digest_of_piece(path, piece, key)
        for at, path in enumerate(paths)
        for piece in range(collectives.number(), PIECES, collectives.count())
    }
    found = {name: digest for theirs in collectives.gather_json(own) for name, digest in theirs.items()}
    return hashlib.blake2b(repr(sorted(found.items())).encode(), digest_size=16).hexdigest()


def public_of_held_out(rows: int) -> int:
    """How many of the held-out rows are taken for public; the others are scored on."""
    return max(rows - max(round(rows / 10), 1), 0)
