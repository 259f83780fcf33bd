"""Canary games against every generator: what was released with one record, and without it.

The attacker knows both datasets, the plan and the code, and sees every value that was charged: noisy counts
and choices of a table, the noisy sum of an embedding, class counts and noisy gradients of a discriminator.
The score is how much likelier all of it is with the record, by the claimed noise. No other score shows more,
and whatever a generator does with the releases is post-processing. Games on finished generators are beside
them.

    tables      `table_scores`, `table_model_scores`
    embedding   `embedding_scores`, `moment_scores`, `frequency_scores`
    gan         `captured`, `gan_scores`, `step_scores`

Games call the package's own `fit`, and stop it after the last release. A bug that somebody planted in
`tables.measure`, `embedding.release`, `gan.noisy_counts` or the step of a training is played against as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import optax

from reticent.audit.bounds import many_runs
from reticent.audit.canary_scores import log_likelihood_ratio
from reticent.core import trees, words
from reticent.core.keys import Keys
from reticent.mechanisms.events import ExponentialMechanism, Gaussian
from reticent.synthetic.images import adversary, embedding, gan, networks
from reticent.synthetic.tables import table_model
from reticent.synthetic.tables.marginals import Marginal, count
from reticent.synthetic.tables.planning import TablePlan
from reticent.training.plan import Plan
from reticent.training.vectorised import private_recipe

EPSILON, DELTA = 2.0, 0.05  # of every claim: a large delta, because few runs show more of it
CONFIDENCE = 0.99
_FAKES = 8
_CERTAIN = 1e6

Worlds = tuple[Any, Any]  # with the canary, and without it


class Scores(NamedTuple):
    """One number a run; higher says that the canary was in."""

    inside: np.ndarray
    outside: np.ndarray


class _Enough(Exception):
    """The last release has been seen."""


def ratio_bound(scores: Scores, *, thresholds: Sequence[float] = (0.5, 1.0, 1.5)) -> float:
    """A lower bound on epsilon from likelihood ratios: what they mean is known, so no run has to choose.

    Args:
        thresholds: around the mean of a canary's runs at a claim of epsilon 2, where most is shown.
    """
    return many_runs(*scores, delta=DELTA, confidence=CONFIDENCE, threshold=thresholds).epsilon


def bound(scores: Scores, delta: float = DELTA) -> float:
    """The same from any scores: the threshold that shows most on half of the runs, tested on the others."""
    chosen, tested = (Scores(*(side[at::2] for side in scores)) for at in (0, 1))
    grid = np.unique(np.quantile(np.concatenate(chosen), np.linspace(0.02, 0.98, 49)))

    def shown(half: Scores, threshold: float) -> float:
        return many_runs(*half, delta=delta, confidence=CONFIDENCE, threshold=threshold).epsilon

    return shown(tested, float(max(grid, key=lambda point: shown(chosen, float(point)))))


# Tables


def lonely_table(rows: int = 60, columns: int = 3) -> Worlds:
    """A table of zeros, with and without the one record that has a 1 in every column."""
    codes = np.zeros((rows, columns), np.int32)
    codes[-1] = 1
    return codes, codes[:-1]


def table_of_users(each: int, rows: int, columns: int = 2) -> Worlds:
    """A table of zeros, with and without the one user who has so many rows, with a 1 in every column."""
    codes = np.zeros((rows, columns), np.int32)
    codes[-each:] = 1
    return codes, codes[:-each]


def table_scores(worlds: Worlds, plan: TablePlan, *, runs: int, seed: int = 0) -> Scores:
    """Likelihood ratios of all that `tables.fit` draws: every count and every choice, in their order."""
    source = np.random.default_rng(seed)
    transcript = _Transcript(worlds, plan)
    patches = {
        "measure": transcript.measure,
        "errors": transcript.errors,
        "select": transcript.select,
        "estimate": _independent,
        "generator": lambda keys: source,
    }
    with mock.patch.multiple(table_model, **patches):
        return Scores(*(np.array([transcript.of_run(codes) for _ in range(runs)]) for codes in worlds))


class _Transcript:
    """Stands where `fit` draws, hands on what is drawn, and adds up what it says about the canary."""

    def __init__(self, worlds: Worlds, plan: TablePlan) -> None:
        self._worlds, self._plan, self._score = worlds, plan, 0.0
        self._draw, self._wrong, self._choose = table_model.measure, table_model.errors, table_model.select
        self._exact: dict[Any, list[np.ndarray]] = {}
        self._utilities: list[dict[Any, float]] = []

    def of_run(self, codes: np.ndarray) -> float:
        self._score = 0.0
        table_model.fit(codes, self._plan, keys=Keys.seeded(0))  # the generator in its place is of the game
        return self._score

    def measure(
        self,
        codes: np.ndarray,
        columns: Any,
        sizes: Sequence[int],
        event: Gaussian,
        source: Any,
        **named: Any,
    ) -> Marginal:
        assert tuple(sizes) == self._plan.sizes, "codes were merged: the canary is in another cell"
        found = self._draw(codes, columns, sizes, event, source, **named)
        if columns not in self._exact:
            self._exact[columns] = [count(world, columns, sizes) for world in self._worlds]
        far = [float(np.square(found.counts - exact).sum()) for exact in self._exact[columns]]
        self._score += (far[1] - far[0]) / (2 * (self._plan.rows_per_user * event.noise_multiplier) ** 2)
        if min(far) == 0 < max(far):  # no noise at all, which noise never comes out as
            self._score += _CERTAIN if far[0] == 0 else -_CERTAIN
        return found

    def errors(self, codes: np.ndarray, pairs: Iterable[Any], *given: Any, **named: Any) -> dict[Any, float]:
        pairs = list(pairs)
        self._utilities = [self._wrong(world, pairs, *given, **named) for world in self._worlds]
        return self._wrong(codes, pairs, *given, **named)

    def select(
        self,
        scores: Mapping[Any, float],
        fits: Any,
        events: Iterable[ExponentialMechanism],
        source: Any,
        *,
        again: Sequence[Any] = (),
        **named: Any,
    ) -> list[Any]:
        events = list(events)
        chosen = self._choose(scores, fits, events, source, again=again, **named)
        for at, (event, pair) in enumerate(zip(events, chosen, strict=True)):
            new = [one for one in scores if one not in chosen[:at] and fits(chosen[:at], one)]
            among = new or [one for one in scores if one in chosen[:at] or one in again] or list(scores)
            half = event.epsilon / (2 * self._plan.rows_per_user)
            with_it, without = (
                half * of[pair] - float(np.logaddexp.reduce([half * of[one] for one in among]))
                for of in self._utilities
            )
            self._score += with_it - without
        return chosen


class _Independent(NamedTuple):
    """The quickest model of noisy counts: every column by itself."""

    shares: list[np.ndarray]

    def pairs(self) -> dict[Any, np.ndarray]:
        columns = range(len(self.shares))
        return {(a, b): np.outer(self.shares[a], self.shares[b]) for a in columns for b in columns if a < b}


def _independent(marginals: Sequence[Marginal], *given: Any, **named: Any) -> tuple[Any, dict]:
    counts = [np.maximum(marginal.counts, 0.5) for marginal in marginals if len(marginal.columns) == 1]
    return _Independent([each / each.sum() for each in counts]), {}


def table_model_scores(worlds: Worlds, plan: TablePlan, *, runs: int, seed: int = 0) -> Scores:
    """What finished generators say of the canary: the logarithm of how likely it is."""
    canary, keys = worlds[0][-1:], _fresh_keys(runs, seed)

    def score(codes: np.ndarray) -> float:
        return float(table_model.fit(codes, plan, keys=next(keys)).log_probabilities(canary)[0])

    return Scores(*(np.array([score(codes) for _ in range(runs)]) for codes in worlds))


def _fresh_keys(runs: int, seed: int) -> Iterator[Keys]:
    """Keys for as many runs with the canary and without it."""
    return (Keys.seeded(number) for number in range(2 * runs * seed, 2 * runs * (seed + 1)))


# Vectors of two classes


def lonely_vector(rows: int = 20) -> Worlds:
    """Vectors at the origin, all of one class, with and without one of the other class that is far away."""
    x, y = np.zeros((rows, 2), np.float32), np.zeros(rows, np.int64)
    x[-1], y[-1] = 1.0, 1
    return (x, y), (x[:-1], y[:-1])


def embedding_scores(
    worlds: Worlds, plan: embedding.EmbeddingPlan, *, runs: int, seed: int = 0, waves: int = 20
) -> Scores:
    """Likelihood ratios of the one noisy sum that `embedding.fit` draws."""
    source, draw = np.random.default_rng(seed), embedding.release
    seen: list[tuple[np.ndarray, np.ndarray]] = []

    def release(total: Any, plan: Any, rng: np.random.Generator) -> np.ndarray:
        seen.append((total.value, draw(total, plan, rng)))
        raise _Enough

    def runs_of(world: Any) -> list[tuple[np.ndarray, np.ndarray]]:
        seen.clear()
        for _ in range(runs):
            with suppress(_Enough):
                embedding.fit(world[0], world[1], plan, classes=2)
        return list(seen)

    patches = {"release": release, "generator": lambda keys, stream: source, "_WAVES": waves}
    with mock.patch.multiple(embedding, **patches):
        inside, outside = (runs_of(world) for world in worlds)
    base, moved = outside[0][0], inside[0][0] - outside[0][0]
    middle = base + moved / 2

    def score(noisy: np.ndarray) -> float:
        return float(((noisy - middle) * moved).sum()) / plan.noise_multiplier**2

    return Scores(*(np.array([score(noisy) for _, noisy in side]) for side in (inside, outside)))


def frequency_scores(
    worlds: Worlds, frequencies: Callable[[Any, Keys], Any], *, runs: int, seed: int = 0
) -> Scores:
    """How frequent the canary's class is, as a generator has it that was fitted to a world with such keys."""
    keys = _fresh_keys(runs, seed)
    scores = [[float(frequencies(world, next(keys))[1]) for _ in range(runs)] for world in worlds]
    return Scores(*map(np.array, scores))


