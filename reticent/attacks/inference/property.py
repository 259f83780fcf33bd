"""Property inference: infers a property of the whole training set from the parameters of a model.

The attacker trains many small shadow models, half on sets that have the property and half on sets that do
not, and teaches a classifier to tell their parameters apart. A network computes the same when its neurons
are permuted, so the classifier sees numbers that do not change by that. Its accuracy is measured on models
that were trained on other records, and never on those it was taught with.

Differential privacy for records does not hide a property of all of them, and is not meant to.

Reference:
    Ateniese et al. (2015), arXiv:1306.4447; Ganju et al. (2018), Property inference attacks on fully
    connected neural networks using permutation invariant representations.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from reticent.attacks.metrics import Estimate, auc, clopper_pearson
from reticent.attacks.predictors import Records, check_records
from reticent.attacks.reconstruction.layer_order import in_layer_order
from reticent.attacks.scores import FEWEST, Scores
from reticent.attacks.shadows.recipes import PlainRecipe, ShadowRecipe
from reticent.core import checks
from reticent.core.errors import DataError, InvalidArgument
from reticent.core.trees import ArrayTree
from reticent.distributed import collectives
from reticent.distributed.spread import Spread

Summary = Callable[[Any], np.ndarray]  # from the parameters of one model to numbers

_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, kw_only=True)
class PropertyReport:
    """How often the property of an unseen model was inferred.

    Args:
        accuracy: on held-out models, half of which have the property: chance level is 0.5.
        low, high: the two shares of the group.
        is_high, probability: of each held-out model, the truth and the attack's answer.
    """

    name: str
    low: float
    high: float
    accuracy: Estimate
    auc: Estimate
    taught_on: int
    held_out: int
    is_high: np.ndarray = field(repr=False)
    probability: np.ndarray = field(repr=False)
    classifier: Any = field(repr=False)
    summary: Summary = field(repr=False)

    def guess(self, params: ArrayTree) -> float:
        """The probability that the training set of this model has the high share."""
        return float(self.classifier.predict_proba(self.summary(params)[None])[0, 1])

    def to_json(self) -> dict[str, Any]:
        """Plain numbers and words."""
        return {
            "property": self.name,
            "shares": [self.low, self.high],
            "accuracy": self.accuracy._asdict(),
            "auc": self.auc._asdict(),
            "taught_on": self.taught_on,
            "held_out": self.held_out,
        }


def infer_property(
    recipe: ShadowRecipe | PlainRecipe,
    data: Records,
    in_group: Any,
    *,
    set_size: int,
    shares: tuple[float, float] = (0.3, 0.7),
    models: int = 128,
    held_out: int = 64,
    name: str = "share of the group",
    summary: Summary | None = None,
    chunk: int = 16,
    is_traceable: bool = True,
    minutes: float | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    on_progress: Callable[[float], None] = lambda done: None,
) -> PropertyReport:
    """Tells training sets with a low share of a group from sets with a high one, by the model's parameters.

    Args:
        recipe: (key, x, y, mask) -> params, trains one model on the rows of the mask; see
            `reticent.attacks.shadows.recipes`.
        data: `x` and `y`, from which training sets are drawn. One half is the attacker's; held-out models
            are trained on the other.
        in_group: (records,) booleans.
        set_size: how many records each model is trained on.
        models: the attacker's, to learn from.
        summary: of the parameters of one model; `invariants` unless given.
        is_traceable: whether JAX can vectorise the recipe; if not, it is called with NumPy arrays for one
            model after the other.
        minutes: stop before a chunk of models that would end later.

    Raises:
        DataError, InvalidArgument: the shares cannot be drawn from these records, or there are too few.
    """
    low, high = _check_shares(shares)
    checks.count(set_size=set_size, chunk=chunk)
    checks.count(minimum=2 * FEWEST, models=models, held_out=held_out)
    if minutes is not None:
        checks.positive(minutes=minutes)
    x, y = check_records(data)
    group = np.asarray(in_group, bool)
    if group.shape != (len(y),):
        raise DataError(
            f"The group has shape {group.shape}, for {len(y)} records.",
            remedy="Give one boolean per record.",
        )
    summarise = summary or invariants
    truth, masks = _training_sets(group, (low, high), set_size, (models, held_out), seed)
    order = _interleave(models, held_out)
    train = _train_in_chunks if is_traceable else _train_one_by_one
    rows = _summarise_models(
        train(recipe, x, y, masks, order, chunk, seed),
        summarise,
        len(order),
        minutes,
        on_progress,
    )
    done, is_high = order[: len(rows)], truth[order[: len(rows)]]
    is_known = done < models
    _require_enough(is_known, minutes)
    classifier = _fit_classifier(rows[is_known], is_high[is_known])
    probability = classifier.predict_proba(rows[~is_known])[:, 1]
    return _report(
        name,
        (low, high),
        classifier,
        summarise,
        is_high[~is_known],
        probability,
        int(is_known.sum()),
        confidence,
    )


def invariants(params: ArrayTree) -> np.ndarray:
    """Summarises parameters by numbers that do not change when the neurons of a hidden layer are permuted.

    For consecutive dense layers: mean, deviation and mean size of the weights of each input and of each
    output, over all hidden neurons, and the product of all weights. For every parameter: quantiles.
    """
    leaves = [np.asarray(leaf, float) for leaf in in_layer_order(params)]
    features = [np.quantile(leaf, _QUANTILES) for leaf in leaves]
    weights = [leaf for leaf in leaves if leaf.ndim == 2]
    biases = [leaf for leaf in leaves if leaf.ndim == 1]
    follow = all(one.shape[1] == two.shape[0] for one, two in pairwise(weights))
    if weights and follow:
        product = weights[0]
        for weight in weights[1:]:
            product = product @ weight
        features += [product.ravel(), *_moments(weights[0], 1), *_moments(weights[-1], 0)]
        if biases and len(biases[-1]) == weights[-1].shape[1]:
            features.append(biases[-1])
    return np.concatenate(features)


def _moments(weight: np.ndarray, axis: int) -> list[np.ndarray]:
    return [weight.mean(axis=axis), weight.std(axis=axis), np.abs(weight).mean(axis=axis)]


# How models are trained and told apart


def _training_sets(
    group: np.ndarray, shares: tuple[float, float], set_size: int, counts: tuple[int, int], seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Which models have the high share, every second one, and the rows of each: the attacker's come first."""
    random = np.random.default_rng(seed)
    is_attackers = random.permutation(len(group)) < len(group) // 2
    truth, masks = [], []
    for part, count in ((is_attackers, counts[0]), (~is_attackers, counts[1])):
        for model in range(count):
            truth.append(model % 2 == 1)
            masks.append(_mask(part, group, shares[truth[-1]], set_size, random))
    return np.array(truth), np.stack(masks)


