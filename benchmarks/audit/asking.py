"""Runs the peer on scores of ours."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.training.environments import PEERS, default_folder, interpreter


def peer_epsilons(scores: np.ndarray, included: np.ndarray, delta: float) -> dict[str, list[float]]:
    """What each method of the peer says about each row of scores."""
    python = interpreter(PEERS["jax-privacy"], default_folder())
    worker = Path(__file__).with_name("peer.py")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scores.npz"
        np.savez(path, scores=scores, included=included)
        command = [str(python), str(worker), str(path), str(delta)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=sys.stderr, text=True)
    return json.loads(done.stdout.splitlines()[-1])
