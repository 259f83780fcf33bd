"""Scikit-learn estimators whose fit costs privacy, and reports how much.

    model = PrivateLogisticRegression(epsilon=1.0, norm=1.0, classes=[0, 1]).fit(X, y)
    print(model.guarantee_)

They work in pipelines and cross-validation like any others. What they need to know about the data
beforehand is declared, or found by a release that the same budget pays for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent.core.pages import open_page

if TYPE_CHECKING:
    from reticent.sklearn.additive import PrivateAdditiveClassifier as PrivateAdditiveClassifier
    from reticent.sklearn.additive import PrivateAdditiveRegressor as PrivateAdditiveRegressor
    from reticent.sklearn.budget import SharedBudget as SharedBudget
    from reticent.sklearn.encoders import PrivateEncoder as PrivateEncoder
    from reticent.sklearn.encoders import PrivateTableEncoder as PrivateTableEncoder
    from reticent.sklearn.linear import PrivateLinearSVC as PrivateLinearSVC
    from reticent.sklearn.linear import PrivateLogisticRegression as PrivateLogisticRegression
    from reticent.sklearn.linear_regression import PrivateLinearRegression as PrivateLinearRegression
    from reticent.sklearn.notices import PublicLabelsWarning as PublicLabelsWarning
    from reticent.sklearn.notices import RepeatedFitWarning as RepeatedFitWarning
    from reticent.sklearn.pate import PateClassifier as PateClassifier
    from reticent.sklearn.perceptron import PrivateMLPClassifier as PrivateMLPClassifier
    from reticent.sklearn.scaler import PrivateScaler as PrivateScaler
    from reticent.sklearn.search import PrivateSearch as PrivateSearch

open_page(__name__)
