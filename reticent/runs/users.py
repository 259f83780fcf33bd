"""Users who own several rows: so many rows of each are used at most, and the guarantee is for a whole user.

Which rows of a user are used depends on that user's rows alone: the first ones in the table. So a user who is
added or removed adds or removes at most that many rows, and changes nothing about the rows of others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent.core import checks
from reticent.core.errors import DataError, InvalidArgument
from reticent.data.arrow_cells import as_words, missing_cells
from reticent.data.client_splits import dirichlet_split
from reticent.data.domain import Domain
from reticent.data.files import Table
from reticent.data.held_out import Split
from reticent.data.kinds import quote
from reticent.distributed import collectives

if TYPE_CHECKING:
    import pyarrow as pa

CONCENTRATION = 0.5  # of the Dirichlet law that made-up clients are drawn from
_NO_USER = ("", "NA", "N/A", "nan", "NaN", "null", "NULL", "None")


class RowsOfUsers(Table):
    """A table without the column that names the users, and with at most `most` rows of each.

    Attributes:
        users: (rows,) whose each row is: the position of the user's name among all names in their order.
        names_of_users: (users,) in their order.

    Raises:
        DataError: there is no such column, or a row does not say whose it is.
    """

    unit = "user"

    def __init__(self, table: Table, column: str, most: int) -> None:
        checks.count(rows_per_user=most)
        table.require([column])
        self._inner, self.column, self.most = table, column, most
        self.path, self.dialect = table.path, table.dialect
        self.names = tuple(name for name in table.names if name != column)
        self.unsupported = {name: kind for name, kind in table.unsupported.items() if name != column}
        self.names_of_users, owner = np.unique(_read_users(table, column), return_inverse=True)
        self._is_kept = _is_among_first(owner, most)
        self._numbers = np.flatnonzero(self._is_kept)
        self.users = owner[self._is_kept]
        self._row_count = len(self.users)

    @property
    def user_count(self) -> int:
        return len(self.names_of_users)

    @property
    def dropped_rows(self) -> int:
        """How many rows are beyond the limit of their user. Private, like the rows."""
        return len(self._is_kept) - len(self.users)

    def with_one_row_each(self) -> RowsOfUsers:
        """The first row of each user: a release about these rows is one about users, at the same cost."""
        return self if self.most == 1 else RowsOfUsers(self._inner, self.column, 1)

    @property
    def label(self) -> str:
        return self._inner.label

    @property
    def format_assumption(self) -> str | None:
        return self._inner.format_assumption

    @property
    def doubt(self) -> str | None:
        return self._inner.doubt

    def place(self, row: int) -> str:
        return self._inner.place(int(self._numbers[row]))

    def _read(self, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, float]]:
        import pyarrow as pa

        for rows in self._inner.batches(columns):
            is_kept = self._is_kept[rows.first : rows.first + rows.batch.num_rows]
            yield rows.batch.filter(pa.array(is_kept)), rows.done


class UserSplit:
    """The split of a table by users, asked by row as `Split` is: all rows of a user are on one side.

    Args:
        users: (rows,) whose each row is.
    """

    def __init__(self, split: Split, users: np.ndarray) -> None:
        self.share, self.seed = split.share, split.seed
        self._is_held_out = split.of_users(users)

    def is_held_out(self, first: int, count: int) -> np.ndarray:
        """A mask for the rows from `first` to `first + count - 1`: (count,) bool."""
        return self._is_held_out[first : first + count]

    def count_trained_on(self, first: int, count: int) -> int:
        """How many of these rows are not held out. Private, as the coins are."""
        return count - int(np.count_nonzero(self.is_held_out(first, count)))


RowSplit = Split | UserSplit  # what tells which rows of a table are held out


def check_users(user: str | None, rows_per_user: int | None, target: str | None) -> None:
    """
    Raises:
        InvalidArgument: one of the two options is missing, or the user is what is to be predicted.
    """
    if (user is None) != (rows_per_user is None):
        raise InvalidArgument(
            "Privacy for users needs the column that names them, and how many rows of each may be used.",
            remedy="Pass both, such as --user patient --rows-per-user 10, or neither.",
        )
    if rows_per_user is not None:
        checks.count(rows_per_user=rows_per_user)
    if user is not None and user == target:
        raise InvalidArgument(
            f"'{user}' names the users, and cannot be the target.", remedy="Pass another --user or --target."
        )


def rows_of_users(table: Table, request: Any) -> Table:
    """The rows of a table that a request may use: all of them, or those within the limit of each user.

    Raises:
        InvalidArgument: several processes share the rows. DataError: a row does not say whose it is.
    """
    if request.user is None:
        return table
    if collectives.count() > 1:
        raise InvalidArgument(
            f"Rows of a user may lie in the parts of several of the {collectives.count()} processes.",
            remedy="Run it in one process.",
        )
    return RowsOfUsers(table, request.user, request.rows_per_user)


def refuse_users(request: Any) -> None:
    """
    Raises:
        InvalidArgument: users are named for a dataset of the catalog.
    """
    is_text = getattr(request, "task", None) == "next-character"  # whose speakers are its users
    if request.user is not None and not request.federated.get("clients") and not is_text:
        raise InvalidArgument(
            f"The dataset '{request.source}' of the catalog has no column '{request.user}' that names users.",
            remedy="Leave out --user and --rows-per-user, or name a table.",
        )


def refuse_made_up(request: Any) -> None:
    """
    Raises:
        InvalidArgument: clients are to be made up for a table, whose labels are not public.
    """
    if request.task == "next-character":
        raise InvalidArgument(
            f"Texts of the catalog are continued, and {request.source} is a table.",
            remedy="Use --task next-character with tinyshakespeare; a column of texts: --text COLUMN.",
        )
    if request.federated.get("clients"):
        raise InvalidArgument(
            f"Clients are made up for named datasets alone, and {request.source} is a table.",
            remedy="Name its column of users: --users.",
        )


def made_up_users(request: Any, labels: np.ndarray) -> np.ndarray | None:
    """The client of each row of a named dataset, where clients are made up; the same for everybody.

    Raises:
        InvalidArgument: several processes share the rows.
    """
    clients = request.federated.get("clients")
    if not clients:
        return None
    if collectives.count() > 1:
        raise InvalidArgument(
            f"Rows of a client may lie in the parts of several of the {collectives.count()} processes.",
            remedy="Run it in one process.",
        )
    return dirichlet_split(labels, clients, request.federated.get("dirichlet") or CONCENTRATION, seed=0)


def without_user(domain: Domain, request: Any) -> Domain:
    """What is declared about all columns but the one that names users, which is never a feature."""
    if request.user is None:
        return domain
    kept = {name: column for name, column in domain.columns.items() if name != request.user}
    return replace(domain, columns=kept)


def rows_for_preparation(table: Table) -> Table:
    """The rows that private preparation counts: one of each user, or all."""
    return table.with_one_row_each() if isinstance(table, RowsOfUsers) else table


def with_users(
    table: Table | None, rows: Mapping[str, np.ndarray], first: int = 0
) -> Mapping[str, np.ndarray]:
    """Rows of a table from row `first` on, together with whose they are, for their fingerprint."""
    if not isinstance(table, RowsOfUsers):
        return rows
    count = len(next(iter(rows.values())))
    return {**rows, "user": table.users[first : first + count]}


def several_rows(rows_per_user: int | None) -> int | None:
    """How many rows of a user are used, if more than one; with one, a user is a record."""
    return None if rows_per_user == 1 else rows_per_user


def units_of(table: Table) -> int:
    """How many units a table holds whose privacy is at stake: users, or rows."""
    return table.user_count if isinstance(table, RowsOfUsers) else table.row_count


def split_of(split: Split, table: Table) -> RowSplit:
    """The split of the rows of a table: by users where it has them."""
    return UserSplit(split, table.users) if isinstance(table, RowsOfUsers) else split


def assumptions_about(request: Any) -> tuple[str, ...]:
    """What a guarantee for users rests on."""
    user = request.options.get("user")
    clients = (request.options.get("federated") or {}).get("clients")
    if clients:
        return (f"the {clients} clients are made up, from labels that are taken as public",)
    return () if user is None else (f"all rows of one user have the same '{user}', and no one else's do",)


def _read_users(table: Table, column: str) -> np.ndarray:
    found: list[str] = []
    for rows in table.batches([column]):
        cells = rows.batch.column(column)
        missing = missing_cells(cells, _NO_USER)
        if missing.any():
            place = table.place(rows.first + int(np.argmax(missing)))
            raise DataError(
                f"{table.label}, {place}: the column {quote(column)} does not say whose row it is.",
                remedy="Give every row its user, or leave such rows out.",
            )
        found.extend(as_words(cells).to_pylist())
    return np.array(found, dtype=np.str_)


def _is_among_first(owner: np.ndarray, most: int) -> np.ndarray:
    """Which rows are among the first `most` of their owner.

    >>> _is_among_first(np.array([0, 1, 0, 0, 1]), 2).tolist()
    [True, True, True, False, True]
    """
    order = np.argsort(owner, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(owner))[:-1]]) if len(owner) else np.zeros(1, int)
    rank = np.empty(len(owner), np.int64)
    rank[order] = np.arange(len(owner)) - starts[owner[order]]
    return rank < most
