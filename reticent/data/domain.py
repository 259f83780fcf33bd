"""A domain: everything public about a table, and nothing else.

Two tables with the same domain are encoded by the same function, whatever is in them, so encoding
against a domain costs no privacy. That holds only as long as the domain itself was not copied from
the data: a draft (`reticent domain FILE`) marks every value that was, and `require_public` refuses
such a domain.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from reticent.core.errors import DataError, DomainError, suggest
from reticent.core.files import write_whole
from reticent.data import domain_toml
from reticent.data.kinds import (
    MISSING_MARKERS,
    Category,
    Column,
    Featured,
    Ignored,
    Integer,
    Label,
    Number,
    check_column,
    check_text,
    public_fields,
    quote,
)

__all__ = ["Category", "Column", "Domain", "Featured", "Ignored", "Integer", "Label", "Number"]


@dataclass(frozen=True, kw_only=True)
class Domain:
    """The columns of a table in their order, and which of them a model predicts.

    Args:
        columns: name to kind. Columns of a file that are not named here are not read.
        target: a `Label` to classify, or a `Number` or `Integer` to regress on.
        missing_markers: the cells that mean "not known". A NaN in a column of floats counts as "nan".
        ignore_case: words that differ in upper and lower case only are the same word.
        format: how the file is written, as `reticent domain` says it: then nothing of it is detected.
        source: what messages call it: usually its file.

    Raises:
        DomainError: it contradicts itself; the message names the column and the key.

    Example:
        >>> domain = Domain(
        ...     columns={"age": Number(bounds=(0, 100)), "sick": Label(values=("no", "yes"))}, target="sick"
        ... )
        >>> domain.not_public()
        []
    """

    columns: Mapping[str, Column]
    target: str | None = None
    missing_markers: tuple[str, ...] = MISSING_MARKERS
    ignore_case: bool = False
    format: str | None = None
    source: str = field(default="domain", compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.columns:
            raise DomainError(f"{self.source}: there are no columns.", remedy="Declare at least one.")
        for marker in self.missing_markers:
            check_text(marker, where=f"{self.source}, key 'missing_markers'")
        for name, column in self.columns.items():
            check_text(name, where=f"{self.source}, a column's name")
            check_column(column, where=self._at(name), markers=self.missing_markers)
            self._check_case(name, column)
        self._check_target()

    def _at(self, name: str) -> str:
        return f"{self.source}, column {quote(name)}"

    def _check_case(self, name: str, column: Column) -> None:
        values = getattr(column, "values", None) or ()
        known: dict[str, str] = {}
        for value in values if self.ignore_case else ():
            if (same := known.setdefault(value.casefold(), value)) != value:
                raise DomainError(
                    f"{self._at(name)}: {quote(value)} and {quote(same)} differ in case only.",
                    remedy="Remove one of the two, or write ignore_case = false.",
                )

    def _check_target(self) -> None:
        if self.target is not None:
            if self.target not in self.columns:
                raise DomainError(
                    f"{self.source}: the target {quote(self.target)} is not among the columns.",
                    remedy=suggest(self.target, self.columns),
                )
            target = self.columns[self.target]
            is_date = isinstance(target, Number) and target.date
            if isinstance(target, (Category, Featured, Ignored)) or is_date:
                raise DomainError(
                    f"{self._at(self.target)}: the target is of kind {'date' if is_date else target.kind}.",
                    remedy='Write kind = "label" to classify, or "number" to regress.',
                )
        for name, column in self.columns.items():
            if isinstance(column, Label) and name != self.target:
                raise DomainError(
                    f"{self._at(name)}: a label that is not the target, which is {self.target!r}.",
                    remedy=f'Write target = {name!r}, or kind = "category".',
                )

    def undeclared(self) -> list[str]:
        """The fields that have no value yet, as "column.field"."""
        return [
            f"{name}.{key}"
            for name, column in self.columns.items()
            for key in public_fields(column)
            if getattr(column, key) is None
        ]

    def not_public(self) -> list[str]:
        """The fields that are undeclared or were looked up in the data, as "column.field"."""
        return [
            f"{name}.{key}"
            for name, column in self.columns.items()
            for key in ("kind", *public_fields(column))
            if getattr(column, key) is None or key in column.looked_up
        ]

    def require_declared(self) -> None:
        """
        Raises:
            DomainError: bounds or values of a column are not known.
        """
        pending = self.undeclared()
        if pending:
            what = " and ".join(sorted({key.rpartition(".")[2] for key in pending}))
            names = [key.rpartition(".")[0] for key in pending]
            raise DomainError(
                f"Cannot encode: {len(pending)} of {len(self.columns)} columns of {self.source} "
                f"have no declared {what} ({', '.join(names)}).",
                remedy="Declare them in a domain file (reticent domain TABLE -o FILE), "
                "or let a part of the budget find them: --prepare private.",
            )

    def require_public(self) -> None:
        """Refuses a domain that still holds values looked up in the records.

        Raises:
            DomainError: it names every value that is not public, and both ways out.
        """
        pending = self.not_public()
        if pending:
            raise DomainError(
                f"{self.source}: {len(pending)} values are not public yet ({abbreviate(pending)}).",
                remedy="Declare each in the domain file and remove its looked_up mark, "
                "or let a part of the budget find them: --prepare private.",
            )

    def with_target(self, target: str) -> Domain:
        """The same columns with another one to predict; a category becomes a label, and back."""
        if target == self.target:
            return self
        columns = dict(self.columns)
        former = columns.get(self.target) if self.target else None
        if self.target and isinstance(former, Label):
            columns[self.target] = Category(values=former.values, looked_up=former.looked_up)
        wanted = columns.get(target)
        if isinstance(wanted, Category):
            columns[target] = Label(values=wanted.values, looked_up=wanted.looked_up & {"kind", "values"})
        return replace(self, columns=columns, target=target)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Domain:
        """A domain from its TOML file.

        Raises:
            DomainError: the file is not a valid domain; the message names file, column and key.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise DomainError(f"{path} is not a text file in UTF-8.", remedy="Save it as UTF-8.") from None
        except OSError as error:
            raise DataError(
                f"Cannot read the domain file {path}: {error.strerror}.",
                remedy="Draft one with: reticent domain TABLE -o FILE.",
            ) from error
        return cls.from_toml(text, source=str(path))

    @classmethod
    def from_toml(cls, text: str, *, source: str = "domain") -> Domain:
        found = domain_toml.parse(text, source=source)
        return cls(
            columns=found.columns,
            target=found.target,
            missing_markers=MISSING_MARKERS if found.missing_markers is None else found.missing_markers,
            ignore_case=found.ignore_case,
            format=found.format,
            source=source,
        )

    def to_toml(self) -> str:
        """The domain as a TOML document that `from_toml` reads back to an equal one."""
        return domain_toml.render(
            self.columns, self.target, self.missing_markers, self.format, ignore_case=self.ignore_case
        )

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the TOML file atomically: a crash leaves the old file, or the new one."""
        write_whole(Path(path), self.to_toml().encode())


def abbreviate(names: list[str], limit: int = 8) -> str:
    """Names the first few of a list, and says how many more there are."""
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more} more" if more > 0 else "")