def _mask(
    part: np.ndarray, group: np.ndarray, share: float, set_size: int, random: np.random.Generator
) -> np.ndarray:
    mask = np.zeros(len(group), bool)
    inside = round(share * set_size)
    for among, wanted, what in ((group, inside, "in"), (~group, set_size - inside, "outside")):
        rows = np.flatnonzero(among & part)
        if len(rows) < wanted:
            raise DataError(
                f"A share of {share:g} needs {wanted} records {what} the group, and a half of the data has "
                f"{len(rows)}.",
                remedy="Choose a smaller set_size, milder shares, or give more records.",
            )
        mask[random.choice(rows, wanted, replace=False)] = True
    return mask


def _interleave(models: int, held_out: int) -> np.ndarray:
    """The order in which models are trained: every beginning has both kinds in proportion."""
    places = np.concatenate([(np.arange(count) + 0.5) / count for count in (models, held_out)])
    return np.argsort(places, kind="stable")


def _train_in_chunks(
    recipe: Any, x: np.ndarray, y: np.ndarray, masks: np.ndarray, order: np.ndarray, chunk: int, seed: int
) -> Iterator[list[Any]]:
    """The parameters of the models, chunk by chunk. Each depends on its number and the seed."""
    root = jax.random.key(seed, impl="threefry2x32")  # rbg keys would give all vectorised models one noise
    spread = Spread()
    chunk = spread.room_for(chunk)
    many = jax.vmap(lambda key, mask, x, y: recipe(key, x, y, mask), in_axes=(0, 0, None, None))
    train = spread.over(many, shared=2)
    common = spread.replicate((jnp.asarray(x), jnp.asarray(y)))
    for start in range(0, len(order), chunk):
        # The last ones again, rather than compile again.
        numbers = order[np.minimum(np.arange(start, start + chunk), len(order) - 1)]
        keys = jax.vmap(lambda number: jax.random.fold_in(root, number))(jnp.asarray(numbers))
        params = train(keys, jnp.asarray(masks[numbers]), *common)
        yield [_one_of(params, place) for place in range(min(chunk, len(order) - start))]


