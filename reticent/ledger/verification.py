"""A whole ledger, read from its first entry to its last and checked against what was noted elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from reticent.core.errors import IntegrityError
from reticent.ledger import cost
from reticent.ledger.accounts import Accounts
from reticent.ledger.chain import broken_ledger
from reticent.ledger.storage.interface import Transaction


@dataclass(frozen=True, kw_only=True)
class Verification:
    """A ledger that was read from its first entry to its last.

    since: how many entries came after the head it was compared with; None without one.
    owner: the public key that signed every limit; None where nobody had to.
    """

    id: str
    entries: int
    head: str
    since: int | None = None
    owner: str | None = None


def verify_chain(
    transaction: Transaction, where: object, *, head: str | None, owner: str | None
) -> Verification:
    """Checks every page, link, entry, signature and limit.

    Raises:
        IntegrityError: something was changed, `head` is not in the chain, or the owner is another.
    """
    read, position = Accounts(where=where), None
    transaction.check_pages()
    for entry in transaction.entries():
        read.read(entry)
        if head is not None and entry.hash == head.lower():
            position = entry.sequence
    if not read.id:
        raise broken_ledger(where, "its first entry is missing")
    if head is not None and position is None:
        raise IntegrityError(
            f"No entry of {where}, which has {read.head.sequence}, has the hash {head[:80]}.",
            remedy="Its last entries are gone, or it is another ledger: compare it with a copy.",
        )
    _check_owner(read, owner)
    _check_contents(read)
    _check_limits(read)
    since = None if position is None else read.head.sequence - position
    return Verification(
        id=read.id, entries=read.head.sequence, head=read.head.hash, since=since, owner=read.owner
    )


def _check_owner(accounts: Accounts, owner: str | None) -> None:
    """
    Raises:
        IntegrityError: the ledger has another owner than the one that was noted elsewhere.
    """
    if owner is not None and (accounts.owner or "").lower() != owner.lower():
        found = "has no owner" if accounts.owner is None else f"has the owner {accounts.owner}"
        raise IntegrityError(
            f"The ledger {accounts.where} {found}, not {owner[:80]}.",
            remedy="It is another ledger, or somebody rewrote it: compare it with a copy.",
        )


def _check_contents(accounts: Accounts) -> None:
    """
    Raises:
        IntegrityError: the same rows have two budgets, which no rule of ours lets through.
    """
    for account in accounts.by_name.values():
        for mark in account.fingerprints:
            if other := accounts.with_content(mark, besides=account.name):
                raise IntegrityError(
                    f"In the ledger {accounts.where} the same rows have two budgets: '{account.name}' was "
                    f"declared to hold what '{other.name}' held before, by something other than reticent.",
                    remedy=f"Charge '{other.name}' alone, and add up the guarantees of both by hand.",
                )


def _check_limits(accounts: Accounts) -> None:
    """
    Raises:
        IntegrityError: a dataset was charged past its limit, which no rule of ours lets through.
    """
    for account in accounts.by_name.values():
        if account.charges and not cost.is_within(account.event(), account.limit):
            limit = account.limit
            raise broken_ledger(
                accounts.where,
                f"'{account.name}' was charged past its limit of ({limit.epsilon:g}, {limit.delta:g}), "
                "by something other than reticent",
            )
