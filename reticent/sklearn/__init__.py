"""The scikit-learn door: estimators whose fit costs privacy, and says how much.

    model = PrivateLogisticRegression(epsilon=1.0, norm=1.0, classes=[0, 1]).fit(X, y)
    print(model.guarantee_)

They go into pipelines and cross-validation like any others. Whatever they need to know about the data
beforehand is declared, or found by a release that the same budget pays for.
"""

from reticent.sklearn.budget import SharedBudget
from reticent.sklearn.linear import PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression
from reticent.sklearn.pate import PateClassifier
from reticent.sklearn.perceptron import PrivateMLPClassifier
from reticent.sklearn.scaler import PrivateScaler
from reticent.sklearn.search import PrivateSearch

__all__ = [
    "PateClassifier",
    "PrivateLinearRegression",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateMLPClassifier",
    "PrivateScaler",
    "PrivateSearch",
    "SharedBudget",
]