def _train_one_by_one(
    recipe: Any, x: np.ndarray, y: np.ndarray, masks: np.ndarray, order: np.ndarray, chunk: int, seed: int
) -> Iterator[list[Any]]:
    root = jax.random.key(seed, impl="threefry2x32")
    for number in order:
        yield [recipe(jax.random.fold_in(root, number), x, y, masks[number])]


def _summarise_models(
    trained: Iterator[list[Any]],
    summary: Summary,
    wanted: int,
    minutes: float | None,
    on_progress: Callable[[float], None],
) -> np.ndarray:
    started = time.perf_counter()
    rows: list[np.ndarray] = []
    while len(rows) < wanted:
        began = time.perf_counter()
        rows += [summary(params) for params in next(trained)]
        on_progress(len(rows) / wanted)
        now = time.perf_counter()
        if (
            minutes is not None
            and collectives.gather_arrays(now - started + (now - began)).max() > 60 * minutes
        ):
            break
    found = np.stack(rows)
    if not np.isfinite(found).all():
        bad = int((~np.isfinite(found)).any(axis=1).sum())
        raise DataError(
            f"{bad} of {len(found)} shadow models have parameters that are not finite.",
            remedy="Train them with a smaller learning rate.",
        )
    return found


def _require_enough(is_known: np.ndarray, minutes: float | None) -> None:
    known, others = int(is_known.sum()), int((~is_known).sum())
    if min(known, others) < 2 * FEWEST:
        raise InvalidArgument(
            f"Only {known} models to learn from and {others} to test on were trained in {minutes} minutes; "
            f"at least {2 * FEWEST} of each are needed.",
            remedy="Allow more minutes.",
        )


def _one_of(params: ArrayTree, place: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[place], params)


def _fit_classifier(rows: np.ndarray, is_high: np.ndarray) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    search = GridSearchCV(pipeline, {"logisticregression__C": [1e-4, 1e-3, 1e-2, 0.1]}, cv=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fit that stopped early is still a classifier
        search.fit(rows, is_high)
    return search.best_estimator_


def _report(
    name: str,
    shares: tuple[float, float],
    classifier: Any,
    summary: Summary,
    is_high: np.ndarray,
    probability: np.ndarray,
    taught_on: int,
    confidence: float,
) -> PropertyReport:
    right = int(np.sum((probability > 0.5) == is_high))
    scores = Scores(members=probability[is_high], outsiders=probability[~is_high])
    return PropertyReport(
        name=name,
        low=shares[0],
        high=shares[1],
        accuracy=clopper_pearson(right, len(is_high), confidence=confidence),
        auc=auc(scores, confidence=confidence),
        taught_on=taught_on,
        held_out=len(is_high),
        is_high=is_high,
        probability=probability,
        classifier=classifier,
        summary=summary,
    )


def _check_shares(shares: tuple[float, float]) -> tuple[float, float]:
    low, high = shares
    checks.probability(low=low, high=high)
    if low > high:
        raise InvalidArgument(
            f"The low share {low:g} is above the high share {high:g}.", remedy="Give the smaller share first."
        )
    return low, high
