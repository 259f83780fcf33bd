"""Fits diffprivlib's logistic regression: run by the interpreter of its own environment.

python diffprivlib_worker.py ROWS.npz EPSILON SEEDS    prints accuracies and seconds as JSON
"""

import json
import sys
import time
import warnings

import numpy as np
from diffprivlib.models import (  # type: ignore[import-not-found]  # of the peer's environment
    LogisticRegression,
)


def main(path: str, epsilon: str, seeds: str) -> None:
    warnings.simplefilter("ignore")
    accuracy, seconds = [], []
    with np.load(path) as rows:
        data = {name: rows[name] for name in rows.files}
    for seed in range(int(seeds)):
        started = time.perf_counter()
        model = LogisticRegression(epsilon=float(epsilon), data_norm=1.0, max_iter=1000, random_state=seed)
        model.fit(data["x"], data["y"])
        seconds.append(time.perf_counter() - started)
        accuracy.append(float(model.score(data["test_x"], data["test_y"])))
    print(json.dumps({"accuracy": accuracy, "seconds": seconds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
