"""`reticent ledger`: what each dataset may spend, and what was spent on what."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reticent.cli import output
from reticent.core.errors import InvalidArgument, Unavailable
from reticent.mechanisms.adjacency import Adjacency

if TYPE_CHECKING:
    from reticent.ledger.accounts import Account
    from reticent.ledger.chain import Entry

app = typer.Typer(
    no_args_is_help=True,
    help="Keep the privacy budgets of datasets in one file.",
    epilog="Example:  reticent ledger show clinic.ledger",
)

_ROWS = 40  # of a history that are printed

File = Annotated[Path, typer.Argument(metavar="FILE", help="The ledger.")]


@app.command(epilog="Example:  reticent ledger init clinic.ledger")
def init(file: File, as_json: output.AsJson = False) -> None:
    """Create a new, empty ledger.

    An existing file is never overwritten. Any number of
    processes may charge the same ledger.
    """
    from reticent.ledger.ledger import Ledger

    with Ledger.create(file) as made:
        if as_json:
            output.print_json({"path": str(file), "id": made.id, "head": made.head.hash})
        else:
            output.print_line(
                f"{file} is an empty ledger. Next: reticent ledger limit {file} NAME --epsilon 3 --delta 1e-6"
            )


@app.command(epilog="Example:  reticent ledger limit clinic.ledger patients --epsilon 3 --delta 1e-6")
def limit(
    file: File,
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="Its name; a new name is added.")],
    epsilon: Annotated[float, typer.Option(help="What all releases together may cost.", show_default=False)],
    delta: Annotated[float, typer.Option(help="Below 1 / examples.", show_default=False)],
    adjacency: Annotated[
        Adjacency | None,
        typer.Option(help="What a neighbour may do to a record.", show_default="as before, or add-or-remove"),
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(help="Whose privacy: record or user.", show_default="as before, or record"),
    ] = None,
    adaptive: Annotated[
        bool | None,
        typer.Option(
            "--adaptive/--planned",
            help="Releases may depend on the results of earlier ones.",
            show_default="as before, or planned",
        ),
    ] = None,
    as_json: output.AsJson = False,
) -> None:
    """Set what a dataset may spend in all.

    A limit can be raised, or lowered to no less than what is spent. Every
    change stays visible in the ledger.
    """
    from reticent.ledger.ledger import Ledger

    with Ledger.open(file) as ledger:
        given: dict[str, Any] = {"adjacency": adjacency, "unit": unit, "adaptive": adaptive}
        agreed = ledger.limit(dataset, epsilon=epsilon, delta=delta, **given)
        if as_json:
            output.print_json({"dataset": dataset, "limit": agreed.to_json(), "head": ledger.head.hash})
        else:
            said = f"epsilon {agreed.epsilon:g} at delta {agreed.delta:g}"
            whom = agreed.adjacency.sentence.format(unit=agreed.unit)
            kind = "spent adaptively" if agreed.adaptive else "planned"
            output.print_line(f"{dataset} may spend {said}, for {whom}; {kind}.")


@app.command(epilog="Example:  reticent ledger show clinic.ledger patients")
def show(
    file: File,
    dataset: Annotated[
        str | None, typer.Argument(metavar="DATASET", help="Only this one, with every charge.")
    ] = None,
    as_json: output.AsJson = False,
) -> None:
    """Show what datasets have spent, and may still spend.

    What is spent is the tight composition of everything that was charged,
    not the sum of epsilons. With the name of a dataset: its history too, the
    sentence that may be printed, and what would still fit.
    """
    from reticent.ledger.ledger import Ledger

    with Ledger.open(file) as ledger:
        names = ledger.datasets() if dataset is None else (dataset,)
        accounts = [ledger.account(name) for name in names]
        if dataset is None:
            shown = [_facts(account) for account in accounts]
            if as_json:
                output.print_json({"ledger": ledger.id, "datasets": shown})
            else:
                _print_all(shown, file)
            return
        history = ledger.entries(dataset)
    _show_one(accounts[0], history, as_json=as_json)


@app.command(epilog="Example:  reticent ledger verify clinic.ledger")
def verify(
    file: File,
    head: Annotated[
        str | None,
        typer.Option(help="A hash noted earlier, which the ledger must contain.", show_default=False),
    ] = None,
    as_json: output.AsJson = False,
) -> None:
    """Check that nothing in a ledger was changed or damaged.

    Every entry holds the hash of the one before. That the last entries were
    cut off cannot be seen from inside the file: note the hash that is printed,
    keep it elsewhere, and pass it as --head the next time.
    """
    from reticent.ledger.ledger import Ledger

    with Ledger.open(file) as ledger:
        found = ledger.verify(head)
    if as_json:
        output.print_json(
            {"id": found.id, "entries": found.entries, "head": found.head, "entries_since": found.since}
        )
        return
    output.print_line(f"{file} is intact: {_entries_in_words(found.entries)}.")
    if found.since is not None:
        output.print_line(f"The noted head is in it, {_entries_in_words(found.since)} before the last.")
    output.print_line(f"head {found.head}")


@app.command(epilog="Example:  reticent ledger export clinic.ledger -o clinic.json")
def export(
    file: File,
    to: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write it here instead of to stdout.", show_default=False),
    ] = None,
    as_json: output.AsJson = False,
) -> None:
    """Write a whole ledger as JSON, every entry with its hash.

    The key of its fingerprints is not part of it. With -o, an existing file
    is not overwritten; without it, the JSON goes to stdout.
    """
    from reticent.ledger.ledger import Ledger

    with Ledger.open(file) as ledger:
        whole = ledger.export()
    if to is None:
        output.print_json(whole)
        return
    _write(to, whole)
    said = {"path": str(to), "entries": len(whole["entries"]), "head": whole["head"]}
    if as_json:
        output.print_json(said)
    else:
        output.print_line(f"{_entries_in_words(len(whole['entries']))} of {file} written to {to}.")


def _entries_in_words(entries: int) -> str:
    return "1 entry" if entries == 1 else f"{entries:,} entries"


def _facts(account: Account) -> dict[str, Any]:
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


def _print_all(shown: list[dict[str, Any]], file: Path) -> None:
    columns = {"dataset": "left", "spent": "right", "limit": "right", "delta": "right", "charges": "right"}
    columns |= {"neighbours": "left", "releases": "left"}
    rows = [
        (
            fact["dataset"],
            _spent(fact),
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
            f"{file} has no datasets yet. Next: reticent ledger limit {file} NAME --epsilon 3 --delta 1e-6"
        )


def _spent(fact: dict[str, Any]) -> str:
    from reticent.ledger.cost import round_up

    if fact["adaptive"]:
        return f"{fact['share_spent']:.1%}"
    return f"{round_up(fact['guarantee']['epsilon']):g}"


def _show_one(account: Account, history: list[Entry], *, as_json: bool) -> None:
    from reticent.ledger import cost

    left = cost.remaining(account)
    if as_json:
        facts = _facts(account)
        still = {"noise_multiplier": left.noise_multiplier, "epsilon": left.epsilon}
        output.print_json({**facts, "still_fits": still, "history": [entry.to_json() for entry in history]})
        return
    rows = [
        (str(entry.sequence), entry.time[:19].replace("T", " "), entry.kind, _what(entry))
        for entry in history[-_ROWS:]
    ]
    columns = {"entry": "right", "time (UTC)": "left", "kind": "left", "what": "left"}
    output.print_table(account.name, columns, rows)
    if len(history) > _ROWS:
        output.note(f"These are the last {_ROWS} of {len(history):,} entries; --json shows all.")
    output.print_line()
    if account.charges:
        output.print_text(f"Together: {cost.guarantee(account)}")
    output.print_text(f"{_limit_in_words(account)} {left}")


def _limit_in_words(account: Account) -> str:
    from reticent.ledger import cost

    limit = account.limit
    said = f"The limit is ({limit.epsilon:g}, {limit.delta:g})"
    return (
        f"{said}; {cost.share(account):.1%} of what its filters let through is spent."
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


def _write(path: Path, value: dict[str, Any]) -> None:
    import json

    try:
        with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644), "w", encoding="utf-8") as file:
            json.dump(value, file, indent=2, ensure_ascii=False, allow_nan=False)
            file.write("\n")
    except FileExistsError:
        raise InvalidArgument(f"{path} exists already.", remedy="Choose another name.") from None
    except OSError as error:
        path.unlink(missing_ok=True)
        raise Unavailable(
            f"Cannot write {path}: {error.strerror}.",
            remedy="Choose a folder you may write, with space left.",
        ) from None
