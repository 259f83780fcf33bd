"""A plan from the words of a form: what it costs, over time and by every theorem, and what it would take.

Everything here is computed from public numbers; no data is opened.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from reticent.accounting import calibrate
from reticent.accounting.accountants import ACCOUNTANTS, account
from reticent.accounting.guarantee import Guarantee
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.search import smallest_count
from reticent.accounting.setting import Sampling, Setting, steps_for
from reticent.accounting.tight_epsilon import guarantee
from reticent.core import checks
from reticent.core.errors import InvalidArgument, ReticentError, Unproven
from reticent.report.facts.facts import bound_from_above, bound_from_below
from reticent.report.facts.odds import (
    ClaimPoint,
    best_guess,
    claim_points,
    largest_belief,
    largest_true_positive_rate,
)
from reticent.training.setting_noise import with_noise

NOISES = ("independent", "banded", "toeplitz", "blt", "tree")
SAMPLINGS = tuple(
    each for each in Sampling if each is not Sampling.CYCLIC_POISSON
)  # banded noise leads there
ACCOUNTANT_NAMES = {
    "basic": "basic composition",
    "advanced": "advanced composition",
    "zcdp": "concentrated DP",
    "moments": "moments accountant",
    "rdp": "Rényi DP",
    "pld": "privacy loss distribution",
}
_POINTS = 16  # of the curve over epochs
_MOST_STEPS = {"independent": 10_000_000, "toeplitz": 4_000}  # of a live page; a command line takes more
_MOST_CORRELATED = 100_000  # steps of the other strategies, which are found anew for every change
_PRIORS = tuple(round(0.02 * place, 2) for place in range(51))
_RATES = tuple(10.0 ** (-4 + 0.1 * place) for place in range(41))


def setting_of(words: Mapping[str, str]) -> tuple[Setting, float]:
    """The setting and the delta that a form describes.

    Raises:
        InvalidArgument: a field is missing or not a number. Unproven: no theorem covers it.
    """
    rows = _whole(words, "rows")
    sampling = _choice(words, "sampling", SAMPLINGS, Sampling.POISSON)
    size = rows if sampling is Sampling.FULL else _whole(words, "batch")
    steps = steps_for(_number(words, "epochs"), rows, size)
    noise = _choice(words, "noise", NOISES, "independent")
    most = _MOST_STEPS.get(noise, _MOST_CORRELATED)
    if steps > most:
        raise InvalidArgument(
            f"{steps:,} steps are more than this page follows live ({most:,}).",
            remedy="Take larger batches or fewer epochs, or use reticent account, which has the time.",
        )
    delta = _number(words, "delta")
    checks.inside_unit(delta=delta)
    if delta >= 1 / rows:
        raise InvalidArgument(
            f"A delta of {delta:g} promises nothing for {rows:,} rows: publishing one of them whole has "
            f"delta {1 / rows:.2g}.",
            remedy=f"Choose it well below that, for example {0.1 / rows:.0e}.",
        )
    setting = Setting(
        examples=rows,
        batch_size=size,
        steps=steps,
        noise_multiplier=_number(words, "multiplier"),
        sampling=sampling,
        adjacency=sampling.adjacencies[0],
    )
    bands = _whole(words, "bands") if noise == "banded" else None
    return _settled(setting, noise, bands), delta


@lru_cache(maxsize=64)
def _settled(setting: Setting, noise: str, bands: int | None) -> Setting:
    return with_noise(setting, noise, bands, None, None)


def price(words: Mapping[str, str]) -> dict[str, Any]:
    """What a plan costs: the headline, and every accountant's figure."""
    setting, delta = setting_of(words)
    promise = _guarantee(setting, delta)
    known = account(setting.event, delta, Neighbours(setting.adjacency))
    return {
        "epsilon": _finite(promise.epsilon),
        "epsilon_shown": bound_from_above("", promise.epsilon).shown,
        "lower_shown": bound_from_below("", promise.epsilon_lower, digits=4).shown,
        "sentence": str(promise),
        "steps": setting.steps,
        "rate": setting.rate,
        "noise": setting.noise_multiplier,
        "noise_in_words": setting.noise.in_words,
        "factor": bound_from_above("", math.exp(min(promise.epsilon, 700.0)), digits=3).shown,
        "simple_guess": _finite(best_guess([ClaimPoint(promise.epsilon, delta)])),
        "accountants": [
            {
                "name": ACCOUNTANT_NAMES[name],
                "epsilon": None if value is None else _finite(value),
                "shown": "no theorem" if value is None else bound_from_above("", value).shown,
            }
            for name, value in known.items()
        ],
        "command": command(setting, delta),
        "python": python(setting, delta, promise.epsilon),
    }


