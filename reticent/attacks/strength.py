"""Which attack is the strongest, and when what it found is an alarm: one rule each.

The terminal, attack.json, the report and the demonstration all ask here, so they cannot disagree. Both
functions take attacks as `attack.json` holds them: by name, each with what `Measured.to_json` gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ALARMING_AUC = 0.7


def strongest_attack(attacks: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Names the attack that finds most members at the smallest false-positive rate that can be measured.

    An attack that is sure of a few people harms them, however poorly it does on everybody else, and the AUC
    hides it in an average. So the true-positive rate at a small false-positive rate decides, and the AUC only
    breaks ties. With too few outsiders a rate is the outcome of a handful of records: it is skipped.

        no attacks                             None
        no rate can be measured                the largest AUC
        equal rates and equal AUCs             the first of them

    Example:
        >>> def found(tpr, auc):
        ...     return {
        ...         "tpr_at_fpr": [{"is_resolved": True, "true_positive_rate": {"value": tpr}}],
        ...         "auc": {"value": auc, "low": auc - 0.02},
        ...     }
        >>> strongest_attack({"threshold": found(0.01, 0.62), "likelihood": found(0.08, 0.58)})
        'likelihood'
        >>> strongest_attack({}) is None
        True

    Reference:
        Carlini et al. (2022), Section IV, arXiv:2112.03570v2: attacks are to be compared at low
        false-positive rates.
    """

    def strength(name: str) -> tuple[list[float], float]:
        found = attacks[name]
        measurable = [rate for rate in found["tpr_at_fpr"] if rate["is_resolved"]]
        return [rate["true_positive_rate"]["value"] for rate in measurable[:1]], found["auc"]["value"]

    return max(attacks, key=strength, default=None)


def is_alarming(attacks: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether an attack tells members from outsiders so well that the model should not be published.

    It does if the whole 95% interval of its AUC lies above `ALARMING_AUC`: shown a member and an outsider,
    it is right more than 7 times in 10, where guessing is right 5 times. The lower end is compared because
    few records make a large AUC by luck. Every attack counts, not only the strongest: one is enough.

        no attacks                             False
        AUC 0.75, interval 0.66 to 0.82        False: luck may explain it
        AUC 0.75, interval 0.73 to 0.77        True

    Example:
        >>> found = {"tpr_at_fpr": [], "auc": {"value": 0.75, "low": 0.73, "high": 0.77}}
        >>> is_alarming({"threshold": found}), is_alarming({})
        (True, False)
    """
    return any(found["auc"]["low"] > ALARMING_AUC for found in attacks.values())
