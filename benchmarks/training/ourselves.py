"""Ours beside ours: memory, ways of sampling, compilations, the first step, and larger datasets."""

from __future__ import annotations

from statistics import median
from typing import Any

from benchmarks.training.asking import Worker, ratio, turns
from benchmarks.training.cases import CASES, Case
from benchmarks.training.tables import Check, Section, milliseconds, shown

Measured = tuple[Section, dict[str, Any]]

MICROBATCH = 1024
GROWTH = (10_000, 60_000, 600_000)


def memory(rounds: int, seconds: float) -> Measured:
    """The peak beyond imports and data, of the perceptron."""
    small = Case("mlp-4096", "mlp", 4096, 60_000, 1.3)
    large = small._replace(name="mlp-16384", batch=16_384)
    asked = {
        "not private, B=4096": ("plain_jax", {"case": small, "is_looped": True}),
        "reticent, B=4096": ("ours", {"case": small}),
        f"reticent, B=4096, microbatch {MICROBATCH}": ("ours", {"case": small, "microbatch": MICROBATCH}),
        f"reticent, B=16384, microbatch {MICROBATCH}": ("ours", {"case": large, "microbatch": MICROBATCH}),
    }
    peaks: dict[str, float | None] = {}
    for name, (module, spec) in asked.items():  # one at a time: they do not have to share
        worker = Worker(module, spec, keeps_memory=False)
        with turns({name: worker}, rounds, seconds):
            peak = worker.last("peak")
            peaks[name] = None if peak is None else peak - worker.facts["base"] - worker.facts["data"]
    plain, whole, chunked, larger = peaks.values()
    checks = [
        Check("B=4096: ours / not private", ratio(whole, plain), "<=", 1.3),
        Check(f"B=16384 / B=4096, both in microbatches of {MICROBATCH}", ratio(larger, chunked), "<=", 1.1),
    ]
    text = (
        "The perceptron 784-512-512-10 and 60,000 examples. The largest resident set of the process, "
        "compilation included, less what it was after imports with the data in memory, less the device's "
        "copy of the data."
    )
    rows = [[name, shown(peak, "MB")] for name, peak in peaks.items()]
    return Section("Peak memory", text, ("", "beyond imports and data"), rows, checks), {"peaks": peaks}


def sampling(rounds: int, seconds: float) -> Measured:
    """Poisson batches beside fixed ones, in turn; and how often the training loop was compiled."""
    rows, checks, raw = [], [], {}
    for case in (_case("mlp-1024"), _case("cnn-256")):
        workers = {kind: Worker("ours", {"case": case, "sampling": kind}) for kind in ("poisson", "fixed")}
        with turns(workers, rounds, seconds):
            poisson, fixed = workers["poisson"], workers["fixed"]
            loops, late = poisson.last("compiled_loops"), poisson.last("compiled_late")
            rows.append(
                [
                    case.name,
                    milliseconds(poisson.seconds()),
                    milliseconds(fixed.seconds()),
                    shown(loops),
                    shown(late),
                ]
            )
            checks += [
                Check(
                    f"{case.name}: throughput, Poisson / fixed",
                    ratio(fixed.seconds(), poisson.seconds()),
                    ">=",
                    0.95,
                ),
                Check(f"{case.name}: compilations of the loop in a run", loops, "=", 1, ""),
                Check(f"{case.name}: compilations of anything after the first epoch", late, "=", 0, ""),
            ]
            raw[case.name] = {kind: worker.answers for kind, worker in workers.items()}
    text = "Milliseconds per step of `rt.train`, both plans of the same batch size, in turn."
    header = ("case", "Poisson", "fixed", "compilations of the loop", "later compilations")
    return Section("True Poisson sampling, one compilation", text, header, rows, checks), raw


def first_step(rounds: int) -> Measured:
    """Calibration, compilation and the first step of the course CNN, each time in a new process."""
    runs = []
    error = ""
    for _ in range(rounds):
        worker = Worker("first_step", [256, 60_000])
        worker.close()
        if worker.facts:
            runs.append(worker.facts)
        error = error or worker.error
    parts = {name: median(run[name] for run in runs) for name in runs[0]} if runs else {}
    total = parts["calibration"] + parts["compile_and_step"] if parts else None
    everything = None if total is None else total + parts["imports"]
    rows = [[name.replace("_", " "), shown(value, "s")] for name, value in parts.items() if name != "a_step"]
    rows.append(["all of it, imports included", shown(everything, "s")])
    checks = [Check("calibration + compilation + first step", total, "<", 10, "s", why=error)]
    text = (
        "The course CNN, B=256, 60,000 examples, 60 epochs, epsilon 3: wall-clock seconds in a new process."
    )
    return Section("From nothing to the first step", text, ("", "median"), rows, checks), {"runs": runs}


def growth(rounds: int, seconds: float) -> Measured:
    """Epochs over ever more examples."""
    cases = {n: Case(f"{n}", "mlp", 1024, n, 1.0) for n in GROWTH}
    workers = {str(n): Worker("ours", {"case": case, "as_bytes": True}) for n, case in cases.items()}
    with turns(workers, rounds, seconds):
        times = {n: workers[str(n)].seconds() for n in GROWTH}
    an_example = {n: None if time is None else time / 1024 for n, time in times.items()}
    rows = [
        [
            f"{n:,}",
            shown(None if each is None else each * n, "s"),
            shown(None if each is None else 1e6 * each, "us"),
        ]
        for n, each in an_example.items()
    ]
    least, most = GROWTH[0], GROWTH[-1]
    checks = [
        Check(
            f"{n:,} examples: time an example / that of {least:,}",
            ratio(an_example[n], an_example[least]),
            "<=",
            1.1,
        )
        for n in (GROWTH[1], most)
    ]
    text = "Epochs of the perceptron 784-512-512-10, B=1024, over images of bytes."
    header = ("examples", "an epoch", "an example")
    return Section("Time grows with the examples", text, header, rows, checks), {"seconds_a_step": times}


def _case(name: str) -> Case:
    return next(case for case in CASES if case.name == name)
