"""A private scikit-learn pipeline, cross-validated on one budget.

    python examples/sklearn_pipeline.py

Nobody declared the ranges of these ten columns, so the scaler finds them privately, and the classifier fits
what comes out. Both charge one budget before they draw noise, and so does every fold of the cross-validation:
to look three times and then fit once is to fit four times. The folds are made by coins, so that one record
more or less moves no other.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import PredefinedSplit, cross_val_score
from sklearn.pipeline import make_pipeline

from reticent import BudgetExceeded
from reticent.sklearn import PrivateLogisticRegression, PrivateScaler, SharedBudget

tumours, is_benign = load_breast_cancer(return_X_y=True)
tumours = tumours[:, :10]  # fewer columns, less noise on the range of each

budget = SharedBudget(epsilon=2.8, delta=1e-4)
scaler = PrivateScaler(epsilon=1.0, delta=1e-5, budget=budget)
classifier = PrivateLogisticRegression(
    epsilon=1.0,
    delta=1e-5,
    norm=10**0.5,  # no row is longer, of ten columns within [-1, 1]
    classes=[0, 1],
    method="descent",
    budget=budget,
)
pipeline = make_pipeline(scaler, classifier)

# Without "raise", a fold that the budget refuses would be a score of NaN and a warning.
folds = PredefinedSplit(np.random.default_rng().integers(3, size=len(tumours)))
scores = cross_val_score(pipeline, tumours, is_benign, cv=folds, error_score="raise")  # type: ignore[arg-type]
pipeline.fit(tumours, is_benign)

print("one fit of the scaler:    ", scaler.guarantee_)
print("one fit of the classifier:", classifier.guarantee_)
print("all four fits of both:    ", budget.guarantee())
print(f"accuracy on the folds: {', '.join(f'{score:.3f}' for score in scores)}")
print("(computed on the records without noise: yours to look at, not covered by the guarantee)")

try:
    pipeline.fit(tumours, is_benign)
except BudgetExceeded as refused:
    print(f"a fifth fit: {refused}")