def curves(words: Mapping[str, str]) -> dict[str, Any]:
    """Epsilon over epochs, by the tightest accountant and by those that people compare with."""
    setting, delta = setting_of(words)
    # Denser at the start, where epsilon rises fast.
    counts = sorted({max(int(setting.steps * ((place + 1) / _POINTS) ** 2), 1) for place in range(_POINTS)})
    counts = [count for count in counts if count <= setting.steps]
    lines = []
    is_whole = setting.noise.bands(max(setting.steps, 1)) > 1  # a strategy is made for the whole run
    runs = [setting] if is_whole else [replace(setting, steps=count) for count in counts]
    for name in ("pld", "rdp", "moments"):
        try:
            values = [ACCOUNTANTS[name](run.event, delta, Neighbours(run.adjacency)) for run in runs]
        except Unproven:
            continue
        if is_whole:
            runs_epochs, values = [0.0, setting.epochs], [values[0], values[0]]
        else:
            runs_epochs, values = [0.0, *(run.epochs for run in runs)], [0.0, *values]
        lines.append(
            {"name": ACCOUNTANT_NAMES[name], "x": runs_epochs, "y": [_finite(each) for each in values]}
        )
    return {"lines": lines, "is_whole": is_whole}


def odds(words: Mapping[str, str]) -> dict[str, Any]:
    """What the promise means for one person: beliefs, guesses, and what any attack can find."""
    setting, delta = setting_of(words)
    promise = _guarantee(setting, delta)
    known = claim_points(setting.event, ClaimPoint(promise.epsilon, delta), setting.adjacency)
    return {
        "guess": best_guess(known),
        "guess_shown": bound_from_above("", 100 * best_guess(known), digits=3).shown,
        "belief_1": bound_from_above("", 100 * largest_belief(0.01, promise.epsilon), digits=3).shown,
        "beliefs": {"x": _PRIORS, "y": [_belief(prior, promise.epsilon) for prior in _PRIORS]},
        "tradeoff": {"x": _RATES, "y": [largest_true_positive_rate(known, rate) for rate in _RATES]},
    }


def _belief(prior: float, epsilon: float) -> float:
    return prior if prior in (0.0, 1.0) else largest_belief(prior, epsilon)


def take(words: Mapping[str, str]) -> dict[str, Any]:
    """What one quantity would have to be for a target epsilon, the others as they are."""
    setting, delta = setting_of(words)
    epsilon = _number(words, "target")
    checks.positive(epsilon=epsilon)
    what = words.get("what", "")
    if what not in SOLVERS:
        raise InvalidArgument(f"'{what}' cannot be solved for.", remedy=f"Choose {', '.join(SOLVERS)}.")
    is_correlated = setting.noise.bands(max(setting.steps, 1)) > 1
    if is_correlated and what not in ("multiplier", "delta"):
        return _impossible(what, "Correlated noise is made for a run of a fixed length.")
    try:
        value, shown = SOLVERS[what](setting, epsilon, delta)
    except ReticentError as error:
        return _impossible(what, str(error))
    return {"what": what, "value": value, "shown": shown, "why": ""}


def _impossible(what: str, why: str) -> dict[str, Any]:
    return {"what": what, "value": None, "shown": "not possible", "why": why}


def _take_noise(setting: Setting, epsilon: float, delta: float) -> tuple[float, str]:
    found = calibrate.noise_multiplier(setting, epsilon=epsilon, delta=delta)
    value = float(bound_from_above("", found).shown)
    return value, f"at least {value:g}"


def _take_epochs(setting: Setting, epsilon: float, delta: float) -> tuple[float, str]:
    steps = calibrate.steps(setting, epsilon=epsilon, delta=delta)
    epochs = steps * setting.batch_size / setting.examples
    value = math.floor(epochs * 100) / 100 if epochs >= 1 else float(f"{epochs:.3g}")
    return value, f"at most {value:g} ({steps:,} steps)"


def _take_batch(setting: Setting, epsilon: float, delta: float) -> tuple[float, str]:
    found = calibrate.batch_size(setting, epochs=setting.epochs, epsilon=epsilon, delta=delta)
    return found, f"at most {found:,}"


def _take_delta(setting: Setting, epsilon: float, delta: float) -> tuple[float, str]:
    found = float(bound_from_above("", calibrate.delta(setting, epsilon=epsilon), digits=2).value or 0)
    value = float(f"{found * 1.005:.2e}")
    note = "" if value < 1 / setting.examples else ", which promises nothing for so many rows"
    return value, f"at least {value:.2g}{note}"


