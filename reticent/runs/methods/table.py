"""The ways to train privately: one row per method. Generators have such a table in `synthetic.pricing`."""

from __future__ import annotations

from reticent.accounting.reserve import TRAINING
from reticent.core.errors import IntegrityError, InvalidArgument
from reticent.runs.method import Method, Recipe, Terms
from reticent.runs.methods import additive, convex, descent, federated, least_squares, pate, prototype
from reticent.runs.record import RecipeRecord

METHODS: dict[str, Method] = {
    "sgd": Method(
        description="DP-SGD: random batches, clipped gradients, noise",
        price=descent.stochastic,
        read=descent.read,
        has_shadows=True,
        is_shared=True,
        is_for_users=True,
        sampler_share=TRAINING,
    ),
    "gd": Method(
        description="DP-GD: everybody in every step",
        price=descent.full,
        read=descent.read,
        has_shadows=True,
        is_shared=True,
        is_for_users=True,
        sampler_share=TRAINING,
    ),
    "prototype": prototype.method(),
    "least_squares": least_squares.method(),
    "output": convex.method("output", "output perturbation: minimise, then noise on the weights"),
    "objective": convex.method("objective", "objective perturbation: noise on what is minimised"),
    "exponential": convex.method("exponential", "exponential mechanism: weights drawn by their loss"),
    "descent": convex.method("descent", "projected DP-GD, with the settings of the convex theory"),
    "additive": additive.method(),
    "pate": pate.method(),
    "federated": federated.method(),
}


def choose(name: str) -> str:
    """The method of this name; `auto` is sgd, which needs less noise for as much learning."""
    return "sgd" if name == "auto" else name


def price(name: str, terms: Terms) -> Recipe:
    """
    Raises:
        InvalidArgument: the method is for classes, and the target is declared to be a number.
    """
    chosen = METHODS[choose(name)]
    if chosen.needs_classes and terms.target == "number":
        raise InvalidArgument(
            f"The method '{name}' is for classes, and this target is a number.",
            remedy="Choose a target with classes, or another --method.",
        )
    if terms.rows_per_user is not None and not chosen.is_for_users:
        able = [known for known, method in METHODS.items() if method.is_for_users and known != "federated"]
        raise InvalidArgument(
            f"The method '{name}' is not proved for users with {terms.rows_per_user} rows each, but for one.",
            remedy=f"Leave out --method {name}, or choose one of {', '.join(able)}; or pass "
            "--rows-per-user 1, which trains on the first row of each user.",
        )
    return chosen.price(terms)


def shared() -> list[str]:
    """The methods that several processes can follow together."""
    return [name for name, method in METHODS.items() if method.is_shared]


def method_of(recipe: RecipeRecord) -> Method:
    """The method that wrote a recipe.

    Raises:
        IntegrityError: no method of this version did.
    """
    if recipe.method not in METHODS:
        raise _unknown()
    return METHODS[recipe.method]


def read(recipe: RecipeRecord) -> Recipe:
    """The recipe of a run that was started.

    Raises:
        IntegrityError: no method wrote this.
    """
    try:
        return method_of(recipe).read(recipe.settings)
    except (KeyError, TypeError, ValueError):
        raise _unknown() from None


def _unknown() -> IntegrityError:
    return IntegrityError(
        "The recipe of this run is not one that this version can follow.",
        remedy="Restore run.json from a copy, or start a new run in another folder.",
    )
