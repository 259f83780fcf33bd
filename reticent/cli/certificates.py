"""`reticent account --certify FILE` and `--check FILE`: an epsilon with its proof."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reticent.accounting.rounding import at_most
from reticent.cli import output
from reticent.core.errors import DataError, InvalidArgument
from reticent.core.files import read_named, write_whole

if TYPE_CHECKING:
    from reticent.accounting.guarantee import Guarantee

_MOST_BYTES = 1 << 24


def require_alone(is_alone: bool) -> None:
    """
    Raises:
        InvalidArgument: a certificate is to be checked and something else accounted for.
    """
    if not is_alone:
        raise InvalidArgument(
            "--check looks at the certificate alone, and other options were given.",
            remedy="Leave them out: reticent account --check FILE.",
        )


def require_package() -> None:
    """Says what to install before anything is computed."""
    from reticent.accounting.certificate.balls import load_flint

    load_flint()


def write(promise: Guarantee, path: Path) -> None:
    """Proves a bound and writes the certificate."""
    certificate = promise.certify()
    write_whole(path, certificate.write().encode("ascii"))
    if certificate.epsilon > promise.epsilon:
        output.warn(
            f"An epsilon of {at_most(certificate.epsilon, 6)} is proved, not {at_most(promise.epsilon, 6)}: "
            "the smaller one rests on theorems or digits that no certificate covers."
        )
    output.note(f"Saved {path}: it proves an epsilon of {certificate.epsilon!r}. See --check.")


def check(path: Path, *, as_json: bool) -> None:
    """Proves the claim of a certificate from its file alone."""
    from reticent.accounting.certificate import check as prove_again
    from reticent.accounting.certificate import read
    from reticent.mechanisms import events

    require_package()
    try:
        certificate = read(read_named(path, most=_MOST_BYTES))
    except OSError as error:
        raise DataError(
            f"Cannot read {path}: {error.strerror}.", remedy="Pass a file that --certify wrote."
        ) from None
    prove_again(certificate)
    if as_json:
        output.print_json({"proved": certificate.to_json()})
        return
    output.print_text(f"Proved: {certificate}, for every run whose releases are")
    output.print_json(events.to_json(certificate.event))
