"""What somebody asks for when they want a model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from reticent.core import checks
from reticent.core.errors import IntegrityError, InvalidArgument
from reticent.runs.learners import ModelName
from reticent.runs.methods.table import METHODS
from reticent.runs.record import RunRecord

Prepare = Literal["private", "public"]

HELD_OUT = "held-out"


@dataclass(frozen=True, kw_only=True)
class Request:
    """What somebody asks for: everything that decides a run besides the data.

    Args:
        source: a file, or the name of a dataset in the catalog.
        delta: None for a tenth of 1 / rows or less.
        prepare: `private` finds what the domain leaves open, at a tenth of the budget; `public` refuses.
        test: the share of rows that is held out and scored: the probability of each row's own coin.
        layout: how a text file is to be read, where it is not as detected.
        public: for PATE, a table of unlabelled rows that are nobody's secret, or `held-out`: nine tenths of
            the rows that are not trained on, their labels not looked at.
        teachers: for PATE, how many.
    """

    source: str
    epsilon: float
    target: str | None = None
    delta: float | None = None
    method: str = "auto"
    model: ModelName = "auto"
    domain: str | None = None
    prepare: Prepare = "private"
    test: float = 0.2
    ledger: str | None = None
    dataset: str | None = None
    layout: dict[str, Any] = field(default_factory=dict)
    public: str | None = None
    teachers: int | None = None

    def __post_init__(self) -> None:
        checks.positive(epsilon=self.epsilon)
        checks.one_of(("private", "public"), prepare=self.prepare)
        checks.one_of(("auto", *METHODS), method=self.method)
        checks.one_of(get_args(ModelName), model=self.model)
        if not (0 < self.test < 1):
            raise InvalidArgument(
                f"test={self.test:g} is no share of the rows.",
                remedy="Pass one between 0 and 1, such as 0.2.",
            )
        if (self.ledger is None) != (self.dataset is None):
            raise InvalidArgument(
                "A ledger and the name of the dataset in it go together.",
                remedy="Pass both --ledger and --dataset.",
            )
        if (self.method == "pate") != (self.public is not None):
            raise InvalidArgument(
                "PATE's student learns from public rows, and no other method has a use for them.",
                remedy="Pass --method pate and --public TABLE together; --public held-out for an experiment.",
            )
        if self.teachers is not None:
            checks.count(minimum=2, teachers=self.teachers)
        require_protecting(self.epsilon)


def require_protecting(epsilon: float) -> None:
    if not (epsilon <= 1000):
        raise InvalidArgument(
            f"epsilon={epsilon:g} protects nobody: odds may change by a factor e^{epsilon:g}.",
            remedy="Choose one of about 1, or do without privacy and say so.",
        )


def request_of(record: RunRecord) -> Request:
    """The request that a record keeps.

    Raises:
        IntegrityError: it is not a request for a model of this version.
    """
    try:
        return Request(**record.request.to_json())
    except (TypeError, ValueError, AttributeError):
        raise IntegrityError(
            "The request in run.json is not one that this version can follow.",
            remedy="Restore run.json from a copy.",
        ) from None
