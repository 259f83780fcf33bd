"""Synthetic prior images: random pen strokes and random shapes.

They stand in for what is known about a kind of picture before any of it is seen. What is learned from them,
such as which directions of a feature space vary together, costs no privacy: no record is involved.

Reference:
    Tang, Panda, Sehwag and Mittal (2023), arXiv:2306.06076, who learn a whole network's features so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reticent.core import checks

if TYPE_CHECKING:
    from PIL import Image, ImageDraw

_FINE = 4  # drawn so many times larger, then averaged: edges become grey as a camera's do


def random_strokes(count: int, *, side: int = 28, seed: int = 0) -> np.ndarray:
    """White curves of a pen on black, one to three per image: (count, side, side) bytes.

    Example:
        >>> random_strokes(2, seed=0).shape
        (2, 28, 28)
    """
    checks.count(count=count, side=side)
    rng = np.random.default_rng(seed)
    return np.stack([_strokes(rng, side) for _ in range(count)])


def random_shapes(count: int, *, side: int = 28, seed: int = 0) -> np.ndarray:
    """Grey polygons, boxes and bars on black, one to four per image, some of them rough.

    Example:
        >>> random_shapes(2, side=16).shape
        (2, 16, 16)
    """
    checks.count(count=count, side=side)
    rng = np.random.default_rng(seed)
    return np.stack([_shapes(rng, side) for _ in range(count)])


def _strokes(rng: np.random.Generator, side: int) -> np.ndarray:
    image, pen = _blank(side)
    width = side * _FINE * rng.uniform(0.06, 0.12)
    visited: list[np.ndarray] = []
    for _ in range(rng.integers(1, 4)):
        points = rng.uniform(0.16, 0.84, (rng.integers(3, 6), 2))
        if visited and rng.random() < 0.6:  # a pen often goes on where it has been
            points[0] = visited[rng.integers(len(visited))]
        curve = _bezier(points)
        visited += list(curve[::10])
        line = _to_points(curve, side)
        pen.line(line, fill=255, width=int(width), joint="curve")
        for x, y in (line[0], line[-1]):
            pen.ellipse([x - width / 2, y - width / 2, x + width / 2, y + width / 2], fill=255)
    return _develop(image, side, blur=0.5)


def _bezier(points: np.ndarray) -> np.ndarray:
    """Forty points of the curve that these control points pull at."""
    at = np.linspace(0, 1, 40)[:, None, None]
    curve = np.repeat(points[None], 40, axis=0)  # (points of the curve, control points, 2)
    while curve.shape[1] > 1:
        curve = curve[:, :-1] * (1 - at) + curve[:, 1:] * at
    return curve[:, 0]


def _shapes(rng: np.random.Generator, side: int) -> np.ndarray:
    image, pen = _blank(side)
    for _ in range(rng.integers(1, 5)):
        centre, reach = rng.uniform(0.2, 0.8, 2), rng.uniform(0.07, 0.43, 2)
        grey, kind = int(rng.integers(40, 256)), rng.random()
        if kind < 0.5:
            pen.polygon(
                _to_points(centre + rng.uniform(-1, 1, (rng.integers(3, 7), 2)) * reach, side), fill=grey
            )
        elif kind < 0.75:
            pen.rectangle(_to_points(np.stack([centre - reach, centre + reach]), side), fill=grey)
        else:
            ends = _to_points(rng.uniform(0.1, 0.9, (2, 2)), side)
            pen.line(ends, fill=grey, width=int(rng.integers(1, 5) * _FINE))
    smooth = _develop(image, side, blur=0.4).astype(float)
    rough = smooth + (smooth > 10) * rng.standard_normal((side, side)) * rng.uniform(0, 25)
    return np.clip(rough, 0, 255).astype(np.uint8)


def _blank(side: int) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    from PIL import Image, ImageDraw

    image = Image.new("L", (side * _FINE, side * _FINE), 0)
    return image, ImageDraw.Draw(image)


def _to_points(places: np.ndarray, side: int) -> list[tuple[float, float]]:
    """Places between 0 and 1 as points of the large image."""
    return [(float(x), float(y)) for x, y in places * side * _FINE]


def _develop(image: Image.Image, side: int, *, blur: float) -> np.ndarray:
    from PIL import Image, ImageFilter

    small = image.filter(ImageFilter.GaussianBlur(_FINE * blur)).resize((side, side), Image.Resampling.BOX)
    return np.asarray(small)
