"""Run by the interpreter of jax_privacy: the strategies that its optimisers find, and how long they take, as
JSON.

python correlated_noise_peer.py '[[2052, 342], ...]' '[[300, 60000, 600, 1.0, 1e-6], ...]'
"""

from __future__ import annotations

import json
import sys
import time

import jax
from jax_privacy.matrix_factorization import toeplitz  # type: ignore[import-not-found]

lengths, budgets = json.loads(sys.argv[1]), json.loads(sys.argv[2])
found = {"toeplitz": [], "amplified": []}
for steps, bands in lengths:
    started = time.perf_counter()
    coefficients = jax.block_until_ready(toeplitz.optimize_banded_toeplitz(n=steps, bands=bands))
    seconds = time.perf_counter() - started
    found["toeplitz"].append({"column": coefficients.tolist(), "seconds": seconds})
for steps, examples, batch_size, epsilon, delta in budgets:
    started = time.perf_counter()
    coefficients, deviation = toeplitz.optimize_coefs_for_amplifications(
        steps, dataset_size=examples, expected_batch_size=batch_size, epsilon=epsilon, delta=delta
    )
    seconds = time.perf_counter() - started
    found["amplified"].append(
        {"column": coefficients.tolist(), "deviation": float(deviation), "seconds": seconds}
    )
print(json.dumps(found))
