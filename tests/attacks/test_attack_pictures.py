"""Pictures of attacks: written whole, small, and refused where there is nothing to draw."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reticent.attacks.inference.attribute import AttributeReport, AttributeRow
from reticent.attacks.metrics import Estimate
from reticent.attacks.reconstruction.extraction import estimated_exposure, exact_exposure
from reticent.attacks.reconstruction.inversion import Inverted
from reticent.attacks.reconstruction.leakage import LeakAt
from reticent.core.errors import InvalidArgument
from reticent.report.figures import reconstructions as pictures

SOME = np.random.default_rng(0).random((4, 8, 8))


def rows() -> list[LeakAt]:
    return [
        LeakAt(
            noise_multiplier=noise,
            psnr=Estimate(quality, quality - 1, quality + 1),
            label=Estimate(1, 0.5, 1),
            recovered=SOME,
        )
        for noise, quality in ((0.0, 60.0), (0.01, 20.0), (1.0, 9.0))
    ]


def report() -> AttributeReport:
    share = Estimate(0.1, 0.05, 0.15)
    sides = ("members", "outsiders")
    inferred = tuple(
        AttributeRow(attack="csmia", side=side, accuracy=share, imputation=share, excess=share, records=100)
        for side in sides
    )
    return AttributeReport(
        sensitive="married",
        values=("0", "1"),
        rows=inferred,
        of_membership={"csmia": share},
        majority=0.5,
        left_out={},
    )


DRAWINGS = {
    "inversion": lambda path: pictures.save_inversion(
        path, Inverted(labels=(0, 2), pictures=SOME[:2], confidences=np.ones(2)), SOME, title="t"
    ),
    "leakage": lambda path: pictures.save_leakage(path, SOME[:3], rows(), title="t"),
    "curve": lambda path: pictures.save_noise_curve(path, {"division": rows()}, title="t"),
    "attribute": lambda path: pictures.save_attribute_excess(
        path, {"one": report(), "other": report()}, title="t"
    ),
    "exposure": lambda path: pictures.save_exposure(
        path,
        {"a": exact_exposure(0.1, SOME.ravel()), "b": estimated_exposure(0.1, SOME.ravel(), space=10**6)},
        title="t",
    ),
}


@pytest.mark.parametrize("ending", [".svg", ".png"])
@pytest.mark.parametrize("name", DRAWINGS)
def test_a_picture_is_written_and_small(name: str, ending: str, tmp_path: Path):
    path = tmp_path / f"{name}{ending}"
    DRAWINGS[name](path)
    assert 2_000 < path.stat().st_size < 200_000
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_name_that_is_no_picture_is_refused(name: str, tmp_path: Path):
    with pytest.raises(InvalidArgument, match="does not have the extension of a picture"):
        DRAWINGS[name](tmp_path / "drawing.txt")


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda path: pictures.save_grid(path, {"a": SOME, "b": SOME[:2]}, title="t"), "make no grid"),
        (lambda path: pictures.save_grid(path, {"a": SOME[0]}, title="t"), "make no grid"),
        (lambda path: pictures.save_noise_curve(path, {}, title="t"), "no curve"),
        (lambda path: pictures.save_attribute_excess(path, {}, title="t"), "no report"),
        (lambda path: pictures.save_exposure(path, {}, title="t"), "no exposure"),
    ],
)
def test_nothing_to_draw_is_refused(draw, message: str, tmp_path: Path):
    with pytest.raises(InvalidArgument, match=message):
        draw(tmp_path / "drawing.svg")
