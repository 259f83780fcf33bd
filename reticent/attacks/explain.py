"""What an attack means, for somebody who has to decide about a model."""

from __future__ import annotations

from reticent.attacks.battery import Battery
from reticent.attacks.metrics import Measured

_LITTLE, _MUCH = 0.55, 0.7  # of the area under the curve


def explained(found: Battery) -> list[str]:
    """At most ten plain sentences."""
    measured, gap = found.strongest.measured, found.accuracies
    said = [
        f"Attacked with {len(found.results)} attacks and {found.shadows} shadow models; "
        f"{measured.members:,} records were in the training set, {measured.outsiders:,} were not.",
        f"The model is right about {gap.train:.1%} of the rows it learned from and "
        f"{gap.test:.1%} of those it never saw: a large difference is what attacks live on.",
        f"The strongest attack is '{found.strongest.name}': {found.strongest.what}.",
    ]
    return [*said, *in_words(measured), *_advice(measured)]


def in_words(measured: Measured) -> list[str]:
    """What the numbers of one attack say."""
    said = [
        f"Picking a member and an outsider, it tells which is which {measured.auc.value:.1%} of the time; "
        f"a coin does so 50% of the time ({measured.auc.low:.1%} to {measured.auc.high:.1%}).",
    ]
    for rate in measured.tpr_at_fpr:
        found = rate.true_positive_rate
        line = (
            f"While it accuses {rate.false_positive_rate:.1%} of outsiders in vain, it finds "
            f"{found.value:.1%} of the members ({found.low:.1%} to {found.high:.1%})."
        )
        said.append(f"{line} {rate.note}".strip())
    return said


def _advice(measured: Measured) -> list[str]:
    lowest = measured.auc.low
    if lowest > _MUCH:
        verdict = "This model gives away who was in its training set: do not publish it as it is."
    elif lowest > 0.5:
        verdict = "This model gives away a little about who was in its training set."
    elif measured.auc.high < _LITTLE:
        verdict = "These attacks learned next to nothing about who was in."
    else:
        verdict = "These attacks found nothing that luck would not explain; more records would say more."
    return [verdict, "An attack that fails proves nothing: only the guarantee holds against every attack."]
