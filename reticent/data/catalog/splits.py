"""What loading a named dataset gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # the command line lists datasets without ever importing an array
    from reticent.data.dataset import Dataset
    from reticent.data.domain import Domain


class Splits(NamedTuple):
    """The parts of a dataset as its authors divided it, and what is public about its columns.

    Args:
        test: None where the authors made no test part.
        domain: None where there are no columns to speak of, as in images and text.
        validation: None where they made no validation part.
    """

    train: Dataset
    test: Dataset | None = None
    domain: Domain | None = None
    validation: Dataset | None = None
