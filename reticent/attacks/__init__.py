"""What a model gives away: attacks on what it says, in NumPy, so that any framework's outputs will do.

    members = Outputs.from_probabilities(probabilities, labels)
    scores = Scores(members=threshold.scores(members), outsiders=threshold.scores(outsiders))
    print(metrics.measure(scores))

An attack receives outputs, a predictor or a training function. It never imports what trained the model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent.core.pages import open_page

if TYPE_CHECKING:
    from reticent.attacks import battery as battery
    from reticent.attacks import defences as defences
    from reticent.attacks import metrics as metrics
    from reticent.attacks.explain import explain as explain
    from reticent.attacks.foreign_files import read_outputs as read_outputs
    from reticent.attacks.foreign_files import read_scores as read_scores
    from reticent.attacks.inference.attribute import Sensitive as Sensitive
    from reticent.attacks.inference.attribute import infer_attribute as infer_attribute
    from reticent.attacks.inference.property import infer_property as infer_property
    from reticent.attacks.membership import entropy as entropy
    from reticent.attacks.membership import gap as gap
    from reticent.attacks.membership import label_only as label_only
    from reticent.attacks.membership import population as population
    from reticent.attacks.membership import relative as relative
    from reticent.attacks.membership import shadow_classifier as shadow_classifier
    from reticent.attacks.membership import threshold as threshold
    from reticent.attacks.membership.games import ATTACKS as ATTACKS
    from reticent.attacks.membership.games import Attack as Attack
    from reticent.attacks.membership.games import Game as Game
    from reticent.attacks.membership.likelihood import lira as lira
    from reticent.attacks.membership.likelihood import lira_offline as lira_offline
    from reticent.attacks.predictors import outputs_of as outputs_of
    from reticent.attacks.reconstruction import extraction as extraction
    from reticent.attacks.reconstruction import inversion as inversion
    from reticent.attacks.reconstruction import leakage as leakage
    from reticent.attacks.reconstruction import malicious as malicious
    from reticent.attacks.scores import Outputs as Outputs
    from reticent.attacks.scores import Scores as Scores
    from reticent.attacks.shadows.one_by_one import train_one_by_one as train_one_by_one
    from reticent.attacks.shadows.outputs import Shadows as Shadows
    from reticent.attacks.shadows.outputs import balanced_halves as balanced_halves
    from reticent.attacks.shadows.recipes import plain_recipe as plain_recipe
    from reticent.attacks.shadows.training import Queries as Queries
    from reticent.attacks.shadows.training import train_shadows as train_shadows

open_page(__name__)
