"""What a federated run was: its rounds, who takes part and who may see what, and what was measured on it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from reticent.accounting.rounding import at_most
from reticent.core.errors import ReticentError
from reticent.report.facts.facts import (
    Bars,
    Chart,
    Line,
    RowsTable,
    Section,
    bound_from_above,
    estimate,
    setting,
)
from reticent.runs.federated_tables import MeasuredTable, read_tables
from reticent.runs.methods import table
from reticent.runs.methods.federated import FederatedRecipe
from reticent.runs.record import RunRecord

_POINTS = 12  # of the curve of epsilon
_MOST_BARS = 12
_TITLES = {
    "poisoning": "When clients lie",
    "inference": "What updates tell about a client",
}
_WHO = RowsTable(
    title="Who may see what",
    headings=("who", "sees", "so"),
    rows=(
        ("anyone who gets the model", "sums with noise", "the guarantee holds against them"),
        ("the server", "each update, and who was in a round", "it is trusted: it adds the noise"),
        ("a client", "the models of its rounds, its own rows", "other clients are protected against it"),
        ("a client that lies", "the same", "its update is clipped; it is not kept from lying"),
    ),
)


def federated_sections(folder: Path, record: RunRecord) -> list[Section]:
    """Sections about a run of the method 'federated'; none for others."""
    if record.recipe.method != "federated":
        return []
    try:
        recipe = table.read(record.recipe)
    except ReticentError:
        return []
    if not isinstance(recipe, FederatedRecipe):
        return []
    return [_rounds(recipe, record), *_measured_sections(read_tables(folder))]


def _rounds(recipe: FederatedRecipe, record: RunRecord) -> Section:
    plan, promise = recipe.plan, record.result.guarantee
    rate, rounds = plan.sampler.batch_size / plan.sampler.examples, plan.steps
    values = (
        setting("rounds", rounds),
        setting("users declared", plan.sampler.examples, note="public"),
        setting("clients per round", plan.sampler.batch_size, note="expected; the divisor of every sum"),
        setting("rows used of a user, at most", plan.rows_per_user or 1),
        setting("local steps of a client, at most", recipe.local.steps_for(plan.rows_per_user or 1)),
        bound_from_above(
            "epsilon per user", promise.epsilon, note=f"at delta {promise.delta:g}, all rounds together"
        ),
        estimate("rounds of one user, expected", rounds * rate, note="by coins that nobody else sees"),
    )
    return Section(
        id="federated",
        title="Rounds, and who takes part",
        text=(
            "Users were clients in a simulation: in a round, some of them trained on their own rows, and the "
            "sum of their clipped updates got noise. The guarantee is for a user with all rows used.",
            f"A user is in a round with probability {rate:.3g}, by a coin of its own. In a deployment, "
            "only a server that tosses such coins, and keeps the results secret, may claim this epsilon.",
        ),
        values=values,
        charts=(_spending(recipe), _turns(rate, rounds)),
        tables=(_WHO,),
    )


def _spending(recipe: FederatedRecipe) -> Chart:
    rounds = recipe.plan.steps
    at = sorted({max(1, round(share)) for share in np.linspace(1, rounds, _POINTS)})
    spent = tuple(recipe.plan.epsilon_after(each) for each in at)
    return Chart(
        id="rounds",
        title="Epsilon per user over the rounds",
        description=f"A bound: {at_most(spent[0])} after {at[0]} and {at_most(spent[-1])} after "
        f"{at[-1]} rounds, without what preparation cost.",
        x_label="rounds",
        y_label="epsilon (bound)",
        lines=(Line(name="epsilon", x=tuple(map(float, at)), y=spent),),
    )


def _turns(rate: float, rounds: int) -> Bars:
    """How many rounds a user is in: the law of its coins, and nothing that was seen."""
    from scipy.stats import binom

    low, high = (int(binom.ppf(share, rounds, rate)) for share in (1e-3, 1 - 1e-3))
    width = max(1, math.ceil((high - low + 1) / _MOST_BARS))
    starts = list(range(low, high + 1, width))
    shares = [
        float(binom.cdf(start + width - 1, rounds, rate) - binom.cdf(start - 1, rounds, rate))
        for start in starts
    ]
    names = [str(start) if width == 1 else f"{start} to {start + width - 1}" for start in starts]
    most = names[int(np.argmax(shares))]
    return Bars(
        id="turns",
        title="In how many rounds a user is, by its coins",
        description=f"Most often {most} of {rounds}. This is the law of the coins; no user was counted.",
        unit="share of users (expected)",
        names=tuple(names),
        amounts=tuple(shares),
    )


def _measured_sections(tables: tuple[MeasuredTable, ...]) -> list[Section]:
    """What was measured on private rows, and lies in the private part of the folder."""
    sections = []
    for kind, title in _TITLES.items():
        own = [each for each in tables if each.kind == kind]
        if own:
            shown = tuple(RowsTable(title=each.title, headings=each.headings, rows=each.rows) for each in own)
            texts = tuple(each.text for each in own)
            sections.append(
                Section(id=kind, title=title, text=(*texts, "Estimates, unreleased."), tables=shown)
            )
    return sections
