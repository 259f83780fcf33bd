"""What `reticent ledger show` prints: datasets, their histories, and events in words."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reticent.cli import output
from reticent.ledger.storage.postgres_schema import roles

if TYPE_CHECKING:
    from reticent.ledger.accounts import Account
    from reticent.ledger.chain import Entry
    from reticent.ledger.ledger import Ledger

_ROWS = 40  # of a history that are printed
_PARTS = 20  # different releases of a charge whose cost alone is worked out


def entries_in_words(entries: int) -> str:
    """How many entries, in words."""
    return "1 entry" if entries == 1 else f"{entries:,} entries"


def rights_in_words(ledger: Ledger) -> str:
    """Who may raise a limit."""
    if ledger.owner is not None:
        return f"Every limit is signed by the owner, {ledger.owner}."
    if isinstance(ledger.address, Path):
        return "It has no owner: anyone who may write to it may also raise limits."
    owner, *_ = roles(ledger.address.schema)
    return f"It has no owner's key: members of {owner}, and administrators of the database, may raise limits."


def facts_of(account: Account) -> dict[str, Any]:
    """What is known of a dataset, as plain values."""
    from reticent.ledger import cost

    return {
        "dataset": account.name,
        "limit": account.limit.to_json(),
        "adaptive": account.limit.adaptive,
        "guarantee": cost.guarantee(account).to_json(),
        "share_spent": cost.share(account),
        "charges": account.charges,
        "version": account.version,
        "fingerprint": account.fingerprint,
    }


def print_all(shown: list[dict[str, Any]], ledger: Ledger) -> None:
    """The table of all datasets, and who may change their limits."""
    where = str(ledger.address)
    columns = {"dataset": "left", "spent": "right", "limit": "right", "delta": "right", "charges": "right"}
    columns |= {"neighbours": "left", "releases": "left"}
    rows = [
        (
            fact["dataset"],
            _describe_spending(fact),
            f"{fact['limit']['epsilon']:g}",
            f"{fact['limit']['delta']:g}",
            f"{fact['charges']:,}",
            f"{fact['limit']['adjacency']}, {fact['limit']['unit']}",
            "adaptive" if fact["adaptive"] else "planned",
        )
        for fact in shown
    ]
    if rows:
        output.print_table("epsilon by dataset", columns, rows)
    else:
        output.print_line(
            f"{where} has no datasets yet. "
            f"Next: reticent ledger limit {shlex.quote(where)} NAME --epsilon 3 --delta 1e-6"
        )
    output.print_line(rights_in_words(ledger))


def _describe_spending(fact: dict[str, Any]) -> str:
    from reticent.ledger.cost import round_up

    if fact["adaptive"]:
        return f"{fact['share_spent']:.1%}"
    return f"{round_up(fact['guarantee']['epsilon']):g}"


def print_one(account: Account, history: list[Entry], *, as_json: bool) -> None:
    """One dataset: its history, the sentence that may be printed, and what would still fit."""
    from reticent.ledger import cost

    left = cost.remaining(account)
    if as_json:
        facts = facts_of(account)
        still = {"noise_multiplier": left.noise_multiplier, "epsilon": left.epsilon}
        output.print_json({**facts, "still_fits": still, "history": [entry.to_json() for entry in history]})
        return
    rows = [
        (
            str(entry.sequence),
            entry.time[:19].replace("T", " "),
            entry.kind,
            *_alone(entry, account),
            _what(entry),
        )
        for entry in history[-_ROWS:]
    ]
    columns = {"entry": "right", "time (UTC)": "left", "kind": "left", "epsilon alone": "right"}
    columns |= {"delta taken": "right", "what": "left"}
    output.print_table(account.name, columns, rows)
    if len(history) > _ROWS:
        output.note(f"These are the last {_ROWS} of {len(history):,} entries; --json shows all.")
    output.print_line()
    if account.charges:
        output.print_text(f"Together: {cost.guarantee(account)}")
    output.print_text(f"{_limit_in_words(account)} {left}")


def _alone(entry: Entry, account: Account) -> tuple[str, str]:
    """What a charge alone would cost at the limit's delta, and how much of that delta its claims take.

    A question mark stands where no theorem says so, or where it would take long to work out.
    """
    if entry.kind != "charge":
        return "", ""
    from reticent.accounting.accountants import claimed_delta
    from reticent.accounting.loss_distribution.dominating import Neighbours, flatten
    from reticent.accounting.tight_epsilon import upper_bound
    from reticent.core.errors import ReticentError
    from reticent.ledger.cost import round_up
    from reticent.mechanisms import events

    neighbours, event = Neighbours(account.limit.adjacency), events.from_json(entry.values["event"])
    try:
        if len(flatten(event)) > _PARTS:
            return "?", "?"
        epsilon = upper_bound(event, account.limit.delta, neighbours)
        return f"{round_up(epsilon):g}", f"{claimed_delta(event, neighbours):.2g}"
    except ReticentError:  # no theorem about it under this adjacency
        return "?", "?"


def _limit_in_words(account: Account) -> str:
    from reticent.ledger import cost

    limit = account.limit
    said = f"The limit is ({limit.epsilon:g}, {limit.delta:g})"
    return (
        f"{said}; {cost.share(account):.1%} of what its filters allow is spent."
        if limit.adaptive
        else f"{said}."
    )


def _what(entry: Entry) -> str:
    values = entry.values
    match entry.kind:
        case "charge":
            return f"{values['purpose']}: {describe(values['event'])}"
        case "limit":
            limit = values["limit"]
            kind = "adaptive" if limit["filters"] else "planned"
            where = f"{limit['adjacency']}, {limit['unit']}, {kind}"
            return f"epsilon {limit['epsilon']:g}, delta {limit['delta']:g} ({where})"
        case "alias":
            return f"'{values['dataset']}' is another name of '{values['same_rows_as']}'"
        case _:
            return f"version {values['version']}: {values['reason']}"


def describe(event: dict[str, Any]) -> str:
    """An event's JSON on one line.

    >>> describe({"kind": "repeated", "times": 3, "event": {"kind": "gaussian", "noise_multiplier": 2.0}})
    '3 x gaussian(noise_multiplier 2)'
    """
    inner = describe(event["event"]) if "event" in event else ""
    if event["kind"] == "repeated":
        return f"{event['times']:,} x {inner}"
    if event["kind"] == "composed":
        parts = [describe(item) for item in event["events"]]
        return " + ".join(parts[:4]) + (f" + {len(parts) - 4} more" if len(parts) > 4 else "")
    said = [inner] if inner else []
    said += [
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in event.items()
        if name not in ("kind", "event", "adjacency")
    ]
    return f"{event['kind']}({', '.join(said)})"
