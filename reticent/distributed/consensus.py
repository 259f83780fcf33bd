"""Agreement between processes: one pays for all, and all stop if one fails.

Every function here is called by every process, in the same order.
"""

from __future__ import annotations

import hashlib
import platform
import secrets
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import jax
import numpy as np

from reticent import __version__
from reticent.core import errors
from reticent.core.errors import InvalidArgument, ReticentError
from reticent.core.keys import Keys
from reticent.core.trees import ArrayTree
from reticent.distributed import collectives

Result = TypeVar("Result")

NETWORK = (
    "the network between the processes of this run is private: the secret of the noise crossed it, and "
    "sums without noise cross it in every step"
)


def by_first(action: Callable[[], Result]) -> Result | None:
    """Runs an action in the first process; None for the others. Its error is raised in all of them."""
    return _together(action if collectives.is_first() else lambda: None)


def by_all(action: Callable[[], Result]) -> Result:
    """Runs an action in every process; if one fails, all raise: their own error, or the first one."""
    return _together(action)


def _together(action: Callable[[], Result]) -> Result:
    if collectives.count() == 1:
        return action()
    own: ReticentError | None = None
    result: Any = None
    try:
        result = action()
    except ReticentError as error:
        own = error
    said = None if own is None else (type(own).__name__, own.happened, own.remedy)
    for process, failure in enumerate(collectives.gather_json(said)):
        if own is not None:
            raise own
        if failure is not None:
            kind, happened, remedy = failure
            raise getattr(errors, kind)(f"Process {process} stopped: {happened}", remedy=remedy)
    return result


def require_alone(what: str) -> None:
    """Refuses several processes: each would draw noise of its own, and release it.

    Raises:
        InvalidArgument: there are several processes; nothing was charged or drawn.
    """
    if collectives.count() > 1:
        raise InvalidArgument(
            f"{what} draws its noise in one process, and {collectives.count()} processes are joined here.",
            remedy="Run it in a single process.",
        )


def require_same(facts: Mapping[str, str]) -> None:
    """
    Raises:
        InvalidArgument: on every process, if they differ in one of the facts; the message says in which.
    """
    # Versions first and in a shape of their own: another version may know other facts.
    versions = {"version of reticent": __version__, "version of JAX": jax.__version__}
    for known in (versions | {"version of Python": platform.python_version()}, facts):
        everyones = collectives.gather_json(dict(known))
        for name in dict.fromkeys((*known, *(name for theirs in everyones for name in theirs))):
            values = [theirs.get(name, "nothing") for theirs in everyones]
            other = next((process for process, value in enumerate(values) if value != values[0]), None)
            if other is not None:
                raise InvalidArgument(
                    f"Process {other} has a different {name} from process 0: "
                    f"{_short(values[other])} and {_short(values[0])}.",
                    remedy="Start all processes with the same code, request and data.",
                )


def _short(value: str) -> str:
    return value if len(value) <= 60 else f"one with digest {hashlib.sha256(value.encode()).hexdigest()[:12]}"


def shared_keys(keys: Keys | None) -> Keys:
    """One secret for all processes: that of the first, or the one that each was given.

    Raises:
        InvalidArgument: the processes were given different ones.
    """
    if collectives.count() == 1:
        return Keys.from_os() if keys is None else keys
    given = collectives.gather_json(None if keys is None else keys.fingerprint())
    if len(set(given)) > 1:
        raise InvalidArgument(
            "The processes were given different keys.", remedy="Give each process the same seed, or none."
        )
    if keys is not None:
        return keys
    secret = collectives.broadcast_json(secrets.token_hex(32) if collectives.is_first() else None)
    return Keys(bytes.fromhex(secret), is_seeded=False)


def network() -> tuple[str, ...]:
    """What a guarantee assumes about the network between several processes."""
    return (NETWORK,) if collectives.count() > 1 else ()


def broadcast_tree(tree: ArrayTree) -> Any:
    """The arrays of the first process, on all of them; the shapes must agree."""
    if collectives.count() == 1:
        return tree
    from jax.experimental import multihost_utils

    with collectives.watch_peers():
        return multihost_utils.broadcast_one_to_all(jax.tree.map(np.asarray, tree))
