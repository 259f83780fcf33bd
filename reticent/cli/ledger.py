"""`reticent ledger`: what each dataset may spend, and what was spent on what."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer

from reticent.cli import ledger_output, output
from reticent.core.errors import DataError, InvalidArgument, Unavailable
from reticent.mechanisms.adjacency import Adjacency, Unit

if TYPE_CHECKING:
    from reticent.ledger.ledger import Ledger
    from reticent.ledger.owner import OwnerKey

app = typer.Typer(
    no_args_is_help=True,
    help="Keep the privacy budgets of datasets in one place.",
    epilog="Example:  reticent ledger show clinic.ledger",
)

Where = Annotated[str, typer.Argument(metavar="LEDGER", help="A file, or postgresql://USER@HOST/DATABASE.")]
KeyFile = Annotated[
    Path | None,
    typer.Option("--owner-key", help="The owner's key, if the ledger has one.", show_default=False),
]


@app.command(epilog="Example:  reticent ledger init clinic.ledger")
def init(
    where: Where,
    owner_key: Annotated[
        Path | None,
        typer.Option(
            "--owner-key",
            help="Only this key may change limits; a missing file is created. Keep it elsewhere.",
            show_default=False,
        ),
    ] = None,
    as_json: output.AsJson = False,
) -> None:
    """Create a new, empty ledger.

    An existing one is never overwritten. Any number of processes may charge
    the same ledger. Without an owner's key, anyone who may charge it may also
    raise limits. In PostgreSQL, roles keep these rights apart as well.
    """
    made, address = _create(where, owner_key)
    with made:
        if as_json:
            said = {"path": address, "id": made.id, "head": made.head.hash}
            output.print_json(said if made.owner is None else {**said, "owner": made.owner})
            return
        key = "" if owner_key is None else f" --owner-key {shlex.quote(str(owner_key))}"
        output.print_line(
            f"{address} is an empty ledger. "
            f"Next: reticent ledger limit {shlex.quote(address)} NAME --epsilon 3 --delta 1e-6{key}"
        )
        if made.owner is not None:
            output.print_line("Note its owner's public key in another place, for verify --owner:")
            output.print_line(f"owner {made.owner}")
        for line in _grants(made):
            output.print_line(line)


def _create(where: str, owner_key: Path | None) -> tuple[Ledger, str]:
    """A new ledger and its address; a new key is removed again if that fails."""
    from reticent.ledger.address import without_password
    from reticent.ledger.ledger import Ledger
    from reticent.ledger.owner import OwnerKey

    key, is_new = None, owner_key is not None and not owner_key.exists()
    if owner_key is not None:
        key = OwnerKey.create(owner_key) if is_new else OwnerKey.read(owner_key)
    try:
        return Ledger.create(where, owner=key), str(without_password(where))
    except BaseException:
        if is_new and owner_key is not None:
            owner_key.unlink(missing_ok=True)
        raise


def _grants(ledger: Ledger) -> list[str]:
    """How an administrator hands out the rights to a ledger in a database."""
    if isinstance(ledger.address, Path):
        return []
    from reticent.ledger.storage.postgres_schema import roles

    owner, analyst, auditor = roles(ledger.address.schema)
    return [
        "Users of the database get their rights by one of:",
        f"  GRANT {owner} TO user;    -- sets limits",
        f"  GRANT {analyst} TO user;  -- charges, and reads",
        f"  GRANT {auditor} TO user;  -- reads",
    ]


@app.command(epilog="Example:  reticent ledger limit clinic.ledger patients --epsilon 3 --delta 1e-6")
def limit(
    where: Where,
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="Its name; a new name is added.")],
    epsilon: Annotated[float, typer.Option(help="What all releases together may cost.", show_default=False)],
    delta: Annotated[float, typer.Option(help="Below 1 / examples.", show_default=False)],
    adjacency: Annotated[
        Adjacency | None,
        typer.Option(help="How neighbouring datasets differ.", show_default="as before, or add-or-remove"),
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
    owner_key: KeyFile = None,
    as_json: output.AsJson = False,
) -> None:
    """Set what a dataset may spend in all.

    A limit can be raised, or lowered to no less than what is spent. Every
    change stays visible in the ledger. A new name that looks like an existing
    one is refused.
    """
    with _open(where, owner_key) as ledger:
        given: dict[str, Any] = {"adjacency": adjacency, "unit": unit, "adaptive": adaptive}
        agreed = ledger.limit(dataset, epsilon=epsilon, delta=delta, **given)
        name = ledger.account(dataset).name
        if as_json:
            output.print_json({"dataset": name, "limit": agreed.to_json(), "head": ledger.head.hash})
        else:
            said = f"epsilon {agreed.epsilon:g} at delta {agreed.delta:g}"
            whom = agreed.adjacency.sentence.format(unit=agreed.unit)
            kind = "spent adaptively" if agreed.adaptive else "planned"
            output.print_line(f"{name} may spend {said}, for {whom}; {kind}.")


@app.command(
    epilog="Example:  reticent ledger new-version clinic.ledger patients patients.csv --reason 'corrected'"
)
def new_version(
    where: Where,
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="Its name in the ledger.")],
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The file as it is from now on.")],
    reason: Annotated[str, typer.Option(help="Why it changed, for readers of the ledger.")],
    owner_key: KeyFile = None,
    as_json: output.AsJson = False,
) -> None:
    """Declare that a dataset has new content.

    The first charge fixes the content of a dataset, and other content is
    refused. A new version is about the same people: its limit and its charges
    stay. For other people's data, set a limit under another name.
    """
    with _open(where, owner_key) as ledger:
        version = ledger.new_version(dataset, ledger.fingerprint(_content(table)), reason=reason)
        name = ledger.account(dataset).name
        if as_json:
            output.print_json({"dataset": name, "version": version, "head": ledger.head.hash})
        else:
            output.print_line(f"{name} is {table} from now on: version {version}.")


@app.command(epilog="Example:  reticent ledger alias clinic.ledger admissions --same-rows-as patients")
def alias(
    where: Where,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Another name of the dataset.")],
    same_rows_as: Annotated[str, typer.Option(help="The dataset's name in the ledger.")],
    owner_key: KeyFile = None,
    as_json: output.AsJson = False,
) -> None:
    """Give a dataset another name: both spend from one budget.

    The same rows under two names would have two budgets, so the ledger
    refuses them. Another name shares the limit and the charges.
    """
    with _open(where, owner_key) as ledger:
        ledger.alias(name, same_rows_as=same_rows_as)
        known = ledger.account(name).name
        if as_json:
            output.print_json({"name": name, "dataset": known, "head": ledger.head.hash})
        else:
            output.print_line(f"{name} is another name of {known}: both spend from one budget.")


@app.command(epilog="Example:  reticent ledger show clinic.ledger patients")
def show(
    where: Where,
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
    with _open(where) as ledger:
        names = ledger.datasets() if dataset is None else (dataset,)
        accounts = [ledger.account(name) for name in names]
        if dataset is None:
            shown = [ledger_output.facts_of(account) for account in accounts]
            if as_json:
                output.print_json({"ledger": ledger.id, "owner": ledger.owner, "datasets": shown})
            else:
                ledger_output.print_all(shown, ledger)
            return
        history = ledger.entries(dataset)
    ledger_output.print_one(accounts[0], history, as_json=as_json)


@app.command(epilog="Example:  reticent ledger charge clinic.ledger patients --event e.json --purpose survey")
def charge(
    where: Where,
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="Its name in the ledger.")],
    event: Annotated[Path, typer.Option(help="A JSON file: the event, as account --json shows it.")],
    purpose: Annotated[str, typer.Option(help="One line, for readers of the ledger.")],
    table: Annotated[
        str | None,
        typer.Option(help="The file the release is computed from, for its fingerprint.", show_default=False),
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(
            help="The unit that the event protects: record or user. Needed if the limit protects users.",
            show_default=False,
        ),
    ] = None,
    as_json: output.AsJson = False,
) -> None:
    """Charge a release that was made elsewhere.

    Reticent charges its own releases. The event says what is
    released, such as {"kind": "gaussian", "noise_multiplier": 20.0}; charge
    it before any noise is drawn.
    """
    from reticent.core.files import read_named
    from reticent.mechanisms import events

    try:
        read = events.read(read_named(event))
    except OSError as error:
        raise DataError(
            f"Cannot read {event}: {error.strerror}.", remedy="Give a JSON file with one event."
        ) from None
    with _open(where) as ledger:
        content = None if table is None else ledger.fingerprint(_content(table))
        account = ledger.account(dataset)
        budget = ledger.for_dataset(account.name, fingerprint=content, unit=_unit_of(unit))
        receipt = budget.charge(read, adjacency=account.limit.adjacency, purpose=purpose)
        if as_json:
            output.print_json({"dataset": account.name, "entry": receipt.sequence, "head": ledger.head.hash})
        else:
            output.print_line(f"Charged to {account.name}: {ledger_output.describe(events.to_json(read))}.")
            output.print_text(f"Together: {budget.guarantee()}")


def _unit_of(word: str | None) -> Unit | None:
    from reticent.core import checks

    if word is None:
        return None
    checks.one_of(get_args(Unit), unit=word)
    return cast("Unit", word)


@app.command(epilog="Example:  reticent ledger verify clinic.ledger")
def verify(
    where: Where,
    head: Annotated[
        str | None,
        typer.Option(help="A hash noted earlier, which the ledger must contain.", show_default=False),
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option(help="The owner's public key, as init printed it.", show_default=False),
    ] = None,
    as_json: output.AsJson = False,
) -> None:
    """Check that nothing in a ledger was changed or damaged.

    Every entry holds the hash of the one before, and what opens a budget is
    signed, if the ledger has an owner. That the last entries were cut off
    cannot be seen from inside: note the hash that is printed, keep it
    elsewhere, and pass it as --head the next time.
    """
    with _open(where) as ledger:
        found, rights = ledger.verify(head, owner=owner), ledger_output.rights_in_words(ledger)
    if as_json:
        said = {"id": found.id, "entries": found.entries, "head": found.head, "entries_since": found.since}
        output.print_json({**said, "owner": found.owner})
        return
    output.print_line(f"{ledger.address} is intact: {ledger_output.entries_in_words(found.entries)}.")
    if found.since is not None:
        since = ledger_output.entries_in_words(found.since)
        output.print_line(f"The noted head is in it, {since} before the last.")
    output.print_line(f"head {found.head}")
    output.print_line(rights)


@app.command(epilog="Example:  reticent ledger export clinic.ledger -o clinic.json")
def export(
    where: Where,
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
    with _open(where) as ledger:
        whole = ledger.export()
    if to is None:
        output.print_json(whole)
        return
    _write(to, whole)
    entries = len(whole["entries"])
    if as_json:
        output.print_json({"path": str(to), "entries": entries, "head": whole["head"]})
    else:
        output.print_line(f"{ledger_output.entries_in_words(entries)} of {ledger.address} written to {to}.")


def _open(where: str, owner_key: Path | None = None) -> Ledger:
    from reticent.ledger.ledger import Ledger

    key: OwnerKey | None = None
    if owner_key is not None:
        from reticent.ledger.owner import OwnerKey

        key = OwnerKey.read(owner_key)
    return Ledger.open(where, owner=key)


def _content(table: str) -> Any:
    """What a run on this table would take the fingerprint of."""
    from reticent.data import catalog

    if table in catalog.names() and not Path(table).exists():
        return catalog.load(table).train
    return Path(table)


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
