"""Extraction: how much a language model prefers a planted secret to all others of its kind.

A canary is a text with a secret in it, such as "the code is 4071", planted into the training data. If the
model learned it, it finds the true code likelier than other codes. Exposure says by how much, in bits:

    exposure = log2(number of possible secrets) - log2(rank of the planted one)

Nothing learned gives log2(e), about 1.4 bits, on average over canaries drawn at random. As many bits as the
space has mean that the secret can be extracted from the model. Small spaces are enumerated, and the number is
exact. Of large ones a sample is scored, which gives a bound without assumptions, and an estimate beyond the
sample from a skew normal that is fitted to it.

Reference:
    Carlini, Liu, Erlingsson, Kos and Song (2019), The secret sharer, arXiv:1802.08232.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal

import numpy as np
from jaxtyping import Num
from scipy.stats import beta, kstest, skewnorm

from reticent.core import checks
from reticent.core.errors import DataError, InvalidArgument, ReticentError

TextLoss = Callable[[Sequence[str]], Any]  # from texts to the loss of each: lower is likelier

_AT_ONCE = 4096
_MOST_SKEWNESS = 0.99  # of a skew normal


@dataclass(frozen=True, kw_only=True)
class Canary:
    """A text with a slot, and the secret that was planted there.

    Args:
        template: with `{}` where the secret goes.
        alphabet: the symbols of a secret, each as likely as any other.

    Example:
        >>> canary = Canary(template="the code is {}", secret="4071", alphabet="0123456789")
        >>> canary.text, canary.space
        ('the code is 4071', 10000)
    """

    template: str
    secret: str
    alphabet: str

    def __post_init__(self) -> None:
        if self.template.count("{}") != 1:
            raise InvalidArgument(
                f"The template '{self.template}' has {self.template.count('{}')} slots.",
                remedy="Write {} once, where the secret goes.",
            )
        if not self.secret or not set(self.secret) <= set(self.alphabet) or len(set(self.alphabet)) < 2:
            raise InvalidArgument(
                f"The secret '{self.secret}' is not made of the {len(set(self.alphabet))} symbols of its "
                "alphabet, or there are fewer than two.",
                remedy="Give all symbols that may occur.",
            )

    @classmethod
    def random(cls, template: str, alphabet: str, length: int, *, seed: int) -> Canary:
        """Makes a canary with a random secret: exposure is meaningful for these only."""
        checks.count(length=length)
        letters = np.random.default_rng(seed).choice(sorted(set(alphabet)), length)
        return cls(template=template, secret="".join(letters), alphabet=alphabet)

    @property
    def text(self) -> str:
        return self.with_secret(self.secret)

    @property
    def space(self) -> int:
        """How many secrets are possible."""
        return len(set(self.alphabet)) ** len(self.secret)

    def with_secret(self, secret: str) -> str:
        return self.template.replace("{}", secret)

    def every_text(self) -> list[str]:
        letters = sorted(set(self.alphabet))
        return [self.with_secret("".join(secret)) for secret in product(letters, repeat=len(self.secret))]

    def sampled_texts(self, count: int, *, seed: int) -> list[str]:
        """Texts with random secrets, drawn with replacement."""
        letters = np.random.default_rng(seed).choice(sorted(set(self.alphabet)), (count, len(self.secret)))
        return [self.with_secret("".join(secret)) for secret in letters]


@dataclass(frozen=True, kw_only=True)
class Exposure:
    """How exposed a canary is, in bits.

    Args:
        kind: `exact` by enumeration, else `estimate`.
        at_least: without any assumption, at the stated confidence; the bits themselves if they are exact.
        space_bits: the most there can be.
        fit: the p-value of a Kolmogorov-Smirnov test of the fitted curve, None if nothing was fitted. Small
            means that the estimate is not to be trusted, and `at_least` is what is known.
        losses: of the other secrets that were scored.
    """

    bits: float
    kind: Literal["exact", "estimate"]
    at_least: float
    space_bits: float
    scored: int
    confidence: float
    fit: float | None
    loss: float
    losses: np.ndarray = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        """Plain numbers and words."""
        return {name: value for name, value in vars(self).items() if name != "losses"}


def plant(texts: Sequence[str], canary: Canary, copies: int, *, seed: int = 0) -> list[str]:
    """Inserts copies of the canary at random places among the texts.

    Example:
        >>> canary = Canary(template="the code is {}", secret="4071", alphabet="0123456789")
        >>> plant(["a", "b"], canary, 1, seed=0)
        ['the code is 4071', 'a', 'b']
    """
    checks.count(minimum=0, copies=copies)
    planted = [*texts, *[canary.text] * copies]
    order = np.random.default_rng(seed).permutation(len(planted))
    return [planted[place] for place in order]


def measure_exposure(
    score: TextLoss,
    canary: Canary,
    *,
    enumerate_up_to: int = 20_000,
    samples: int = 4096,
    confidence: float = 0.95,
    seed: int = 0,
) -> Exposure:
    """Measures the exposure of a canary under any model that scores texts.

    Args:
        score: the loss of each text, such as its negative log-likelihood; lower is likelier.
        enumerate_up_to: larger spaces are sampled.

    Raises:
        DataError: the scores are not one finite number per text.

    Example:
        >>> canary = Canary(template="the code is {}", secret="1111", alphabet="01")
        >>> found = measure_exposure(lambda texts: [text.count("0") for text in texts], canary)
        >>> found.kind, found.bits
        ('exact', 4.0)
    """
    checks.count(minimum=100, samples=samples)
    checks.count(enumerate_up_to=enumerate_up_to)
    checks.inside_unit(confidence=confidence)
    (loss,) = _score_texts(score, [canary.text])
    if canary.space <= enumerate_up_to:
        others = [text for text in canary.every_text() if text != canary.text]
        return exact_exposure(loss, _score_texts(score, others), confidence=confidence)
    sampled = _score_texts(score, canary.sampled_texts(samples, seed=seed))
    return estimated_exposure(loss, sampled, space=canary.space, confidence=confidence)


def exact_exposure(loss: float, others: Num[np.ndarray, " others"], *, confidence: float = 0.95) -> Exposure:
    """Computes exposure from the rank among all other secrets; ties rank before the planted one.

    Example:
        >>> exact_exposure(0.5, np.arange(1.0, 16.0)).bits
        4.0
    """
    rank = 1 + int(np.sum(others <= loss))
    space_bits = math.log2(len(others) + 1)
    bits = space_bits - math.log2(rank)
    return Exposure(
        bits=bits,
        kind="exact",
        at_least=bits,
        space_bits=space_bits,
        scored=len(others),
        confidence=confidence,
        fit=None,
        loss=float(loss),
        losses=others,
    )


def estimated_exposure(
    loss: float, sampled: Num[np.ndarray, " sampled"], *, space: int, confidence: float = 0.95
) -> Exposure:
    """Estimates exposure from the share of random secrets that are likelier, by a fitted skew normal.

    Guarantee:
        `at_least` is below the true exposure with the stated confidence, whatever the losses look like.

    Example:
        >>> found = estimated_exposure(-4.0, np.random.default_rng(0).normal(size=500), space=10**6)
        >>> found.kind, found.at_least < found.bits
        ('estimate', True)
    """
    space_bits = math.log2(space)
    below = int(np.sum(sampled <= loss))
    # The Clopper-Pearson bound from above on the share of likelier secrets.
    most = beta.isf(1 - confidence, below + 1, len(sampled) - below) if below < len(sampled) else 1.0
    if np.ptp(sampled) == 0:
        raise DataError(
            f"All {len(sampled)} random secrets have the same loss {sampled[0]:g}.",
            remedy="Score whole texts, with the secret in them.",
        )
    curve = _skew_normal(sampled)
    tail = max(curve.logcdf(loss), -space_bits * math.log(2))
    return Exposure(
        bits=float(-tail / math.log(2)),
        kind="estimate",
        at_least=min(-math.log2(most), space_bits),
        space_bits=space_bits,
        scored=len(sampled),
        confidence=confidence,
        fit=float(kstest(sampled, curve.cdf, method="asymp").pvalue),
        loss=float(loss),
        losses=sampled,
    )


def _skew_normal(values: np.ndarray) -> Any:
    """The skew normal with the same mean, deviation and, as far as it can, skewness."""
    mean, deviation = values.mean(), values.std()
    skewness = float(np.mean(((values - mean) / deviation) ** 3))
    skewness = math.copysign(min(abs(skewness), _MOST_SKEWNESS), skewness)
    size = abs(skewness) ** (2 / 3)
    delta = math.copysign(math.sqrt(math.pi / 2 * size / (size + ((4 - math.pi) / 2) ** (2 / 3))), skewness)
    scale = deviation / math.sqrt(1 - 2 * delta**2 / math.pi)
    shape = delta / math.sqrt(1 - delta**2)
    return skewnorm(shape, loc=mean - scale * delta * math.sqrt(2 / math.pi), scale=scale)


def _score_texts(score: TextLoss, texts: Sequence[str]) -> np.ndarray:
    pieces = [texts[start : start + _AT_ONCE] for start in range(0, len(texts), _AT_ONCE)]
    try:
        losses = np.concatenate([np.asarray(score(piece), float).reshape(-1) for piece in pieces])
    except ReticentError:
        raise
    except Exception as error:
        raise DataError(
            f"The model failed to score {len(texts)} texts: {type(error).__name__}: {error}",
            remedy="Give a function from a list of texts to one loss each.",
        ) from error
    if len(losses) != len(texts) or not np.isfinite(losses).all():
        raise DataError(
            f"For {len(texts)} texts the model gave {len(losses)} losses, "
            f"{np.isfinite(losses).sum()} finite.",
            remedy="Return one finite loss per text: the sum of negative log-probabilities of its symbols.",
        )
    return losses
