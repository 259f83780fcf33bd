"""Strategies by name, for plans, command lines and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.noise.participation import Participation
from reticent.noise.strategies import Banded, Buffered, Dense, Independent, NoiseStrategy, Toeplitz, Tree


def independent() -> Independent:
    """Fresh noise in every step, as in DP-SGD.

    Example:
        >>> independent().in_words
        'independent noise'
    """
    return Independent()


def banded(*, bands: int, participation: Participation | None = None) -> Banded:
    """The square root of the prefix sum, cut to so many bands: the noise of a step takes back half of the
    last one's.

    With Poisson batches, records are divided into `bands` parts, of which each step draws from the next one.
    Then sampling amplifies privacy as it does for independent noise, which is the case of one band.

    Args:
        participation: what you expect of the batches; a plan refuses batches that break it.

    Reference:
        Choquette-Choo et al. (2023), arXiv:2306.08153v2; Kalinin and Lampert (2024), arXiv:2405.13763v2.

    Example:
        >>> banded(bands=4).column(10).tolist()
        [1.0, 0.5, 0.375, 0.3125]
    """
    return Banded(width=bands, participation=participation)


def toeplitz(*, bands: int | None = None, participation: Participation | None = None) -> Toeplitz:
    """Coefficients of least error, found when the plan is made. By default, bands fill the gap of a record.

    Example:
        >>> found = toeplitz(bands=4).settle(16, Participation.cyclic(16, parts=4))
        >>> round(found.error(16, Participation.cyclic(16, parts=4)).rmse, 3)
        3.875
    """
    return Toeplitz(width=bands, participation=participation)


def blt(*, buffers: int = 3, participation: Participation | None = None) -> Buffered:
    """Coefficients that are sums of decaying powers: a run of any length keeps `buffers` vectors.

    Example:
        >>> blt(buffers=2).memory(10_000)
        2
    """
    return Buffered(buffers=buffers, participation=participation)


def tree(*, restart: int | None = None, participation: Participation | None = None) -> Tree:
    """Binary trees, as the first DP-FTRL had them: a baseline.

    Args:
        restart: begin a new tree every so many steps.

    Example:
        >>> tree().memory(1600)
        11
    """
    return Tree(restart=restart, participation=participation)


def dense(*, bands: int | None = None, participation: Participation | None = None) -> Dense:
    """The matrix of least error for at most 512 steps: what others are measured against. It is not trained
    with.

    Example:
        >>> round(dense().error(16, Participation(times=1)).rmse, 3)
        1.689
    """
    return Dense(width=bands, participation=participation)


NAMES = ("independent", "banded", "toeplitz", "blt", "tree", "dense")


def by_name(name: str, *, bands: int | None = None, buffers: int | None = None) -> NoiseStrategy:
    """The strategy that a command line names.

    Raises:
        InvalidArgument: it is not known, or lacks its number, or has one that it does not take.

    Example:
        >>> by_name("banded", bands=8)
        Banded(width=8, participation=None)
    """
    checks.one_of(NAMES, noise=name)
    if bands is not None and name not in ("banded", "toeplitz", "dense"):
        raise InvalidArgument(
            f"'{name}' noise has no bands.", remedy="Leave out --bands, or pass --noise banded."
        )
    if buffers is not None and name != "blt":
        raise InvalidArgument(
            f"'{name}' noise has no buffers.", remedy="Leave out --buffers, or pass --noise blt."
        )
    if name == "banded":
        if bands is None:
            raise InvalidArgument(
                "Banded noise needs a number of bands.", remedy="Pass it, for example --bands 8."
            )
        return banded(bands=bands)
    if name == "blt":
        return blt() if buffers is None else blt(buffers=buffers)
    plain: dict[str, NoiseStrategy] = {
        "independent": independent(),
        "toeplitz": toeplitz(bands=bands),
        "tree": tree(),
        "dense": dense(bands=bands),
    }
    return plain[name]


_KINDS = {kind.name: kind for kind in (Independent, Banded, Toeplitz, Buffered, Tree, Dense)}


def to_json(strategy: NoiseStrategy) -> dict[str, Any]:
    """Plain JSON values, from which `from_json` makes an equal strategy."""
    return {"kind": strategy.name, **asdict(strategy)}  # type: ignore[call-overload]


def from_json(value: Any) -> NoiseStrategy:
    """The strategy that `to_json` wrote.

    Raises:
        InvalidArgument: it is not the JSON of a strategy; the message says why.
    """
    given = dict(value) if isinstance(value, Mapping) else {}
    kind = given.pop("kind", None)
    checks.one_of(_KINDS, noise=kind)
    known = {item.name for item in fields(_KINDS[kind])}
    if unknown := sorted(set(given) - known):
        raise InvalidArgument(
            f"The JSON of a strategy has no field '{unknown[0]}'.", remedy="Write it with rt.noise.to_json."
        )
    try:
        for name in ("coefficients", "scales", "decays"):
            if name in given:
                given[name] = tuple(float(each) for each in _list(given[name]))
        if given.get("participation") is not None:
            given["participation"] = Participation(**given["participation"])
        return _KINDS[kind](**given)
    except (TypeError, ValueError, IndexError):
        raise InvalidArgument(
            "The JSON of a strategy is not complete.", remedy="Write it with rt.noise.to_json."
        ) from None


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise TypeError
    return list(value)
