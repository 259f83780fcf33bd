"""What is drawn is whole-number arithmetic: no optimisation of a compiler changes a bit of it.

So the laws of draws can be tested on programs that are compiled in a hurry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import AS_SHIPPED

from reticent.core.keys import Keys, Stream
from reticent.core.whole_normals import whole_normals
from reticent.data.sampling import Poisson

STEPS = jnp.arange(50)
DRAWS: dict[str, Callable[[jax.Array], Any]] = {
    "normal numbers": lambda key: whole_normals(key, 40_000, multiple=700),
    "Poisson by coins": lambda key: Poisson(examples=500, batch_size=50, largest=55).draw(key, STEPS, 500),
    "Poisson by count": lambda key: Poisson(examples=5_000, batch_size=50).draw(key, STEPS, 5_000),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
@pytest.mark.thorough
def test_a_draw_does_not_depend_on_how_it_is_compiled(draw: Callable[[jax.Array], Any]) -> None:
    key = Keys.seeded(0).take(Stream.NOISE, steps=range(50))
    found = [jax.tree.leaves(jax.jit(draw, compiler_options=how)(key)) for how in (None, AS_SHIPPED)]
    assert found[0]
    assert all(np.array_equal(left, right) for left, right in zip(*found, strict=True))
