"""A step of each implementation on each case, all of them in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.training.asking import Worker, ratio, turns
from benchmarks.training.cases import CASES, DESCRIPTIONS, Case
from benchmarks.training.tables import Check, Section, milliseconds, shown

OPACUS_BAR, JAX_PRIVACY_BAR = 1.3, 2.0

TEXT = """Milliseconds per step; the median of the rounds. float32, SGD, every core for everybody.

* **reticent**: `rt.train` as a user calls it, from one call of `on_progress` to the next: Poisson batches
  drawn from data in memory, clipping, noise, the optimizer, and the epsilon of each epoch.
* **noise**: of that, the Gaussian noise alone, in a loop of its own.
* **not private**: `jax.value_and_grad` of the mean loss of the same network over random rows of the same
  data, SGD; as many steps in one compiled call as ours or one step per call, whichever is faster.
* **Opacus**: `make_private` with `hooks` and with `ghost`; one resident batch, no data loader.
* **jax-privacy**: `clipped_grad`, `gaussian_privatizer` and optax in one jitted step; one resident batch; the
  fastest microbatch."""


_PACKAGES = {
    "ours": "reticent",
    "noise": "reticent",
    "plain_jax": "jax",
    "hooks": "Opacus",
    "ghost": "Opacus",
    "jax-privacy": "jax-privacy",
}


def measure(
    cases: Sequence[Case], pythons: Mapping[str, Path], rounds: int, seconds: float
) -> tuple[Section, list[dict[str, Any]]]:
    rows, checks, raw, versions = [], [], [], {}
    for case in cases:
        workers = _workers(case, pythons)
        with turns(workers, rounds, seconds):
            rows.append(_row(case, workers))
            checks += _checks(case, workers)
            versions |= {_PACKAGES[name]: worker.facts.get("version") for name, worker in workers.items()}
            raw.append({"case": case.name, **{name: _kept(worker) for name, worker in workers.items()}})
        print("|", " | ".join(rows[-1]), "|", flush=True)
    header = (
        "case",
        "parameters",
        "reticent",
        "noise",
        "not private",
        "hooks",
        "ghost",
        "jax-privacy",
        "remarks",
    )
    described = "\n".join(
        f"* `{case.name}`: {DESCRIPTIONS[case.network]}; B = {case.batch}" for case in cases
    )
    named = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    text = f"{TEXT}\n\n{described}\n\nVersions: {named}."
    return Section("Time of a step", text, header, rows, checks), raw


def reach(
    raw: Sequence[Mapping[str, Any]], rounds: int, seconds: float
) -> tuple[Section, list[dict[str, Any]]]:
    """How far steps are from what the machine can do, from the answers that `measure` gave."""
    limits = {what: Worker("machine", {"case": CASES[0], "what": what}) for what in ("product", "copy")}
    with turns(limits, rounds, seconds):
        fastest = {what: worker.facts["amount"] / (worker.seconds() or 1) for what, worker in limits.items()}
    rows = []
    for case in raw:
        facts = case["plain_jax"]["facts"]
        for name in ("ours", "plain_jax"):
            a_step = median(answer["seconds"] for answer in case[name]["answers"])
            operations, moved = facts["operations"] / a_step, facts["bytes"] / a_step
            rows.append(
                (
                    case["case"],
                    "reticent" if name == "ours" else "not private",
                    f"{operations / 1e9:,.0f}",
                    f"{operations / fastest['product']:.0%}",
                    f"{moved / 1e9:,.1f}",
                    f"{moved / fastest['copy']:.0%}",
                )
            )
    text = (
        "Both are divided by the same work: the arithmetic of the ordinary step, and the bytes that it would "
        "move if no operation were fused with another (so more than 100% is possible), as XLA counts them. "
        "For comparison, on this machine in the same run: a product of two matrices of side 2048 reaches "
        f"{fastest['product'] / 1e9:,.0f} GFLOP/s, and adding 1 to 256 MB moves "
        f"{fastest['copy'] / 1e9:,.1f} GB/s."
    )
    header = ("case", "", "GFLOP/s", "of the product", "GB/s", "of the copy")
    answers = [{"what": what, "answers": worker.answers} for what, worker in limits.items()]
    return Section("How far from the machine", text, header, rows, []), answers


def _workers(case: Case, pythons: Mapping[str, Path]) -> dict[str, Worker]:
    asked = {"case": case}
    workers = {name: Worker(name, asked) for name in ("ours", "noise", "plain_jax")}
    if "opacus" in pythons:
        for mode in ("hooks", "ghost"):
            workers[mode] = Worker("opacus_steps", {**asked, "mode": mode}, pythons["opacus"])
    if "jax-privacy" in pythons:
        workers["jax-privacy"] = Worker("jax_privacy_steps", asked, pythons["jax-privacy"])
    return workers


def _row(case: Case, workers: Mapping[str, Worker]) -> list[str]:
    names = ("ours", "noise", "plain_jax", "hooks", "ghost", "jax-privacy")
    cells = [milliseconds(workers[name].seconds()) if name in workers else "-" for name in names]
    counts = {name: worker.facts["parameters"] for name, worker in workers.items() if worker.facts}
    remarks = [
        f"{name}: {worker.error or worker.facts['choice']}"
        for name, worker in workers.items()
        if worker.error or "choice" in worker.facts
    ]
    if len(set(counts.values())) > 1:
        remarks.append(f"the networks differ: {counts}")
    return [
        case.name,
        f"{counts.get('ours', 0):,}",
        *cells,
        "; ".join(remarks).replace("plain_jax", "not private"),
    ]


def _checks(case: Case, workers: Mapping[str, Worker]) -> list[Check]:
    ours, plain = workers["ours"].seconds(), workers["plain_jax"].seconds()
    checks = [Check(f"{case.name}: ours / not private", ratio(ours, plain), "<=", case.bar)]
    noise = ratio(workers["noise"].seconds(), ours)
    if noise is not None and checks[0].value is not None:
        share = f" (noise is {shown(100 * noise)} % of ours)"
        checks[0] = checks[0]._replace(what=checks[0].what + share)
    modes = [workers[mode] for mode in ("hooks", "ghost") if mode in workers]
    if modes:
        times = [worker.seconds() for worker in modes]
        best = min((time for time in times if time is not None), default=None)
        why = modes[0].error
        checks.append(
            Check(f"{case.name}: Opacus's best / ours", ratio(best, ours), ">=", OPACUS_BAR, why=why)
        )
    if "jax-privacy" in workers:
        peer = workers["jax-privacy"]
        value = ratio(peer.seconds(), ours)
        checks.append(Check(f"{case.name}: jax-privacy / ours", value, ">=", JAX_PRIVACY_BAR, why=peer.error))
    return checks


def _kept(worker: Worker) -> dict[str, Any]:
    return {"facts": worker.facts, "error": worker.error, "answers": worker.answers}
