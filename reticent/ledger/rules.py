"""What a limit may become, and on which terms a release is charged: the rules, without the file."""

from __future__ import annotations

import shlex

from reticent.accounting.filters import shares_for
from reticent.accounting.guarantee import Unit
from reticent.core import checks
from reticent.core.errors import BudgetExceeded, DataError, InvalidArgument
from reticent.ledger import cost, names
from reticent.ledger.accounts import MOST_ASSUMPTIONS, Account, Accounts, Limit
from reticent.ledger.chain import LONGEST_LINE, is_line
from reticent.ledger.owner import OwnerKey
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event


def new_limit(
    known: Account | None,
    *,
    epsilon: float,
    delta: float,
    adjacency: Adjacency | None,
    unit: Unit | None,
    adaptive: bool | None,
) -> Limit:
    """A limit in which everything that was not given is as it was."""
    checks.positive(epsilon=epsilon)
    checks.inside_unit(delta=delta)
    old = None if known is None else known.limit
    if adjacency is None:
        adjacency = Adjacency.ADD_OR_REMOVE if old is None else old.adjacency
    if unit is None:
        unit = "record" if old is None else old.unit
    if adaptive is None:
        adaptive = old is not None and old.adaptive
    checks.one_of([item.value for item in Adjacency], adjacency=adjacency)
    shares = shares_for(epsilon, delta) if adaptive else ()
    if adaptive and known is not None and known.charges and known.limit.adaptive:
        shares = known.limit.shares  # filters are safe because they were fixed before anything was seen
    return Limit(
        epsilon=float(epsilon), delta=float(delta), adjacency=Adjacency(adjacency), unit=unit, shares=shares
    )


def check_change(known: Account, limit: Limit) -> None:
    """Refuses a change that would make earlier charges mean something else, or pass the new limit."""
    if not known.charges:
        return
    for what, old, new in (
        ("adjacency", known.limit.adjacency.value, limit.adjacency.value),
        ("unit", known.limit.unit, limit.unit),
        ("kind", _kind(known.limit), _kind(limit)),
        (
            "delta of an adaptive limit",
            known.limit.delta,
            limit.delta if limit.adaptive else known.limit.delta,
        ),
    ):
        if old != new:
            raise InvalidArgument(
                f"The {what} of '{known.name}' is {old} and cannot become {new}: "
                f"{known.charges:,} charges were made under it.",
                remedy="Keep it, or enter the dataset under another name and add up both guarantees by hand.",
            )
    if not cost.is_within(known.event(), limit):
        spent = known.limit.epsilon if limit.adaptive else cost.guarantee(known).epsilon
        said = "may have spent up to" if limit.adaptive else f"has spent, at delta {known.limit.delta:g},"
        raise BudgetExceeded(
            f"'{known.name}' {said} epsilon {cost.round_up(spent):g}, "
            f"more than the new limit ({limit.epsilon:g}, {limit.delta:g}) holds.",
            remedy="Choose a higher limit: what was released cannot be taken back.",
        )


def _kind(limit: Limit) -> str:
    return "adaptive" if limit.adaptive else "planned"


def check_terms(account: Account, adjacency: Adjacency, unit: Unit | None) -> None:
    """Refuses a release whose cost is meant between other neighbours than the limit is."""
    if adjacency != account.limit.adjacency:
        raise InvalidArgument(
            f"The limit of '{account.name}' is for {account.limit.adjacency.value}, "
            f"and this release is accounted for under {Adjacency(adjacency).value}.",
            remedy=f"Make the plan with adjacency={account.limit.adjacency.name}, "
            "or enter the dataset with a limit of the other kind.",
        )
    if unit is None and account.limit.unit == "user":
        # One record's privacy is less than a user's: what says nothing may mean either.
        raise InvalidArgument(
            f"The limit of '{account.name}' protects a user, and this release does not say whom.",
            remedy="If it is accounted for by user, say so: reticent ledger charge ... --unit user, or in "
            "Python for_dataset(..., unit='user').",
        )
    if unit is not None and unit != account.limit.unit:
        raise InvalidArgument(
            f"The limit of '{account.name}' protects a {account.limit.unit}, and this release a {unit}.",
            remedy="Protect users: --user COLUMN --rows-per-user N, or in Python a plan with unit='user'."
            if account.limit.unit == "user"
            else "Protect records: leave out --user. Or give users a limit of their own, under another name: "
            "reticent ledger limit LEDGER NAME --unit user.",
        )


def is_first_fingerprint(accounts: Accounts, account: Account, fingerprint: str | None) -> bool:
    """Whether this charge is the first to say what the data are.

    Raises:
        DataError: they are not the data that were charged for before, or those of another dataset.
    """
    if fingerprint is None or account.fingerprint == fingerprint:
        if account.fingerprint is not None:
            _check_one_budget(accounts, account.name, account.fingerprint)
        return False
    check_content(accounts, account.name, fingerprint)
    if account.fingerprint is None:
        return True
    where, name = shlex.quote(str(accounts.where)), shlex.quote(account.name)
    raise DataError(
        f"These are not the data that '{account.name}' (version {account.version}) was charged for before.",
        remedy="If they are a new version about the same people, say so: "
        f"reticent ledger new-version {where} {name} TABLE --reason ... "
        "(in Python: ledger.new_version). If they are other people's, give them a name of their own: "
        f"reticent ledger limit {where} NAME --epsilon ... --delta ...",
    )


