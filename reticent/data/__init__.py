"""Where records come from: datasets, domains (what is public of a table), files, a catalog of named data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent.core.pages import open_page

if TYPE_CHECKING:
    from reticent.data import catalog as catalog
    from reticent.data.allocation import Allocation as Allocation
    from reticent.data.augmentation import chain as chain
    from reticent.data.augmentation import random_flip as random_flip
    from reticent.data.augmentation import random_shift as random_shift
    from reticent.data.cyclic import Cyclic as Cyclic
    from reticent.data.cyclic import CyclicPoisson as CyclicPoisson
    from reticent.data.cyclic import participation_of as participation_of
    from reticent.data.dataset import Dataset as Dataset
    from reticent.data.domain import Domain as Domain
    from reticent.data.drafting import draft as draft
    from reticent.data.encoding import encode as encode
    from reticent.data.encoding import feature_names as feature_names
    from reticent.data.encoding import has_target as has_target
    from reticent.data.files import open_table as open_table
    from reticent.data.kinds import Category as Category
    from reticent.data.kinds import Ignored as Ignored
    from reticent.data.kinds import Integer as Integer
    from reticent.data.kinds import Label as Label
    from reticent.data.kinds import Number as Number
    from reticent.data.limited import Limited as Limited
    from reticent.data.preparation import prepare as prepare
    from reticent.data.preparation.noise import PreparationNoise as PreparationNoise
    from reticent.data.sampling import Batch as Batch
    from reticent.data.sampling import FixedSize as FixedSize
    from reticent.data.sampling import FullBatch as FullBatch
    from reticent.data.sampling import Poisson as Poisson
    from reticent.data.sampling import Sampler as Sampler
    from reticent.data.sampling import Shuffled as Shuffled
    from reticent.data.sampling import places_among as places_among

open_page(__name__)