def moment_scores(worlds: Worlds, plan: embedding.EmbeddingPlan, *, runs: int, seed: int = 0) -> Scores:
    """What finished generators make of the canary's class: their mean and second moment where it stands.

    A mean and a spread say nearly all of the noisy sum that they were made from.
    """
    way, keys = worlds[0][0][-1] / np.linalg.norm(worlds[0][0][-1]), _fresh_keys(runs, seed)

    def score(x: Any, y: Any) -> float:
        made = embedding.fit(x, y, plan, classes=2, keys=next(keys))
        times = max(plan.examples * float(made.frequencies[1]), 1.0)  # by which the sum was divided
        mean, spread = (way @ made.tensors[name][1] / plan.radius for name in ("means", "spreads"))
        return times * float(0.25 * mean + 0.65 * (mean**2 + spread @ spread))  # as much as each has of phi

    return Scores(*(np.array([score(x, y) for _ in range(runs)]) for x, y in worlds))


class Game(NamedTuple):
    """All that `gan.fit` hands to `train`."""

    loss: Any
    critic: Any
    data: dict[str, np.ndarray]
    training: Plan
    optimizer: optax.GradientTransformation
    plan: gan.GanPlan


def captured(world: Any, plan: gan.GanPlan) -> Game:
    """The training that `gan.fit` would begin with these records."""
    found: list[Game] = []

    def train(loss: Any, critic: Any, data: Any, training: Plan, *, optimizer: Any, **rest: Any) -> None:
        found.append(Game(loss, critic, data, training, optimizer, plan))
        raise _Enough

    with mock.patch.object(gan, "train", train), suppress(_Enough):
        gan.fit(world[0], world[1], plan, classes=2, keys=Keys.seeded(0))
    return found[0]


