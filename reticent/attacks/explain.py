"""What an attack means, for somebody who has to decide about a model."""

from __future__ import annotations

from reticent.attacks.battery import Battery
from reticent.attacks.metrics import Measured

_NEXT_TO_NOTHING = 0.55  # an AUC: if all of its interval lies below, a member is barely told from an outsider


def explain(found: Battery) -> list[str]:
    """Says in at most ten plain sentences what the attacks found.

    Example:
        >>> import numpy as np
        >>> from reticent.attacks.battery import run_without_shadows
        >>> from reticent.attacks.scores import Outputs
        >>> labels = np.arange(30) % 3
        >>> sure, vague = (Outputs.from_logits(scale * np.eye(3)[labels], labels) for scale in (9, 1))
        >>> len(explain(run_without_shadows(sure, vague))) <= 10
        True
    """
    measured, gap = found.strongest.measured, found.accuracies
    sentences = [
        f"Attacked with {len(found.results)} attacks and {found.shadows} shadow models; "
        f"{measured.members:,} records were in the training set, {measured.outsiders:,} were not.",
        f"The model is right about {gap.train:.1%} of the rows it was trained on and "
        f"{gap.test:.1%} of the rows it never saw. The larger the gap, the easier the attack.",
        f"The strongest attack is '{found.strongest.name}': {found.strongest.what}.",
    ]
    failed = "An attack that fails proves nothing: only the guarantee holds against every attack."
    return [*sentences, *describe(measured), conclude(found), failed]


def describe(measured: Measured) -> list[str]:
    """Says what the numbers of one attack mean."""
    worse = ", so on the whole it does no better" if measured.auc.value < 0.5 else ""
    sentences = [
        f"Shown a member and an outsider, it tells which is which {measured.auc.value:.1%} of the time "
        f"({measured.auc.low:.1%} to {measured.auc.high:.1%}); guessing gives 50%{worse}.",
    ]
    for rate in measured.tpr_at_fpr:
        found = rate.true_positive_rate
        sentence = (
            f"At a false-positive rate of {rate.false_positive_rate:.1%} it finds {found.value:.1%} of the "
            f"members ({found.low:.1%} to {found.high:.1%})."
        )
        sentences.append(f"{sentence} {rate.note}".strip())
    return sentences


def conclude(found: Battery) -> str:
    """Says in one sentence what the attacks mean for the model; `attack.json` keeps it as its verdict."""
    measured = found.strongest.measured
    if found.is_alarming:
        return "This model gives away who was in its training set: do not publish it as it is."
    if measured.auc.low > 0.5:
        return "This model gives away a little about who was in its training set."
    if measured.auc.high < _NEXT_TO_NOTHING:
        return "These attacks learned next to nothing about who was in the training set."
    return "These attacks found nothing beyond chance; more records would make this more certain."
