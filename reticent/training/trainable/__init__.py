"""Which parameters learn: some leaves, biases, the last layer, or low-rank factors beside frozen weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent.core.pages import open_page

if TYPE_CHECKING:
    from reticent.training.trainable.division import Division as Division
    from reticent.training.trainable.division import Trainable as Trainable
    from reticent.training.trainable.division import divide as divide
    from reticent.training.trainable.low_rank import Lora as Lora
    from reticent.training.trainable.low_rank import lora as lora
    from reticent.training.trainable.selection import Selector as Selector
    from reticent.training.trainable.selection import biases as biases
    from reticent.training.trainable.selection import last_layer as last_layer
    from reticent.training.trainable.selection import norms_and_biases as norms_and_biases

open_page(__name__)
