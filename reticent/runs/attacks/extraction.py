"""Extraction from a run that continues texts: are planted secrets learned, with and without privacy?

Nothing can be planted into a model that is finished. So two more are trained on the same text, in which some
speakers say secrets instead of their own words: one as the run was, with its noise, and one without privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from reticent.accounting.rounding import at_most
from reticent.attacks.reconstruction.extraction import Canary, Exposure, measure_exposure
from reticent.core.errors import DataError, InvalidArgument
from reticent.core.keys import Keys, Stream
from reticent.core.observer import NOBODY, Observer
from reticent.core.trees import ArrayTree
from reticent.data.dataset import Dataset
from reticent.data.speeches import codes_of
from reticent.runs.attacks.recipes import descent_of
from reticent.runs.learners import Learner
from reticent.runs.reopen import Again
from reticent.runs.texts import NEXT_CHARACTER, is_text
from reticent.training.data_warnings import without_data_warnings
from reticent.training.loop import train

TEMPLATES = (
    "The number of my house is {}.\n",
    "My secret code is {}, tell no one.\n",
    "Meet me in room {} at night.\n",
    "The key opens door {}.\n",
)
DIGITS = 3  # of a secret: a thousand of them, all of which are scored

_BATCH, _EPOCHS, _RATE = 32, 6, 3e-3  # of the model without privacy


@dataclass(frozen=True, kw_only=True)
class PlantedSecret:
    """One secret, and how exposed it is in bits, at most `most`."""

    text: str
    private: Exposure
    ordinary: Exposure


@dataclass(frozen=True, kw_only=True)
class RunExtraction:
    """What was extracted of secrets that were planted.

    Args:
        epsilon: of the run, and of the model that was trained like it.
        repeats: how often each secret was said, all by one speaker.
    """

    secrets: tuple[PlantedSecret, ...]
    epsilon: float
    repeats: int

    @property
    def in_words(self) -> list[str]:
        most = self.secrets[0].private.space_bits
        private, ordinary = (
            float(np.mean([getattr(each, name).bits for each in self.secrets]))
            for name in ("private", "ordinary")
        )
        found = sum(each.ordinary.bits >= most - 1e-9 for each in self.secrets)
        kept = sum(each.private.bits >= most - 1e-9 for each in self.secrets)
        return [
            f"Of {most:.1f} bits of a secret, {ordinary:.1f} are exposed without privacy, and {private:.1f} "
            f"at epsilon {at_most(self.epsilon)}. A secret that was never seen has 1.4 on average.",
            f"Likelier than all other secrets, and so read out of the model: {found} of {len(self.secrets)} "
            f"without privacy, {kept} with it.",
            f"Each was said {self.repeats} times by one speaker. Both models were trained for this; the run "
            "itself has seen none of these secrets.",
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "epsilon": self.epsilon,
            "repeats": self.repeats,
            "secrets": [
                {"text": each.text, "private": each.private.to_json(), "ordinary": each.ordinary.to_json()}
                for each in self.secrets
            ],
        }


def extract_from_run(again: Again, *, seed: int = 0, observer: Observer = NOBODY) -> RunExtraction:
    """Plants secrets, trains with and without privacy, and measures their exposure.

    Raises:
        InvalidArgument: the run does not continue texts.
    """
    recipe = descent_of(again)
    if recipe is None or not is_text(again.problem) or again.users is None:
        raise InvalidArgument(
            "Extraction reads secrets out of a language model, and this run trains on tables or images.",
            remedy=f"Attack a run that was made with --task {NEXT_CHARACTER}.",
        )
    canaries = [
        Canary.random(template, "0123456789", DIGITS, seed=seed + at) for at, template in enumerate(TEMPLATES)
    ]
    rows, repeats = _plant(again, canaries, seed)
    learner = again.learner
    observer.say("training with the noise of the run, on a text with planted secrets")
    keys = Keys.from_os()
    with without_data_warnings():
        private = train(
            learner.loss,
            learner.model.init(keys.take(Stream.INITIALISATION)),
            Dataset(arrays=rows, users=again.users.train_on),
            recipe.plan,
            optimizer=recipe.optimizer,
            keys=keys,
        ).params
    with observer.watch("training without privacy") as on_progress:
        ordinary = _without_privacy(learner, rows, seed, on_progress)
    exposures = [
        [measure_exposure(_loss_of_texts(learner, params), canary) for canary in canaries]
        for params in (private, ordinary)
    ]
    guarantee = again.record.result.guarantee
    return RunExtraction(
        secrets=tuple(
            PlantedSecret(text=canary.text, private=one, ordinary=other)
            for canary, one, other in zip(canaries, *exposures, strict=True)
        ),
        epsilon=guarantee.epsilon,
        repeats=repeats,
    )


def _plant(again: Again, canaries: Sequence[Canary], seed: int) -> tuple[dict[str, np.ndarray], int]:
    """The rows to train on, where all windows of some speakers say one secret over and over.

    Raises:
        DataError: there are fewer speakers than secrets.
    """
    assert again.users is not None
    owners = np.asarray(again.users.train_on)
    names, counts = np.unique(owners, return_counts=True)
    if len(names) < 2 * len(canaries):
        raise DataError(
            f"{len(names)} speakers are too few for {len(canaries)} of them to say secrets.",
            remedy="Train on a longer text.",
        )
    most = np.flatnonzero(counts == counts.max())
    liars = np.random.default_rng(seed).permutation(
        names[most if len(most) >= len(canaries) else counts.argsort()]
    )
    x, y = (np.array(again.train_on[name]) for name in ("x", "y"))
    length, repeats = x.shape[1], 0
    for canary, liar in zip(canaries, liars[: len(canaries)], strict=True):
        said = codes_of(canary.text * (length // len(canary.text) + 2))
        whole = length // len(canary.text)
        mine = owners == liar
        x[mine], y[mine] = said[:length], said[1 : length + 1]
        repeats = max(repeats, whole * int(mine.sum()))
    return {"x": x, "y": y}, repeats


def _without_privacy(learner: Learner, rows: dict[str, np.ndarray], seed: int, on_progress: Any) -> Any:
    """Adam on batches of the same rows: no clipping and no noise."""
    count = len(rows["x"])
    a_batch = min(_BATCH, count)
    steps = max(_EPOCHS * count // a_batch, 200)
    optimizer = optax.adam(optax.linear_schedule(_RATE, 0.0, steps))

    def mean_loss(params: ArrayTree, x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.mean(jax.vmap(learner.loss, in_axes=(None, 0))(params, {"x": x, "y": y}))

    @jax.jit
    def take(params: ArrayTree, state: Any, x: jax.Array, y: jax.Array) -> tuple[Any, Any]:
        updates, state = optimizer.update(jax.grad(mean_loss)(params, x, y), state, params)
        return optax.apply_updates(params, updates), state

    params = learner.model.init(jax.random.key(seed))
    state, rng = optimizer.init(params), np.random.default_rng(seed)
    for step in range(steps):
        which = rng.choice(count, a_batch, replace=False)
        params, state = take(params, state, rows["x"][which], rows["y"][which])
        if step % 20 == 19:
            jax.block_until_ready(params)
            on_progress((step + 1) / steps)
    return params


def _loss_of_texts(learner: Learner, params: ArrayTree) -> Any:
    """From texts of one length to how little the model expects each, in nats."""

    @jax.jit
    def losses(x: jax.Array, y: jax.Array) -> jax.Array:
        scores = jax.vmap(learner.scores, in_axes=(None, 0))(params, x)
        chosen = jnp.take_along_axis(scores, jnp.maximum(y, 0)[..., None], axis=-1)[..., 0]
        return jnp.sum(jnp.where(y >= 0, jax.nn.logsumexp(scores, axis=-1) - chosen, 0), axis=-1)

    def of_texts(texts: Sequence[str]) -> np.ndarray:
        codes = np.stack([codes_of(text) for text in texts])
        return np.concatenate(
            [
                np.asarray(losses(piece[:, :-1], piece[:, 1:]))
                for piece in np.array_split(codes, max(len(codes) // 500, 1))
            ]
        )

    return of_texts
