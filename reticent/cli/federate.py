"""`reticent federate`: a private model over the users of a table, each with its own rows."""

from __future__ import annotations

from typing import Annotated

import typer

from reticent.cli import options, output, train
from reticent.cli.dry_run import print_dry_run
from reticent.core.errors import InvalidArgument

EPILOG = (
    "Example:  reticent federate visits.csv --users patient --rows-per-user 20 --target readmitted "
    "--epsilon 4 --rounds 100 -o runs/visits"
)

Users = Annotated[
    str | None, typer.Option("--users", help="The column that names each row's user.", show_default=False)
]
RowsOfEach = Annotated[
    int, typer.Option("--rows-per-user", help="The most rows of one user to use: the first ones.")
]
Rounds = Annotated[int, typer.Option(help="The number of rounds.")]
PerRound = Annotated[
    int | None,
    typer.Option(
        "--clients-per-round",
        help="The expected number of clients per round.",
        show_default="a tenth, at least 32",
    ),
]
LocalEpochs = Annotated[int, typer.Option(help="Passes of a client over its rows per round.")]
LocalBatch = Annotated[int, typer.Option(help="Rows per step of a client.")]
LocalRate = Annotated[
    float | None, typer.Option(help="The learning rate of a client.", show_default="by the model")
]
MaxNorm = Annotated[
    float | None, typer.Option(help="The clipping norm of a client's update.", show_default="by the model")
]
Clients = Annotated[
    int | None,
    typer.Option(
        "--clients", help="Divide a named dataset among this many made-up clients.", show_default=False
    ),
]
Dirichlet = Annotated[
    float | None,
    typer.Option(
        "--dirichlet", help="How evenly their classes are divided; 0.1 is very uneven.", show_default="0.5"
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what it would cost; charge nothing, write nothing.")
]

# Options that are fields of a request as they are typed, and those about rounds.
_AS_TYPED = (
    *("source", "target", "epsilon", "delta", "model", "prepare", "task", "test", "dataset"),
    "rows_per_user",
)
_OF_ROUNDS = (
    *("rounds", "clients_per_round", "local_epochs", "local_rate", "local_batch", "max_norm"),
    *("clients", "dirichlet"),
)
_MADE_UP = "client"  # what the column is called that made-up clients would be named in


def run(
    context: typer.Context,
    source: train.TrainSource = None,
    users: Users = None,
    clients: Clients = None,
    dirichlet: Dirichlet = None,
    rows_per_user: RowsOfEach = 50,
    target: options.Target = None,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    write: options.NewFolder = None,
    rounds: Rounds = 100,
    clients_per_round: PerRound = None,
    local_epochs: LocalEpochs = 1,
    local_batch: LocalBatch = 20,
    local_rate: LocalRate = None,
    max_norm: MaxNorm = None,
    model: options.Model = "auto",
    domain: options.DomainFile = None,
    prepare: options.Prepare = "private",
    task: options.Task = "auto",
    classes: options.Classes = None,
    bounds: options.Bounds = None,
    ignore: options.Ignore = None,
    missing: options.Missing = None,
    test: options.HeldOut = 0.2,
    ledger: options.LedgerFile = None,
    dataset: options.DatasetName = None,
    resume: options.Resume = None,
    data: options.MovedData = None,
    written: options.Format = None,
    delimiter: options.Delimiter = None,
    header: options.Header = None,
    encoding: options.Encoding = None,
    query: options.Query = None,
    sheet: options.TableName = None,
    dry_run: DryRun = False,
    as_json: output.AsJson = False,
) -> None:
    """Train over users as clients, each with its own rows, privately.

    In a round some users train on their own rows; their updates are clipped,
    added up and noised. The guarantee is for a user with all rows that are
    used. It is a simulation: whoever runs this has all rows, as the server of
    a real deployment would have all updates.
    """
    if resume is not None:
        train.refuse_beside_resume(context)
    else:
        _require_clients(users, clients)
    given = context.params
    asked = {name: given[name] for name in _OF_ROUNDS if given[name] is not None}
    wanted = {
        **{name: given[name] for name in _AS_TYPED},
        "method": "federated",
        "domain": str(domain) if domain else None,
        "classes": options.classes_of(classes),
        "bounds": options.bounds_of(bounds),
        "ignore": options.names_of(ignore),
        "missing": tuple(missing or ()),
        "ledger": ledger or None,
        "layout": train.layout_of(written, delimiter, header, encoding, query, sheet),
        "user": users if clients is None else _MADE_UP,
        "federated": asked,
    }
    if dry_run:
        print_dry_run(wanted, as_json=as_json)
        return
    done = train.trained(resume, write, **wanted, data=data)
    train.show(done, as_json=as_json)


def _require_clients(users: str | None, clients: int | None) -> None:
    """
    Raises:
        InvalidArgument: nothing says who the clients are, or two things do.
    """
    if users is None and clients is None:
        raise InvalidArgument(
            "Federated learning needs the column that names each row's user.",
            remedy="Pass it: reticent federate TABLE --users COLUMN --target COLUMN --epsilon 4 -o FOLDER. "
            "For a named dataset, make clients up: --clients 100 --dirichlet 0.5.",
        )
    if users is not None and clients is not None:
        raise InvalidArgument(
            "Clients are either the users of a column, or made up.",
            remedy="Pass --users COLUMN or --clients 100, not both.",
        )
