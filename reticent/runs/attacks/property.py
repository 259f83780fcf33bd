"""Property inference on a run: is the share of some rows in its training set above the usual?

Shadow models are trained as the run was, with the same noise and on as many rows. Their rows come from the
held-out ones, which are fewer, so each of those is repeated in a training set. Models of one half of the
held-out rows teach the attack, and models of the other half measure it. Then the run itself is attacked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from reticent.attacks.inference.property import PropertyReport, infer_property
from reticent.attacks.scores import FEWEST
from reticent.attacks.shadows.recipes import PlainRecipe, ShadowRecipe
from reticent.core import checks
from reticent.core.errors import DataError, InvalidArgument, suggest
from reticent.core.observer import NOBODY, Observer
from reticent.data.domain import Category, Domain, Label
from reticent.data.encoding import feature_names, has_target
from reticent.data.kinds import classes_of
from reticent.runs.arrays import Arrays
from reticent.runs.attacks.recipes import shadow_recipe
from reticent.runs.reopen import Again

_TEACHING, _JUDGING = 8, 4  # models for each shadow model that was asked for
_USED = 0.6  # of the rows that could be drawn, so that training sets differ
_MOST_BYTES = 2**28  # of the rows of models that are trained at once


@dataclass(frozen=True, kw_only=True)
class Property:
    """Rows whose column has one value, such as "sex = Female"."""

    column: str
    value: str

    @property
    def name(self) -> str:
        return f"{self.column} = {self.value}"

    @classmethod
    def parse(cls, words: str, again: Again) -> Property:
        """Parses a property that the rows of a run can have.

        Raises:
            InvalidArgument: it does not read COLUMN = VALUE.
            DataError: the run has no such column or value, or no columns at all.
        """
        domain = again.domain
        if domain is None:
            raise DataError(
                "A property is about a column, and this run was trained on arrays without names.",
                remedy="Attack a run on a table, or use `infer_property` of reticent.attacks in Python.",
            )
        column, sign, value = (part.strip() for part in words.partition("="))
        if not (sign and column and value):
            raise InvalidArgument(
                f"'{words}' is not a property.",
                remedy='Pass COLUMN = VALUE, such as --property "sex = Female".',
            )
        values = _values(domain, column)
        if not values:
            raise DataError(
                f"'{column}' is not a category that this run was trained on.",
                remedy=suggest(column, [name for name in domain.columns if _values(domain, name)]),
            )
        if value not in values:
            raise DataError(f"'{column}' has no value '{value}'.", remedy=suggest(value, values))
        return cls(column=column, value=value)

    def holds(self, again: Again, rows: Arrays) -> np.ndarray:
        """Says for each row whether it has the property: (rows,)."""
        domain = again.domain
        assert domain is not None
        if self.column == domain.target:
            return rows["y"] == again.problem.classes.index(self.value)
        return rows["x"][:, feature_names(domain).index(self.name)] > 0


def _values(domain: Domain, column: str) -> tuple[str, ...]:
    """The values of a categorical column; none if it holds numbers, or nothing that a model sees."""
    kind = domain.columns.get(column)
    if isinstance(kind, Label):
        return classes_of(kind) if column == domain.target else ()
    if not isinstance(kind, Category):
        return ()
    start = f"{column} = "
    return tuple(name[len(start) :] for name in feature_names(domain) if name.startswith(start))


@dataclass(frozen=True, kw_only=True)
class RunProperty:
    """How often the property of unseen models was inferred, and what was inferred about this run.

    Args:
        usual: the share among held-out rows.
        share: the share among the run's own rows: the truth.
        probability: that the run was trained with the higher of the two shares, according to the attack.
        rows: how many different rows each shadow model saw.
    """

    report: PropertyReport
    usual: float
    share: float
    probability: float
    rows: int

    def to_json(self) -> dict[str, Any]:
        return {
            **self.report.to_json(),
            "usual_share": self.usual,
            "different_rows": self.rows,
            "this_run": {"share": self.share, "probability_of_high": self.probability},
        }

    @property
    def in_words(self) -> list[str]:
        found, right = self.report, self.report.accuracy
        if max(right.low, found.auc.low) > 0.5:
            verdict = "The parameters give the property away."
        else:
            verdict = "That is no better than chance."
        return [
            f"{found.held_out} unseen models were trained on sets of which {found.low:.1%} or "
            f"{found.high:.1%} of the rows have '{found.name}'. The attack told the two apart "
            f"{right.value:.1%} of the time ({right.low:.1%} to {right.high:.1%}); guessing gives 50%. "
            f"{verdict}",
            f"For this run it gives a probability of {self.probability:.0%} to {found.high:.1%} rather than "
            f"{found.low:.1%}; the true share is {self.share:.1%}.",
            "A guarantee for records does not hide a property of all of them, and is not meant to.",
        ]


def infer_run_property(
    again: Again,
    wanted: Property,
    *,
    share: float | None = None,
    shadows: int = 16,
    minutes: float | None = None,
    observer: Observer = NOBODY,
) -> RunProperty:
    """Tells training sets with the usual share of a property from sets with another share.

    Args:
        share: the other share; half way from the usual one to 1 unless given.
        shadows: eight times as many models teach the attack, and four times as many measure it.
        minutes: stop training models after this time.

    Raises:
        DataError: too few held-out rows have the property, or lack it.
        InvalidArgument: a share outside 0 to 1, equal shares, or no shadow models.
    """
    if shadows < 1:
        raise InvalidArgument(
            "Property inference needs shadow models.", remedy="Pass --shadows 16, or another number."
        )
    known = has_target(again.held_out["y"])
    data = {key: values[known] for key, values in again.held_out.items()}
    in_group = wanted.holds(again, data)
    usual = float(in_group.mean()) if len(in_group) else 0.0
    other = (1 + usual) / 2 if share is None else share
    checks.probability(share=other)
    low, high = min(usual, other), max(usual, other)
    size = _set_size(wanted, in_group, low, high)
    rows = len(again.train_on["y"])
    recipe, is_traceable = shadow_recipe(again)
    repeat_rows = _repeat_rows if is_traceable else _repeat_rows_in_numpy
    with observer.watch("models with and without the property") as on_progress:
        report = infer_property(
            repeat_rows(recipe, size, rows),
            data,
            in_group,
            set_size=size,
            shares=(low, high),
            models=max(_TEACHING * shadows, 2 * FEWEST),
            held_out=max(_JUDGING * shadows, 2 * FEWEST),
            name=wanted.name,
            chunk=int(np.clip(_MOST_BYTES // (rows * data["x"][0].nbytes), 1, 16)),
            is_traceable=is_traceable,
            minutes=minutes,
            on_progress=on_progress,
        )
    return RunProperty(
        report=report,
        usual=usual,
        share=float(wanted.holds(again, again.train_on).mean()),
        probability=report.guess(again.params),
        rows=size,
    )


def _set_size(wanted: Property, in_group: np.ndarray, low: float, high: float) -> int:
    """Chooses the number of different rows of a training set: half of the rows must allow both shares."""
    inside, outside = int(in_group.sum()), int((~in_group).sum())
    if high - low < 0.01:
        raise InvalidArgument(
            f"Shares of {low:.1%} and {high:.1%} are too close.",
            remedy="Choose a --share further from the usual one.",
        )
    # With so many of each kind in a half, no random half has too few.
    size = int(_USED * min(inside / 2 / high, outside / 2 / max(1 - low, 1e-9)))
    if min(inside, outside) < 2 * FEWEST or size < 2 * FEWEST:
        raise DataError(
            f"{inside} of {len(in_group)} held-out rows have '{wanted.name}': too few to make training sets "
            f"with shares of {low:.1%} and {high:.1%}.",
            remedy="Choose another property or a milder --share, or a run with more rows held out.",
        )
    return size


def _repeat_rows(recipe: ShadowRecipe, size: int, rows: int) -> ShadowRecipe:
    """Follows the recipe on as many rows as the run had, by repeating those of the mask."""

    def train_on_repeated(key: jax.Array, x: jax.Array, y: jax.Array, mask: jax.Array) -> Any:
        chosen = jnp.flatnonzero(mask, size=size)[jnp.arange(rows) % size]
        return recipe(key, x[chosen], y[chosen], jnp.ones(rows, bool))

    return train_on_repeated


def _repeat_rows_in_numpy(recipe: PlainRecipe, size: int, rows: int) -> PlainRecipe:
    def train_on_repeated(key: jax.Array, x: np.ndarray, y: np.ndarray, mask: np.ndarray) -> Any:
        chosen = np.flatnonzero(mask)[np.arange(rows) % size]
        return recipe(key, x[chosen], y[chosen], np.ones(rows, bool))

    return train_on_repeated
