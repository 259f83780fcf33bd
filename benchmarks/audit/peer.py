"""jax-privacy's auditor on scores from a file. Runs in the peer's environment, and imports nothing of ours.

python peer.py scores.npz delta      where the file holds `scores` and `included`, one row a trial
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np


def main(path: str, delta: float) -> None:
    from jax_privacy import auditing  # type: ignore[import-not-found]

    split = auditing.Split(seed=0)
    ways: dict[str, Any] = {
        "one_run, Bonferroni": lambda a: a.epsilon_one_run(0.05, delta),
        "one_run, Split": lambda a: a.epsilon_one_run(0.05, delta, threshold_strategy=split),
        "one_run_fdp, Split": lambda a: a.epsilon_one_run_fdp(0.05, delta, threshold_strategy=split),
        "clopper_pearson, Bonferroni": lambda a: a.epsilon_clopper_pearson(0.05, delta),
        "from_gdp": lambda a: a.epsilon_from_gdp(0.05, delta),
    }
    file = np.load(path)
    found: dict[str, list[float]] = {name: [] for name in ways}
    for scores, included in zip(file["scores"], file["included"], strict=True):
        auditor = auditing.CanaryScoreAuditor(scores[included], scores[~included])
        for name, way in ways.items():
            found[name].append(float(way(auditor)))
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