def gan_scores(game: Game, *, runs: int, seed: int = 0) -> tuple[Scores, Scores]:
    """Likelihood ratios of class counts and noisy gradients; and scores of what finished generators make."""
    source, labels = np.random.default_rng(seed), np.asarray(game.data["y"])
    steps, made = step_scores(game, runs=runs, seed=seed)
    both = []
    for seen, rows in zip(steps, (labels, labels[:-1]), strict=True):
        counts = np.array([gan.noisy_counts(rows, 2, game.plan, source)[1] for _ in range(runs)])
        both.append(seen + (counts - 0.5) / game.plan.count_noise**2)
    return Scores(*both), made


def step_scores(game: Game, *, runs: int, seed: int = 0) -> tuple[Scores, Scores]:
    """The same of noisy gradients alone.

    With a discriminator of one layer the gradient of the canary, the only record of its class, is at right
    angles to all others and never turns, so that it is known before the run and nothing hides it but noise.
    Words that a long draw would need are left out: the words that are used are the same without them.
    """
    is_member = jnp.ones(len(game.data["y"]), bool)
    masks = is_member, is_member.at[-1].set(False)
    with mock.patch.object(adversary, "_FAKES", _FAKES), mock.patch.object(words, "_ALIGNED", 2):
        play = jax.jit(jax.vmap(_player(game), in_axes=(0, None)))
        keys = jax.random.split(jax.random.key(seed, impl="threefry2x32"), 2 * runs).reshape(2, runs)
        played = [play(keys[side], mask) for side, mask in enumerate(masks)]
    seen, made = ([np.asarray(each[at], np.float64) for each in played] for at in (0, 1))
    return Scores(*seen), _learned_scores(*made)


