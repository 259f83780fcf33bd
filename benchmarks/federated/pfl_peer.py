"""Processor seconds of pfl 0.6.0 for a round, at the settings of `benchmarks.federated.speed`.

It runs in an environment of its own, on TensorFlow, one client after the other as its backend does:

    python -m venv peer && peer/bin/pip install pfl==0.6.0 tensorflow-cpu tensorflow-probability tf-keras
    TF_USE_LEGACY_KERAS=1 peer/bin/python benchmarks/federated/pfl_peer.py
"""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import tensorflow as tf  # type: ignore[import-not-found]  # all of the peer's environment
from pfl.aggregate.simulate import SimulatedBackend  # type: ignore[import-not-found]
from pfl.algorithm.base import NNAlgorithmParams  # type: ignore[import-not-found]
from pfl.algorithm.federated_averaging import FederatedAveraging  # type: ignore[import-not-found]
from pfl.data.dataset import Dataset  # type: ignore[import-not-found]
from pfl.data.federated_dataset import FederatedDataset  # type: ignore[import-not-found]
from pfl.hyperparam import NNTrainHyperParams  # type: ignore[import-not-found]
from pfl.model.tensorflow import TFModel  # type: ignore[import-not-found]
from pfl.privacy.gaussian_mechanism import GaussianMechanism  # type: ignore[import-not-found]
from pfl.privacy.privacy_mechanism import (  # type: ignore[import-not-found]
    CentrallyAppliedPrivacyMechanism,
)

ROUNDS, NORM = 2, 0.5
CASES = ((1000, 10, 5, 64, ()), (500, 20, 5, 64, (32,)))  # the first of `speed`


def main() -> None:
    for clients, rows, batch, pixels, hidden in CASES:
        draw = np.random.default_rng(0)
        x = draw.normal(size=(clients, rows, pixels)).astype(np.float32)
        y = draw.integers(10, size=(clients, rows)).astype(np.int32)
        model, backend = _model(pixels, hidden), _backend(x, y)
        for rounds, is_timed in ((1, False), (ROUNDS, True)):  # the first traces
            started = time.process_time()
            _train(model, backend, rounds, clients, batch)
            if is_timed:
                each = (time.process_time() - started) / rounds
                print(f"{clients} clients x {rows} rows: {each:.2f} processor seconds per round")


def _model(pixels: int, hidden: tuple[int, ...]) -> Any:
    layers = [tf.keras.layers.Dense(units, "relu") for units in hidden]
    keras = tf.keras.Sequential([tf.keras.Input((pixels,)), *layers, tf.keras.layers.Dense(10)])
    keras.compile(loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return TFModel(keras, metrics={}, central_optimizer=tf.keras.optimizers.SGD(1.0))


def _backend(x: np.ndarray, y: np.ndarray) -> Any:
    turns = itertools.cycle(range(len(x)))
    data = FederatedDataset(
        lambda user: Dataset(raw_data=[tf.constant(x[user]), tf.constant(y[user])], user_id=str(user)),
        lambda: next(turns),
    )
    noise = CentrallyAppliedPrivacyMechanism(
        GaussianMechanism(clipping_bound=NORM, relative_noise_stddev=1.0)
    )
    return SimulatedBackend(training_data=data, val_data=None, postprocessors=[noise])


def _train(model: Any, backend: Any, rounds: int, clients: int, batch: int) -> None:
    plan = NNAlgorithmParams(
        central_num_iterations=rounds,
        evaluation_frequency=10**6,
        train_cohort_size=clients,
        val_cohort_size=0,
    )
    local = NNTrainHyperParams(local_num_epochs=1, local_learning_rate=0.1, local_batch_size=batch)
    FederatedAveraging().run(plan, backend, model, local, None, callbacks=[])


if __name__ == "__main__":
    main()
