"""Run in the peer's own environment: DP-EBM on a table. Prints one JSON line.

Its bounds and categories are taken from the data, as if they were public: that favours it.
"""

# pyright: reportMissingImports=false
import json
import sys
import warnings
from typing import Any

import numpy as np
import pandas as pd
from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

warnings.filterwarnings("ignore")
train, test, target, epsilon, delta, is_number = sys.argv[1:7]
read: Any = pd.read_csv
ours, asked = (read(path, na_values=["", "NA", "?", "nan"]) for path in (train, test))
features = [name for name in ours.columns if name != target and ours[name].nunique() > 1]
for name in features:
    if ours[name].dtype == object or ours[name].dtype == bool or str(ours[name].dtype) == "str":
        common = ours[name].astype(str).value_counts().index[:200]
        for frame in (ours, asked):
            words = frame[name].astype(str)
            frame[name] = words.where(words.isin(common), "other")
    else:
        middle = ours[name].median()
        for frame in (ours, asked):
            frame[name] = frame[name].astype(float).fillna(middle)
features = [
    name for name in features if not (ours[name].dtype.kind not in "fi" and ours[name].nunique() > 150)
]
kinds = ["continuous" if ours[name].dtype.kind in "fi" else "nominal" for name in features]
bounds = {
    place: (float(ours[name].min()), float(ours[name].max()))
    for place, (name, kind) in enumerate(zip(features, kinds, strict=True))
    if kind == "continuous"
}
options = {
    "epsilon": float(epsilon),
    "delta": float(delta),
    "feature_names": features,
    "feature_types": kinds,
    "privacy_bounds": bounds,
    "random_state": None,
}
x, x_asked = ours[features], asked[features]
if is_number == "number":
    y = ours[target].astype(float)
    options["privacy_target_min"], options["privacy_target_max"] = float(y.min()), float(y.max())
    found = DPExplainableBoostingRegressor(**options).fit(x, y).predict(x_asked)
    print(json.dumps({"predicted": np.asarray(found, float).tolist()}))
else:
    y = ours[target].astype(str)
    model = DPExplainableBoostingClassifier(**options).fit(x, y)
    print(
        json.dumps({"classes": list(map(str, model.classes_)), "odds": model.predict_proba(x_asked).tolist()})
    )
