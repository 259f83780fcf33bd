"""Private training: gradients of bounded length, noise, and the loop around them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent.core.pages import open_page

if TYPE_CHECKING:
    from reticent.training import averages as averages
    from reticent.training import callbacks as callbacks
    from reticent.training import theory as theory
    from reticent.training import trainable as trainable
    from reticent.training.adaptive_norm import AdaptiveNorm as AdaptiveNorm
    from reticent.training.checkpoint import Checkpoints as Checkpoints
    from reticent.training.clipping import Clipping as Clipping
    from reticent.training.clipping import automatic as automatic
    from reticent.training.clipping import clip_to_norm as clip_to_norm
    from reticent.training.clipping import flat as flat
    from reticent.training.clipping import lipschitz as lipschitz
    from reticent.training.clipping import per_layer as per_layer
    from reticent.training.data_warnings import UnreleasedWarning as UnreleasedWarning
    from reticent.training.evaluation import Moment as Moment
    from reticent.training.execution import Execution as Execution
    from reticent.training.gradients import GradientSum as GradientSum
    from reticent.training.gradients import clipped_gradient_sum as clipped_gradient_sum
    from reticent.training.gradients.choices import explain as explain
    from reticent.training.loop import train as train
    from reticent.training.own_loop import OWN_LOOP as OWN_LOOP
    from reticent.training.own_loop import PrivateBatch as PrivateBatch
    from reticent.training.own_loop import private_batches as private_batches
    from reticent.training.own_loop import private_noise as private_noise
    from reticent.training.places import Places as Places
    from reticent.training.places import places_for as places_for
    from reticent.training.plan import Plan as Plan
    from reticent.training.projection import onto_ball as onto_ball
    from reticent.training.projection import onto_box as onto_box
    from reticent.training.projection import onto_simplex as onto_simplex
    from reticent.training.reporting import Stop as Stop
    from reticent.training.run import Run as Run
    from reticent.training.step import TrainState as TrainState
    from reticent.training.vectorised import private_recipe as private_recipe

open_page(__name__)
