"""Private synthetic data: a table, or images, that anyone may use.

generator = rt.synthetic.fit("patients.csv", epsilon=1.0, folder="patients.generator")
generator.sample(1000)

request      what is asked for, and what it is about
pricing      the methods, and what each will cost
pipeline     from a table to a generator in a folder
tables/      noisy counts of columns, and a graphical model that explains them
images/      one noisy sum of features, or a GAN whose discriminator is private
generators   samples from a finished generator, at no further cost
quality/     how good a sample is, and what it gives away
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from reticent.core.pages import open_page

if TYPE_CHECKING:
    from reticent.core.keys import Keys
    from reticent.synthetic.generators import Generator as Generator
    from reticent.synthetic.images import embedding as embedding
    from reticent.synthetic.images import gan as gan
    from reticent.synthetic.tables import table_model as table_model

__all__ = ["fit", "load"]


def fit(
    source: str | Path, *, epsilon: float, folder: str | Path, keys: Keys | None = None, **more: Any
) -> Generator:
    """Learns a generator from a table, or from images of the catalog, into a new folder.

    Args:
        epsilon: what may be spent in all, preparation included.
        more: other fields of `request.SynthRequest`: delta, target, domain, ignore, method, ledger, dataset.

    Guarantee:
        The folder, and everything that is sampled from it, costs what its `record.result.guarantee` says.
    """
    from reticent.synthetic.generators import Generator
    from reticent.synthetic.pipeline import make
    from reticent.synthetic.request import SynthRequest

    request = SynthRequest(source=str(source), epsilon=epsilon, **more)
    return Generator(make(request, Path(folder), keys=keys).folder)


def load(folder: str | Path) -> Generator:
    """The generator in a folder, with everything checked."""
    from reticent.synthetic.generators import Generator

    return Generator(Path(folder))


open_page(__name__)