def _player(game: Game) -> Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]:
    """A run as a function of a key and a mask: what its gradients say, and what its generator makes."""
    data = {key: jnp.asarray(rows) for key, rows in game.data.items()}
    training, inner = game.training, game.optimizer
    way = _canary_way(game, data)
    in_units = training.sampler.batch_size / training.clipping.sensitivity
    rate = training.sampler.batch_size / training.sampler.examples
    begin: Any = inner.init(game.critic)

    def init(params: Any) -> Any:
        return inner.init(params["critic"])

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        noisy = in_units * _overlap(updates["critic"], way)
        noise = training.noise_multiplier
        seen = log_likelihood_ratio(noisy, rate=rate, noise_multiplier=noise, absence="removed")
        moves, state = inner.update(updates["critic"], state, params["critic"])
        made = trees.subtract(state.average, params["made"])
        return {"critic": moves, "seen": seen, "made": made}, state

    recipe = private_recipe(
        lambda params, example: game.loss(params["critic"], example),
        lambda key: {"critic": game.critic, "seen": jnp.float32(0), "made": begin.average},
        training,
        optimizer=optax.GradientTransformation(init, update),
    )
    probe = jax.random.normal(jax.random.key(3), (16, networks.NOISE))

    def run(key: jax.Array, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
        found = recipe(key, data["x"], data["y"], mask)
        made = networks.generate(found["made"], probe, jnp.ones(16, jnp.int32), 2)
        return found["seen"], made.ravel()

    return run


def _canary_way(game: Game, data: dict[str, jax.Array]) -> Any:
    """The direction of the canary's gradient, which no other record's gradient has a part in."""
    gradients = jax.vmap(jax.grad(game.loss), in_axes=(None, 0))(game.critic, data)
    own = jax.tree.map(lambda leaf: leaf[-1], gradients)
    length = float(trees.norm(own))
    assert length > game.training.clipping.sensitivity, "the canary's gradient is not cut"
    others = jax.tree.map(lambda leaf: leaf[:-1].sum(axis=0), gradients)
    assert float(_overlap(own, others)) == 0.0, "other records hide the canary"
    return trees.scale(own, 1 / length)


def _overlap(first: Any, second: Any) -> jax.Array:
    return jnp.sum(jnp.stack(jax.tree.leaves(jax.tree.map(jnp.vdot, first, second))))


def _learned_scores(inside: np.ndarray, outside: np.ndarray) -> Scores:
    """Half of the runs show which way the canary pulls what is made; the others are scored along it."""
    half = len(inside) // 2
    way = inside[:half].mean(axis=0) - outside[:half].mean(axis=0)
    return Scores(inside[half:] @ way, outside[half:] @ way)
