"""Correlated noise: matrix-factorisation strategies, their sensitivity and their error. Maths in float64."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent.core.pages import open_page

if TYPE_CHECKING:
    from reticent.noise.error import ExpectedError as ExpectedError
    from reticent.noise.error import matrix_error as matrix_error
    from reticent.noise.error import toeplitz_error as toeplitz_error
    from reticent.noise.named import banded as banded
    from reticent.noise.named import blt as blt
    from reticent.noise.named import by_name as by_name
    from reticent.noise.named import dense as dense
    from reticent.noise.named import independent as independent
    from reticent.noise.named import toeplitz as toeplitz
    from reticent.noise.named import tree as tree
    from reticent.noise.optimal_matrix import optimal_matrix as optimal_matrix
    from reticent.noise.optimal_series import Buffers as Buffers
    from reticent.noise.optimal_series import optimal_buffers as optimal_buffers
    from reticent.noise.optimal_series import optimal_toeplitz as optimal_toeplitz
    from reticent.noise.participation import Participation as Participation
    from reticent.noise.sensitivity import matrix_sensitivity as matrix_sensitivity
    from reticent.noise.sensitivity import toeplitz_sensitivity as toeplitz_sensitivity
    from reticent.noise.series import square_root as square_root
    from reticent.noise.strategies import NoiseStrategy as NoiseStrategy
    from reticent.noise.strategies import on_grid as on_grid

open_page(__name__)
