"""The curves of an additive model by name: what they say is what predictions do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reticent.core.keys import Keys
from reticent.report.facts.facts import Bars, Chart
from reticent.report.facts.shapes import ColumnEffect, effects_of_columns, shape_chart, shape_sections
from reticent.runs.fit import fit
from reticent.runs.predict import Predictor
from reticent.runs.request import Request

DOMAIN = """
version = 1
target = "TARGET"
[columns.age]
kind = "number"
bounds = [20, 80]
[columns.town]
kind = "category"
values = ["a", "b"]
[columns.ill]
kind = "KIND"
values = ["no", "yes"]
[columns.cost]
kind = "number"
bounds = [0, 1000]
"""


@pytest.mark.parametrize("target", ["ill", pytest.param("cost", marks=pytest.mark.thorough)])
def test_a_curve_is_how_far_the_prediction_moves(tmp_path: Path, target: str) -> None:
    rng, lines = np.random.default_rng(0), ["age,town,ill,cost"]
    for _ in range(1000):
        age, town = rng.uniform(20, 80), "ab"[rng.integers(2)]
        lines.append(f"{age:.1f},{town},{'yes' if age > 50 else 'no'},{5 * age + rng.normal(0, 20):.1f}")
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    kind = "label" if target == "ill" else "category"
    (tmp_path / "d.toml").write_text(DOMAIN.replace("TARGET", target).replace("KIND", kind))
    request = Request(
        source=str(tmp_path / "t.csv"), epsilon=8.0, domain=str(tmp_path / "d.toml"), model="additive"
    )
    record = fit(request, tmp_path / "run", keys=Keys.seeded(1)).record
    predictor = Predictor(tmp_path / "run")
    shapes = {shape.column: shape for shape in effects_of_columns(tmp_path / "run", record)}
    age, town = shapes["age"], shapes["town"]
    reaches = [shape.reach for shape in shapes.values()]
    assert reaches == sorted(reaches, reverse=True)
    assert town.reach < age.reach
    assert (age.edges[0], age.edges[-1]) == (20.0, 80.0)
    at = [0, len(age.values) // 2]
    x = np.zeros((3, predictor.problem.shape[0]), np.float32)
    x[:2, 0] = [((age.edges[bin] + age.edges[bin + 1]) / 2 - 50) / 30 for bin in at]
    x[2, 0] = x[0, 0]
    x[:, 1], x[2, 1:3] = 1, (0, 1)  # the last one lives in the other town
    scores = predictor.scores(x)
    moved = scores[:, 1] - scores[:, 0] if target == "ill" else scores[:, 0]
    if target == "ill" or 0 < min(moved) < max(moved) < 1000:
        assert moved[1] - moved[0] == pytest.approx(age.values[at[1]] - age.values[at[0]], abs=1e-3)
        values = {
            word: value
            for words, value in zip(town.words, town.values, strict=True)
            for word in words.split(", ")
        }
        assert moved[2] - moved[0] == pytest.approx(values["b"] - values["a"], abs=1e-3)
    (section,) = shape_sections(tmp_path / "run", record)
    assert [chart.id for chart in section.charts] == [f"curve{number}" for number in range(len(shapes))]


def test_curves_are_drawn_with_the_noise_in_them() -> None:
    number = ColumnEffect("age", "yes", (0.0, 10.0, 100.0), (), (-1.0, 2.0), (0.1, 0.2), 0.5)
    chart = shape_chart(number, 0)
    assert isinstance(chart, Chart)
    assert chart.lines[0].x == (0.0, 10.0, 10.0, 100.0)
    assert chart.lines[0].y == (-1.0, -1.0, 2.0, 2.0)
    assert chart.bands[0].low == pytest.approx((-1.2, -1.2, 1.6, 1.6))
    assert chart.description == "From -1 near 5 to +2 near 55. A missing cell adds +0.5."
    words = ColumnEffect("town", "yes", (), ("a", "b, c"), (0.1, -2.0), (0.1, 0.2), None)
    bars = shape_chart(words, 1)
    assert isinstance(bars, Bars)
    assert (bars.names, bars.notes) == (("b, c", "a"), ("-2 ± 0.2", "+0.1 ± 0.1"))
