"""Trains DP-EBM with its default settings: run by the interpreter of its own environment.

python dp_ebm.py TRAIN.csv TEST.csv EPSILON DELTA SEED    prints accuracy, AUROC and seconds as JSON
"""

import json
import sys
import time
import warnings

import pandas as pd
from interpret.privacy import (  # type: ignore[import-not-found]  # of the peer's environment
    DPExplainableBoostingClassifier,
)
from sklearn.metrics import roc_auc_score


def main(train: str, test: str, epsilon: str, delta: str, seed: str) -> None:
    warnings.simplefilter("ignore")  # that kinds and bounds are taken from the data: the page says so
    rows, held_out = (pd.read_csv(path, header=None, skipinitialspace=True) for path in (train, test))
    target = rows.columns[-1]
    started = time.perf_counter()
    model = DPExplainableBoostingClassifier(
        epsilon=float(epsilon), delta=float(delta), random_state=int(seed)
    )
    model.fit(rows.drop(columns=target), rows[target])
    seconds = time.perf_counter() - started
    scores = model.predict_proba(held_out.drop(columns=target))[:, 1]
    truth = held_out[target] == model.classes_[1]
    accuracy = float(((scores > 0.5) == truth).mean())
    print(
        json.dumps({"accuracy": accuracy, "auroc": float(roc_auc_score(truth, scores)), "seconds": seconds})
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
