"""What attacks other than membership find, with pictures: Adult, MNIST, Location-30 and made-up texts.

python -m benchmarks.attack_gallery --figures docs/figures         everything
python -m benchmarks.attack_gallery --only leakage                 one part; may be given again
python -m benchmarks.attack_gallery --json FILE

Private models are trained by the same steps as `rt.train`, delta 1e-5. Seeds are for benchmarks only.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import reticent as rt
from reticent.attacks import defences
from reticent.attacks.inference.attribute import Sensitive, infer_attribute
from reticent.attacks.inference.imputation import boosted_trees
from reticent.attacks.inference.property import infer_property
from reticent.attacks.reconstruction import extraction, inversion, leakage, malicious
from reticent.attacks.shadows.recipes import plain_recipe
from reticent.data import catalog
from reticent.data.encoding import feature_names
from reticent.models import Model, classification_loss, language_model, mlp, tanh_cnn
from reticent.report.figures import reconstructions as pictures
from reticent.training.vectorised import private_recipe

DELTA = 1e-5
SEED = 11

_BESIDE_THE_REPOSITORY = Path(__file__).resolve().parents[2] / "shared" / "data"


# Training


def plainly(model: Model, data: dict[str, np.ndarray], *, epochs: int, decay: float = 0.0) -> Any:
    count = len(data["y"])
    recipe = plain_recipe(
        model, optax.adamw(1e-3, weight_decay=decay), epochs=epochs, batch_size=100, set_size=count
    )
    return _trained(recipe, data)


def privately(
    model: Model,
    data: dict[str, np.ndarray],
    epsilon: float,
    *,
    steps: int,
    batch_size: int,
    rate: float = 2e-3,
) -> Any:
    plan = rt.Plan.for_budget(
        epsilon=epsilon,
        delta=DELTA,
        examples=len(data["y"]),
        batch_size=batch_size,
        steps=steps,
        max_norm=1.0,
    )
    recipe = private_recipe(classification_loss(model), model.init, plan, optimizer=optax.adam(rate))
    return _trained(recipe, data)


def _trained(recipe: Any, data: dict[str, np.ndarray]) -> Any:
    key = jax.random.key(SEED, impl="threefry2x32")
    arrays = (jnp.asarray(data["x"]), jnp.asarray(data["y"]), jnp.ones(len(data["y"]), bool))
    return jax.block_until_ready(jax.jit(recipe)(key, *arrays))


def predictor(model: Model, params: Any) -> Callable[[np.ndarray], np.ndarray]:
    ask = jax.jit(jax.vmap(lambda x: jax.nn.softmax(model.apply(params, x))))
    return lambda x: np.asarray(ask(jnp.asarray(x)), float)


def parts(data: dict[str, np.ndarray], *sizes: int) -> list[dict[str, np.ndarray]]:
    """Disjoint random parts of these sizes."""
    order = np.random.default_rng(SEED).permutation(len(data["y"]))
    cuts = np.split(order, np.cumsum(sizes))[:-1]
    return [{name: values[rows] for name, values in data.items()} for rows in cuts]


# Adult


@cache
def adult() -> tuple[dict[str, np.ndarray], dict[str, list[int]]]:
    """Adult with `married` as its first feature, without the relationship that would give it away."""
    found = catalog.load("adult").train
    domain = catalog.domain("adult")
    assert domain is not None
    names = feature_names(domain)
    x = np.asarray(found["x"])
    columns: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        columns.setdefault(name.partition(" = ")[0], []).append(place)
    married = [place for place, name in enumerate(names) if name.startswith("marital-status = Married-")]
    hidden = {*columns["marital-status"], *columns["relationship"]}
    rest = [place for place in range(x.shape[1]) if place not in hidden]
    table = np.column_stack([x[:, married].sum(axis=1), x[:, rest]]).astype(np.float32)
    new_places = {name: [1 + rest.index(p) for p in places if p in rest] for name, places in columns.items()}
    return {"x": table, "y": np.asarray(found["y"])}, new_places


def attribute(figures: Path) -> Any:
    data, _ = adult()
    members, outsiders, reference = parts(data, 2000, 8000, 8000)
    model = mlp((data["x"].shape[1], 256, 2), jnp.tanh)
    models = {
        "200 epochs": plainly(model, members, epochs=200),
        "5 epochs": plainly(model, members, epochs=5),
        "epsilon 1": privately(model, members, 1.0, steps=100, batch_size=400),
    }
    married = Sensitive.single("married", 0, (0, 1))
    reports = {
        name: infer_attribute(
            predictor(model, params),
            members=members,
            outsiders=outsiders,
            reference=reference,
            sensitive=married,
            imputer=boosted_trees,
        )
        for name, params in models.items()
    }
    path = figures / "attack_attribute.svg"
    pictures.save_attribute_excess(path, reports, title="Adult: is this person married?")
    for name, report in reports.items():
        for row in report.rows:
            show(
                name,
                row.attack,
                row.side,
                f"accuracy {row.accuracy}",
                f"imputed {row.imputation}",
                row.excess,
            )
        for attack, difference in report.of_membership.items():
            show(name, attack, "because of membership", difference)
    return {name: report.to_json() for name, report in reports.items()}


def property_of_all(figures: Path) -> Any:
    data, columns = adult()
    is_woman = data["x"][:, columns["sex"][0]] > 0.5  # the first of the two: Female
    model = mlp((data["x"].shape[1], 16, 2))
    recipe = plain_recipe(model, optax.adam(3e-3), epochs=20, batch_size=50, set_size=500)
    found = {}
    for shares in ((0.3, 0.7), (0.4, 0.6), (0.5, 0.5)):
        report = infer_property(recipe, data, is_woman, set_size=500, shares=shares, name="share of women")
        show("property", shares, f"accuracy {report.accuracy}", f"AUC {report.auc}")
        found[f"{shares}"] = report.to_json()
    return found


# MNIST


@cache
def mnist() -> dict[str, np.ndarray]:
    found = catalog.load("mnist").train
    x = np.asarray(found["x"]).reshape(-1, 28, 28).astype(np.float32)
    return {"x": x / 255 if x.max() > 1 else x, "y": np.asarray(found["y"])}


def invert(figures: Path) -> Any:
    members, public = parts(mnist(), 10_000, 2000)
    means = np.stack([members["x"][members["y"] == label].mean(axis=0) for label in range(10)])
    model = mlp((784, 128, 10), jnp.tanh)
    models = {
        "without privacy": plainly(model, members, epochs=10, decay=0.1),
        "epsilon 1": privately(model, members, 1.0, steps=200, batch_size=500),
    }
    lines, found = {"class mean": means}, {}
    for name, params in models.items():
        for helped, records in (("", None), (",\npublic records", public["x"])):
            result = inversion.invert(
                lambda x, params=params: model.apply(params, x), (28, 28), range(10), public=records
            )
            alike = inversion.likeness(result, means)
            lines[name + helped] = result.pictures
            words = " ".join((name + helped).split())
            show("inversion", words, f"own {alike.own:.3f} others {alike.others:.3f}", alike.recognised)
            found[words] = alike.to_json()
    title = "What a digit looks like to a model"
    pictures.save_grid(figures / "attack_inversion.png", lines, title=title)
    return found


def leak(figures: Path) -> Any:
    (sent,) = parts(mnist(), 24)
    multipliers = (0.0, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
    perceptron, network = mlp((784, 128, 10), jnp.tanh), tanh_cnn()
    params = perceptron.init(jax.random.key(SEED))
    divided = leakage.noise_curve(
        classification_loss(perceptron),
        params,
        sent,
        lambda gradient: leakage.recover_analytically(gradient["dense1"]),
        noise_multipliers=multipliers,
    )
    params = network.init(jax.random.key(SEED))
    loss = classification_loss(network)
    match = leakage.gradient_matcher(loss, shape=(28, 28), steps=1000, restarts=1)
    few = {name: values[:6] for name, values in sent.items()}
    matched = leakage.noise_curve(
        loss, params, few, lambda gradient: match(params, gradient), noise_multipliers=multipliers[::2]
    )
    curves = {"first layer dense: division": divided, "convolutions: matched gradients": matched}
    pictures.save_noise_curve(
        figures / "attack_leakage_curve.svg", curves, title="One MNIST example from its clipped gradient"
    )
    shown = [row for row in divided if row.noise_multiplier in (0.0, 0.003, 0.01, 0.03, 0.1, 1.0)]
    title = "Read off the gradient of a perceptron"
    pictures.save_leakage(figures / "attack_leakage.png", sent["x"][:8], shown, title=title)
    title = "Found by matching the gradient of a convolutional network"
    pictures.save_leakage(figures / "attack_leakage_matched.png", few["x"], matched, title=title)
    for name, rows in curves.items():
        for row in rows:
            show(name, f"noise {row.noise_multiplier:g}", f"PSNR {row.psnr}", f"label {row.label}")
    return {name: [row.to_json() for row in rows] for name, rows in curves.items()}


def rob(figures: Path) -> Any:
    batch, public = parts(mnist(), 64, 2000)
    model = mlp((784, 512, 10))
    loss = classification_loss(model)
    honest = model.init(jax.random.key(SEED))
    cuts = malicious.even_thresholds(public["x"].mean(axis=(1, 2)), 512)
    trapped = malicious.trap_parameters(honest, cuts)
    lines, found = {"in the batch": batch["x"][:10]}, {}
    cases = {
        "honest server": (honest, 0.0),
        "malicious": (trapped, 0.0),
        "malicious,\nnoise 0.001": (trapped, 0.001),
        "malicious,\nnoise 1": (trapped, 1.0),
    }
    for name, (params, noise) in cases.items():
        gradient = leakage.released_gradient(
            loss, params, batch, max_norm=1.0, noise_multiplier=noise, key=jax.random.key(SEED)
        )
        robbed = malicious.compare_with_batch(malicious.read_trap(gradient["dense1"]), batch["x"])
        lines[name] = robbed.best.reshape(-1, 28, 28)[:10]
        words = " ".join(name.split())
        show("malicious", words, f"median PSNR {np.median(robbed.psnr):.1f}", robbed.recognisable)
        found[words] = {"psnr": robbed.psnr.tolist(), "recognisable": robbed.recognisable._asdict()}
    title = "Examples of a batch of 64 in one clipped gradient"
    pictures.save_grid(figures / "attack_malicious.png", lines, title=title)
    return found


# Made-up texts

_SYMBOLS = "abcdefghijklmnopqrstuvwxyz 0123456789"
_LENGTH = 20


def texts(count: int) -> list[str]:
    """Sentences of nobody, with a number of three digits in each."""
    random = np.random.default_rng(SEED)
    whose = ("my", "her", "his", "our")
    what = ("code", "room", "bus", "desk")
    return [
        f"{random.choice(whose)} {random.choice(what)} is {random.integers(1000):03d}" for _ in range(count)
    ]


def tokens(lines: list[str]) -> dict[str, np.ndarray]:
    """Inputs and next symbols: -1 where there is none."""
    table = np.zeros((len(lines), _LENGTH), np.int32)
    following = np.full((len(lines), _LENGTH), -1, np.int32)
    for row, line in enumerate(lines):
        codes = [_SYMBOLS.index(symbol) for symbol in line]
        table[row, 1 : len(codes) + 1] = codes
        following[row, : len(codes)] = codes
    return {"x": table, "y": following}


def expose(figures: Path) -> Any:
    canary = extraction.Canary.random("my vault is {}", "0123456789", 4, seed=SEED)
    model = language_model(len(_SYMBOLS), length=_LENGTH, width=32, layers=1, heads=2)

    def exposure_of(params: Any) -> extraction.Exposure:
        loss = classification_loss(model)
        each = jax.jit(jax.vmap(lambda x, y: loss(params, {"x": x, "y": y}) * jnp.sum(y >= 0)))
        return extraction.measure_exposure(lambda lines: each(*tokens(list(lines)).values()), canary)

    found = {}
    for copies in (0, 1, 4, 16):
        data = tokens(extraction.plant(texts(1000), canary, copies, seed=SEED))
        found[f"planted {copies} times"] = exposure_of(plainly(model, data, epochs=60))
    private = privately(model, data, 8.0, steps=200, batch_size=250)
    found["planted 16 times, epsilon 8 a copy"] = exposure_of(private)
    for name, exposure in found.items():
        show("exposure", name, f"{exposure.bits:.2f} of {exposure.space_bits:.2f} bits")
    path = figures / "attack_exposure.svg"
    pictures.save_exposure(path, found, title="A code of four digits, planted among 1,000 made-up sentences")
    return {name: exposure.to_json() for name, exposure in found.items()}


# Location-30


def defend(figures: Path) -> Any:
    location = catalog.load("location30").train
    data = {"x": np.asarray(location["x"], np.float32), "y": np.asarray(location["y"])}
    members, outsiders = parts(data, 2505, 2505)
    model = mlp((446, 128, 30), jnp.tanh)
    models = {
        "none": plainly(model, members, epochs=50),
        "stopped early": plainly(model, members, epochs=8),
        "weight decay": plainly(model, members, epochs=50, decay=10.0),
        "epsilon 8": privately(model, members, 8.0, steps=100, batch_size=800, rate=1e-2),
        "epsilon 1": privately(model, members, 1.0, steps=50, batch_size=1200, rate=1e-2),
    }
    rows = defences.compare({name: predictor(model, p) for name, p in models.items()}, members, outsiders)
    for row in rows:
        attacks = {result.name: f"{result.measured.auc.value:.3f}" for result in row.battery.results}
        accuracies = row.battery.accuracies
        show(row.name, f"train {accuracies.train:.3f} test {accuracies.test:.3f}", row.changed, attacks)
    return [row.to_json() for row in rows]


PARTS = {
    "attribute": attribute,
    "property": property_of_all,
    "inversion": invert,
    "leakage": leak,
    "malicious": rob,
    "exposure": expose,
    "defences": defend,
}


def show(*words: Any) -> None:
    print("  ".join(f"{word:.3f}" if isinstance(word, float) else str(word) for word in words), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=PARTS)
    parser.add_argument("--figures", type=Path, help="a folder for the pictures")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    if "RETICENT_DATA" not in os.environ and _BESIDE_THE_REPOSITORY.is_dir():
        os.environ["RETICENT_DATA"] = str(_BESIDE_THE_REPOSITORY)
    with tempfile.TemporaryDirectory() as nowhere:
        figures = chosen.figures or Path(nowhere)
        found = {name: PARTS[name](figures) for name in chosen.only or PARTS}
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
