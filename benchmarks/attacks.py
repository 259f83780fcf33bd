"""What membership attacks find: Location-30 with and without privacy, Adult, MNIST, and poorer attackers.

python -m benchmarks.attacks                            everything, 64 shadow models
python -m benchmarks.attacks --only location            one case; may be given again
python -m benchmarks.attacks --json FILE --figure docs/figures/attacks_gap.svg --roc docs/figures/attacks.svg

Every shadow model is attacked in turn with the others, its twin left out, and the games are pooled. Half of
the records train a model; the others are its outsiders. Private models are trained by the same steps as
`rt.train`, Poisson batches accounted for by the tight accountant, delta 1e-5. Seeds are for benchmarks only.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import reticent as rt
from reticent.attacks import battery, metrics
from reticent.attacks.membership import likelihood, shadow_classifier
from reticent.attacks.scores import Scores
from reticent.attacks.shadows.outputs import Shadows, balanced_halves
from reticent.attacks.shadows.recipes import ShadowRecipe, add_noise, flip_bits, plain_recipe
from reticent.attacks.shadows.training import Queries, train_shadows
from reticent.data import catalog
from reticent.models import Model, classification_loss, linear, mlp
from reticent.report.figures.attacks import GapPoint, save_gap, save_roc
from reticent.report.figures.curves import check_format
from reticent.training.vectorised import private_recipe

DELTA = 1e-5
FEW = 16  # shadow models of the cases that only need a threshold
SEED = 7

_BESIDE_THE_REPOSITORY = Path(__file__).resolve().parents[2] / "shared" / "data"
_FLIPS = Queries(disturb=flip_bits(0.03))
_NOISE = Queries(disturb=add_noise(0.1))


# Cases


class Case(NamedTuple):
    """A model and how it is trained, on which records."""

    name: str
    data: Callable[[], dict[str, np.ndarray]]
    model: Callable[[], Model]
    recipe: Callable[[Model, int], ShadowRecipe]  # of the model and the set size
    queries: Queries
    is_full: bool  # as many shadow models as were asked for, else few


def plain(epochs: int) -> Callable[[Model, int], ShadowRecipe]:
    return lambda model, set_size: plain_recipe(
        model, optax.adam(1e-3), epochs=epochs, batch_size=100, set_size=set_size
    )


def private(
    epsilon: float,
    *,
    steps: int,
    batch_size: int,
    optimizer: optax.GradientTransformation,
    max_norm: float = 1.0,
) -> Callable[[Model, int], ShadowRecipe]:
    def recipe(model: Model, set_size: int) -> ShadowRecipe:
        plan = rt.Plan.for_budget(
            epsilon=epsilon,
            delta=DELTA,
            examples=set_size,
            batch_size=batch_size,
            steps=steps,
            max_norm=max_norm,
        )
        return private_recipe(classification_loss(model), model.init, plan, optimizer=optimizer)

    return recipe


# Three ways to spend each epsilon. As it is: the recipe without privacy, with nothing changed but clipping,
# noise and Poisson batches; nothing was tuned. For the best test accuracy. With steps so small that the bar
# is met: no discovery, it shows what the bar costs, and that epsilon alone does not decide what leaks.
_FIFTY_EPOCHS = round(50 * 2505 / 100)
_SAME_8, _SAME_1 = (
    private(epsilon, steps=_FIFTY_EPOCHS, batch_size=100, optimizer=optax.adam(1e-3)) for epsilon in (8, 1)
)
_SGD = optax.sgd(0.05, momentum=0.9)
_ACCURATE_8 = private(8, steps=100, batch_size=800, optimizer=_SGD, max_norm=5.0)
_GENTLE_8 = private(8, steps=100, batch_size=800, optimizer=optax.adam(1.6e-3))
_ACCURATE_1 = private(1, steps=50, batch_size=1200, optimizer=optax.sgd(0.03, momentum=0.9), max_norm=5.0)
_GENTLE_1 = private(1, steps=50, batch_size=1200, optimizer=optax.adam(3e-3))


@cache
def location() -> dict[str, np.ndarray]:
    found = catalog.load("location30").train
    return {"x": np.asarray(found["x"]), "y": np.asarray(found["y"])}


def some(name: str, rows: int) -> Callable[[], dict[str, np.ndarray]]:
    def data() -> dict[str, np.ndarray]:
        found = catalog.load(name).train
        chosen = np.random.default_rng(SEED).permutation(len(found))[:rows]
        return {"x": np.asarray(found["x"])[chosen], "y": np.asarray(found["y"])[chosen]}

    return data


def location_model() -> Model:
    return mlp((446, 128, 30), jnp.tanh)


CASES = (
    Case("location", location, location_model, plain(50), _FLIPS, True),
    Case("location-epsilon-8-as-is", location, location_model, _SAME_8, _FLIPS, True),
    Case("location-epsilon-1-as-is", location, location_model, _SAME_1, _FLIPS, True),
    Case("location-epsilon-8", location, location_model, _ACCURATE_8, _FLIPS, True),
    Case("location-epsilon-8-gentle", location, location_model, _GENTLE_8, _FLIPS, True),
    Case("location-epsilon-1", location, location_model, _ACCURATE_1, _FLIPS, True),
    Case("location-epsilon-1-gentle", location, location_model, _GENTLE_1, _FLIPS, True),
    Case("location-3-epochs", location, location_model, plain(3), _FLIPS, False),
    Case("location-6-epochs", location, location_model, plain(6), _FLIPS, False),
    Case("location-12-epochs", location, location_model, plain(12), _FLIPS, False),
    Case("adult", some("adult", 20_000), lambda: mlp((107, 64, 2), jnp.tanh), plain(10), _NOISE, False),
    Case("mnist", some("mnist", 20_000), lambda: mlp((784, 128, 10), jnp.tanh), plain(10), _NOISE, False),
)

_BARS: dict[str, tuple[tuple[str, Callable[[battery.Battery], float], float, bool], ...]] = {
    # what, its value, the bar, whether more is better
    "location": (
        ("shadow classifier, precision", lambda found: _precision(found, "shadow_classifier"), 0.678, True),
        ("likelihood, AUC", lambda found: found["likelihood"].measured.auc.value, 0.95, True),
        ("likelihood, TPR at 0.1%", lambda found: _tpr(found, "likelihood"), 0.30, True),
        ("whole battery, seconds", lambda found: found.seconds, 240, False),
    ),
    **{
        f"location-epsilon-{epsilon}{way}": (("largest AUC", lambda found: _largest_auc(found), bar, False),)
        for epsilon, bar in ((8, 0.60), (1, 0.53))
        for way in ("-as-is", "", "-gentle")
    },
    "adult": (("threshold, precision", lambda found: _precision(found, "threshold"), 0.515, False),),
    "mnist": (("threshold, precision", lambda found: _precision(found, "threshold"), 0.535, False),),
}


def _precision(found: battery.Battery, name: str) -> float:
    decision = found[name].decision
    return float("nan") if decision is None else decision.precision.value


def _tpr(found: battery.Battery, name: str) -> float:
    return found[name].measured.tpr_at_fpr[0].true_positive_rate.value


def _largest_auc(found: battery.Battery) -> float:
    return max(result.measured.auc.value for result in found.results)


# Runs


def shadows_of(case: Case, count: int, folder: Path | None) -> tuple[Shadows, float]:
    """The shadow models of a case, and the seconds they took, compilation included; NaN if some were kept."""
    started = time.perf_counter()
    file = None if folder is None else folder / f"{case.name}.npz"
    is_fresh = file is None or not file.exists()
    data, model = case.data(), case.model()
    trained = train_shadows(
        case.recipe(model, -(-len(data["y"]) // 2)),
        model.apply,
        data,
        shadows=count,
        seed=SEED,
        queries=case.queries,
        cache=file,
        on_progress=lambda at: print(
            f"{case.name}: {at.done} of {at.wanted} shadow models, {at.seconds_left:.0f} s left", flush=True
        ),
    )
    return trained, time.perf_counter() - started if is_fresh else float("nan")


def attack(case: Case, count: int, folder: Path | None) -> tuple[battery.Battery, dict[str, Any], bool]:
    """Prints what every attack finds, and says whether the bars are met."""
    trained, seconds = shadows_of(case, count, folder)
    found = battery.run(trained)
    print(table(case, found, seconds), flush=True)
    record = {
        **found.to_json(),
        "training_seconds": None if np.isnan(seconds) else seconds,
        "case": case.name,
    }
    checked = list(_checked(case, found, seconds))
    if case.name == "location":
        record["few"], more = with_fewer(trained)
        checked += more
        record["poorer"] = poorer_attackers(trained)
    for line, _ in checked:
        print(f"  {line}", flush=True)
    return found, record, all(is_met for _, is_met in checked)


def _checked(case: Case, found: battery.Battery, training: float):
    for what, value_of, bar, is_more in _BARS.get(case.name, ()):
        value = value_of(found) + (training if "seconds" in what else 0)
        if np.isnan(value):
            continue
        is_met = value >= bar if is_more else value <= bar
        yield f"{what}: {value:.4g}, bar {bar:g}: {'met' if is_met else 'not met'}", is_met


def with_fewer(trained: Shadows) -> tuple[dict[str, Any], list[tuple[str, bool]]]:
    """The likelihood ratio with a part of the shadow models, and with the published rule for variances."""
    print(
        "\n| shadow models | variance | likelihood ratio: AUC | TPR at 1% | TPR at 0.1% |\n"
        "|---|---|---|---|---|"
    )
    rows, lines = {}, []
    for count in sorted({8, FEW, trained.models}):
        part = trained.first(min(count, trained.models))
        for variance in ("shrunk", "published"):
            measured = metrics.measure(likelihood_scores(part, variance))
            small, large = (rate.true_positive_rate.value for rate in measured.tpr_at_fpr)
            print(f"| {count} | {variance} | {measured.auc.value:.3f} | {large:.3f} | {small:.3f} |")
            rows[f"{count} {variance}"] = measured.to_json()
            if count == FEW and variance == "shrunk":
                for what, value, bar in (("AUC", measured.auc.value, 0.95), ("TPR at 0.1%", small, 0.25)):
                    verdict = "met" if value >= bar else "not met"
                    lines.append(
                        (f"likelihood with {FEW}, {what}: {value:.4g}, bar {bar:g}: {verdict}", value >= bar)
                    )
    return rows, lines


def likelihood_scores(shadows: Shadows, variance: likelihood.Variance) -> Scores:
    signal = shadows.signals.confidence
    rows = [
        likelihood.lira(signal[model], signal[others], shadows.is_member[others], variance=variance)
        for model in range(shadows.models)
        for others in [shadows.others(model)]
    ]
    return Scores.of_games(np.stack(rows), shadows.is_member)


def poorer_attackers(targets: Shadows) -> dict[str, Any]:
    """The shadow classifier taught on other records or another model, used against the same targets."""
    print("\n| shadow classifier taught on | precision | recall | AUC |\n|---|---|---|---|")
    data, model = location(), location_model()
    recipe = plain(50)(model, -(-len(data["y"]) // 2))
    half = balanced_halves(len(data["y"]), 2, seed=SEED + 1)[0]
    oracle = recipe(
        jax.random.key(SEED, impl="threefry2x32"), *map(jnp.asarray, (data["x"], data["y"], half))
    )
    label = jax.jit(lambda x: jnp.argmax(jax.vmap(lambda row: model.apply(oracle, row))(x), axis=-1))
    linear_model = linear(446, 30)
    drawn = shadow_classifier.marginal_records(data["x"], len(data["y"]), seed=SEED)
    ways = {
        "10% of values replaced": (_noisy(data, 0.1), model),
        "20% of values replaced": (_noisy(data, 0.2), model),
        "records drawn from the margins": ({"x": drawn, "y": np.asarray(label(drawn))}, model),
        "a linear model": (data, linear_model),
    }
    record = {}
    for what, (theirs, kind) in ways.items():
        taught_by = train_shadows(
            plain(50)(kind, -(-len(theirs["y"]) // 2)), kind.apply, theirs, shadows=8, seed=SEED + 2, chunk=8
        )
        taught = shadow_classifier.fit(taught_by.signals.answers, taught_by.labels, taught_by.is_member)
        rows = [taught.log_odds(answers, targets.labels) for answers in targets.signals.answers]
        scores = Scores.of_games(np.stack(rows), targets.is_member)
        decision, area = metrics.decide(scores, shadow_classifier.THRESHOLD), metrics.auc(scores)
        print(
            f"| {what} | {decision.precision.value:.3f} | {decision.recall.value:.3f} | {area.value:.3f} |",
            flush=True,
        )
        record[what] = {"precision": decision.precision._asdict(), "auc": area._asdict()}
    return record


def _noisy(data: dict[str, np.ndarray], share: float) -> dict[str, np.ndarray]:
    return {"x": shadow_classifier.noisy_records(data["x"], share, seed=SEED), "y": data["y"]}


def table(case: Case, found: battery.Battery, training: float) -> str:
    lines = [
        f"\n## {case.name}: {found.shadows} models, train accuracy {found.accuracies.train:.3f}, "
        f"test {found.accuracies.test:.3f}, {training:.0f} s to train, {found.seconds:.0f} s to attack\n",
        "| attack | TPR at 0.1% | 95% interval | TPR at 1% | AUC | advantage | precision | recall |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for result in found.results:
        small, large = (rate.true_positive_rate for rate in result.measured.tpr_at_fpr)
        decided = "| |"
        if result.decision is not None:
            decided = f"{result.decision.precision.value:.3f} | {result.decision.recall.value:.3f} |"
        lines.append(
            f"| {result.name} | {small.value:.4f} | {small.low:.4f} to {small.high:.4f} | "
            f"{large.value:.4f} | {result.measured.auc.value:.3f} | "
            f"{result.measured.advantage.value:.3f} | {decided}"
        )
    return "\n".join(lines)


def draw(found: dict[str, battery.Battery], gap: Path | None, roc: Path | None) -> None:
    if gap is not None and len(found) > 2:
        points = [
            GapPoint(
                name.removeprefix("location-"), each.accuracies.gap, each["threshold"].measured.auc.value
            )
            for name, each in found.items()
        ]
        gap.parent.mkdir(parents=True, exist_ok=True)
        save_gap(gap, points, title="Overfitting and leakage", success="AUC of the threshold attack")
    if roc is not None and "location" in found:
        shown = ("gap", "threshold", "shadow_classifier", "label_only_likelihood", "relative", "likelihood")
        curves = {name: found["location"][name].scores for name in shown}
        for epsilon in (8, 1):
            if f"location-epsilon-{epsilon}" in found:
                private_scores = found[f"location-epsilon-{epsilon}"]["likelihood"].scores
                curves[f"likelihood, epsilon {epsilon}"] = private_scores
        roc.parent.mkdir(parents=True, exist_ok=True)
        save_roc(roc, curves, title="Membership attacks on Location-30")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [case.name for case in CASES]
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--shadows", type=int, default=64)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--figure", type=Path, metavar="FILE.svg", help="train-test gap against success")
    parser.add_argument("--roc", type=Path, metavar="FILE.svg", help="curves of Location-30")
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="keep shadow outputs here")
    chosen = parser.parse_args()
    for path in (chosen.figure, chosen.roc):
        if path is not None:
            check_format(path)
    if "RETICENT_DATA" not in os.environ and _BESIDE_THE_REPOSITORY.is_dir():
        os.environ["RETICENT_DATA"] = str(_BESIDE_THE_REPOSITORY)
    found, records, is_met = {}, [], True
    for case in CASES:
        if case.name in (chosen.only or names):
            count = chosen.shadows if case.is_full else min(FEW, chosen.shadows)
            found[case.name], record, met = attack(case, count, chosen.cache)
            records.append(record)
            is_met = is_met and met
    draw(found, chosen.figure, chosen.roc)
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(records, indent=2) + "\n")
    sys.exit(0 if is_met else 1)


if __name__ == "__main__":
    main()