def _take_rows(setting: Setting, epsilon: float, delta: float) -> tuple[float, str]:
    """The least rows with this batch and as many epochs."""
    epochs = setting.epochs

    def is_enough(rows: int) -> bool:
        if rows < setting.batch_size:
            return False
        steps = steps_for(epochs, rows, setting.batch_size)
        grown = replace(setting, examples=rows, steps=steps)
        return calibrate.epsilon_of(grown, delta) <= epsilon

    high = max(setting.examples, setting.batch_size)
    while not is_enough(high):
        high *= 4
        if high > 10**10:
            raise InvalidArgument("No number of rows below ten thousand million does.", remedy="Add noise.")
    found = smallest_count(is_enough, 0, high)
    return found, f"at least {found:,}"


SOLVERS: dict[str, Callable[[Setting, float, float], tuple[float, str]]] = {
    "multiplier": _take_noise,
    "epochs": _take_epochs,
    "rows": _take_rows,
    "delta": _take_delta,
    "batch": _take_batch,
}


def command(setting: Setting, delta: float) -> str:
    """What to type for the same."""
    words = ["reticent account", f"--examples {setting.examples}"]
    if setting.sampling is not Sampling.FULL:
        words.append(f"--batch-size {setting.batch_size}")
    words += [f"--steps {setting.steps}", f"--noise-multiplier {setting.noise_multiplier:g}"]
    words.append(f"--delta {delta:g}")
    if setting.sampling is Sampling.CYCLIC_POISSON:
        words.append(f"--sampling poisson --noise banded --bands {setting.parts}")
    else:
        words += [f"--sampling {setting.sampling}"] if setting.sampling is not Sampling.POISSON else []
        name = setting.noise.in_words
        words += [f"--noise {_noise_name(setting)}"] if "independent" not in name else []
    return " ".join(words)


def python(setting: Setting, delta: float, epsilon: float) -> str:
    """The same in Python: the plan of a training run, with the least noise that keeps to this epsilon."""
    if not math.isfinite(epsilon):
        return "# No plan keeps to a finite epsilon here."
    size = "" if setting.sampling is Sampling.FULL else f" batch_size={setting.batch_size},"
    lines = [
        "import reticent as rt",
        "",
        "plan = rt.Plan.for_budget(",
        f"    epsilon={bound_from_above('', epsilon).shown}, delta={delta:g},",
        f"    examples={setting.examples},{size} steps={setting.steps}, max_norm=1.0,",
    ]
    drawn = "poisson" if setting.sampling is Sampling.CYCLIC_POISSON else setting.sampling.value
    if drawn != "poisson":
        lines.append(f'    sampling="{drawn}",')
    if setting.noise.bands(max(setting.steps, 1)) > 1:
        lines.append(f"    noise={_noise_in_python(setting)},")
    return "\n".join([*lines, ")", "print(plan.guarantee())"])


def _noise_name(setting: Setting) -> str:
    """The name of a strategy with what it needs beside it, as a command line has it."""
    kind = type(setting.noise).__name__
    if kind == "Banded":
        return f"banded --bands {setting.noise.bands(max(setting.steps, 1))}"
    return {"Toeplitz": "toeplitz", "Buffered": "blt", "Tree": "tree"}.get(kind, "independent")


def _noise_in_python(setting: Setting) -> str:
    name, _, bands = _noise_name(setting).partition(" --bands ")
    return f"rt.noise.{name}(bands={bands})" if bands else f"rt.noise.{name}()"


def _guarantee(setting: Setting, delta: float) -> Guarantee:
    return guarantee(setting.event, delta, setting.adjacency, assumptions=setting.assumptions)


def _finite(value: float) -> float | None:
    """JSON has no word for infinity."""
    return value if math.isfinite(value) else None


def _number(words: Mapping[str, str], name: str) -> float:
    try:
        value = float(words.get(name, ""))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InvalidArgument(f"{_LABELS[name]} is not a number.", remedy="Write one, such as 1 or 1e-5.")
    return value


def _whole(words: Mapping[str, str], name: str) -> int:
    value = _number(words, name)
    if value != int(value) or not 1 <= value <= 10**10:
        raise InvalidArgument(f"{_LABELS[name]} is not a whole number.", remedy="Write one, such as 60000.")
    return int(value)


def _choice(words: Mapping[str, str], name: str, known: Any, default: Any) -> Any:
    word = words.get(name) or default
    if word not in known:
        raise InvalidArgument(f"{name} '{word}' is not known.", remedy=f"Choose {', '.join(known)}.")
    return type(default)(word)


_LABELS = {
    "rows": "The number of rows",
    "batch": "The batch size",
    "epochs": "The number of epochs",
    "multiplier": "The noise multiplier",
    "delta": "Delta",
    "target": "The target epsilon",
    "bands": "The number of bands",
}