def check_content(accounts: Accounts, name: str, fingerprint: str) -> None:
    """Refuses to give the same rows a second budget.

    Raises:
        DataError: another dataset has the same content, or the key is another and nobody can tell.
    """
    known = next((mark for account in accounts.by_name.values() for mark in account.fingerprints), None)
    if known is not None and fingerprint.partition("-")[0] != known.partition("-")[0]:
        raise DataError(
            f"The fingerprint of '{name}' was made with another key than those in the ledger.",
            remedy="Put back the key file of this ledger: the person who charged it first has it.",
        )
    _check_one_budget(accounts, name, fingerprint)


def _check_one_budget(accounts: Accounts, name: str, fingerprint: str) -> None:
    other = accounts.with_content(fingerprint, besides=name)
    if other is None:
        return
    remedy = f"Charge '{other.name}' instead."
    if not accounts.by_name[name].charges:
        words = [str(accounts.where), name, "--same-rows-as", other.name]
        remedy = (
            f"Charge '{other.name}' instead, or make '{name}' another name of it: "
            f"reticent ledger alias {shlex.join(words)}"
        )
    raise DataError(
        f"These rows are in the ledger already, as '{other.name}': "
        f"under the name '{name}' the same people would have a second budget.",
        remedy=remedy,
    )


def check_new_name(accounts: Accounts, name: str) -> None:
    """Refuses a new name that a reader would take for an existing one.

    Raises:
        InvalidArgument: there is such a name; says in which character they differ.
    """
    other = names.find_look_alike(name, accounts.all_names)
    if other is not None:
        raise InvalidArgument(
            f"'{name}' looks like '{other}', which is in the ledger: it has {names.difference(name, other)}.",
            remedy=f"If '{other}' is meant, type it so; otherwise choose a name that nobody can mistake.",
        )


def check_alias(accounts: Accounts, name: str, other: Account) -> None:
    """Refuses another name that has a budget, or charges, of its own."""
    known = accounts.get(name)
    if name in accounts.aliases:
        raise InvalidArgument(
            f"'{name}' is another name of '{accounts.aliases[name]}' already.", remedy="Choose another name."
        )
    if name == other.name:
        raise InvalidArgument(
            f"'{name}' is the dataset itself, not another name of it.", remedy="Choose another name."
        )
    if known is not None and (known.charges or name in accounts.aliases.values()):
        what = f"{known.charges:,} charges of its own" if known.charges else "other names of its own"
        raise InvalidArgument(
            f"'{name}' has {what} and cannot become another name of '{other.name}'.",
            remedy="Keep both, and add up their guarantees by hand.",
        )


def budget_exceeded(account: Account, event: Event) -> BudgetExceeded:
    """A refusal that says what is spent, and what would still fit."""
    limit = account.limit
    if limit.adaptive:
        spent = f"{cost.share(account):.1%} of what its filters allow is spent"
    else:
        spent = f"epsilon {cost.round_up(cost.guarantee(account).epsilon):g} of it is spent"
    return BudgetExceeded(
        f"This release would take '{account.name}' past its limit of ({limit.epsilon:g}, {limit.delta:g}); "
        f"{spent}. Nothing was recorded.",
        remedy=cost.what_fits(account, event),
    )


def check_event(event: Event) -> None:
    if not isinstance(event, Event):
        raise InvalidArgument(
            f"What is charged is an event, not {type(event).__name__}.",
            remedy="Pass a plan's event, or one of reticent.mechanisms.events.",
        )


def check_text(longest: int, **texts: str) -> None:
    """A line that can be printed as it is."""
    for name, text in texts.items():
        if not is_line(text, longest):
            raise InvalidArgument(
                f"{name} must be one line of 1 to {longest} printable characters.",
                remedy=f"Pass another {name}.",
            )


def check_assumptions(assumptions: tuple[str, ...]) -> None:
    if len(assumptions) > MOST_ASSUMPTIONS:
        raise InvalidArgument(
            f"A release cannot make {len(assumptions)} assumptions.",
            remedy=f"State at most {MOST_ASSUMPTIONS}, one line each.",
        )
    for line in assumptions:
        check_text(LONGEST_LINE, assumption=line)


def require_owner(accounts: Accounts, key: OwnerKey | None) -> OwnerKey:
    """The owner's key, which a change of limits needs.

    Raises:
        InvalidArgument: no key was given, or another one.
    """
    if key is None:
        raise InvalidArgument(
            f"The ledger {accounts.where} has an owner, who alone may change limits, versions and names.",
            remedy="Pass the owner's key, --owner-key FILE, or ask the owner to do it.",
        )
    if key.public != accounts.owner:
        raise InvalidArgument(
            f"This key is not that of the owner of {accounts.where}, "
            f"whose public key is {str(accounts.owner)[:16]}...",
            remedy="Pass the key that the ledger was created with.",
        )
    return key
