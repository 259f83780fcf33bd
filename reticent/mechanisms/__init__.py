"""How one number is made private: events (what was released), sensitivity, and the noise itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent.core.pages import open_page

if TYPE_CHECKING:
    from reticent.mechanisms.adjacency import Adjacency as Adjacency
    from reticent.mechanisms.batch_events import Allocated as Allocated
    from reticent.mechanisms.batch_events import FixedSizeSampled as FixedSizeSampled
    from reticent.mechanisms.batch_events import PoissonSampled as PoissonSampled
    from reticent.mechanisms.batch_events import TruncatedPoissonSampled as TruncatedPoissonSampled
    from reticent.mechanisms.events import ApproximateDp as ApproximateDp
    from reticent.mechanisms.events import BestOfTrials as BestOfTrials
    from reticent.mechanisms.events import Composed as Composed
    from reticent.mechanisms.events import Event as Event
    from reticent.mechanisms.events import ExponentialMechanism as ExponentialMechanism
    from reticent.mechanisms.events import Gaussian as Gaussian
    from reticent.mechanisms.events import Laplace as Laplace
    from reticent.mechanisms.events import NonPrivate as NonPrivate
    from reticent.mechanisms.events import PureDp as PureDp
    from reticent.mechanisms.events import RandomizedResponse as RandomizedResponse
    from reticent.mechanisms.events import Repeated as Repeated
    from reticent.mechanisms.gaussian import add_gaussian_noise as add_gaussian_noise
    from reticent.mechanisms.laplace import add_laplace_noise as add_laplace_noise
    from reticent.mechanisms.laplace import add_vector_laplace_noise as add_vector_laplace_noise
    from reticent.mechanisms.response import estimate_shares as estimate_shares
    from reticent.mechanisms.response import randomize as randomize
    from reticent.mechanisms.selection import exponential_mechanism as exponential_mechanism
    from reticent.mechanisms.selection import noisy_max_gaussian as noisy_max_gaussian
    from reticent.mechanisms.selection import noisy_max_laplace as noisy_max_laplace
    from reticent.mechanisms.sensitivity import BoundedSum as BoundedSum
    from reticent.mechanisms.trials import draw_trials as draw_trials

open_page(__name__)
