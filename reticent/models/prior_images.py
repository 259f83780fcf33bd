"""Synthetic prior images: random pen strokes, random shapes, and scenes of leaves that lie over one another.

They stand in for what is known about a kind of picture before any of it is seen. What is learned from them,
such as which directions of a feature space vary together, costs no privacy: no record is involved.

Reference:
    Tang, Panda, Sehwag and Mittal (2023), arXiv:2306.06076, who learn a whole network's features so; Lee,
    Mumford and Huang (2001), for leaves: like photographs in the statistics of their small pieces.
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


def random_scenes(count: int, *, side: int = 32, seed: int = 0) -> np.ndarray:
    """Coloured leaves of all sizes that hide one another, in shaded light: (count, side, side, 3) bytes.

    Example:
        >>> random_scenes(2, side=16).shape
        (2, 16, 16, 3)
    """
    checks.count(count=count, side=side)
    rng = np.random.default_rng(seed)
    return np.stack([_scene(rng, side) for _ in range(count)])


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


def _scene(rng: np.random.Generator, side: int) -> np.ndarray:
    from PIL import Image, ImageDraw, ImageFilter

    fine, base = side * _FINE // 2, rng.normal(0, 0.12, 3)
    image = Image.new("RGB", (fine, fine), _colour(rng, base))
    pen = ImageDraw.Draw(image)
    sizes = np.sort(0.04 * rng.uniform(0.006, 1, rng.integers(10, 60)) ** -0.5)[::-1]  # many small, few large
    for size in np.minimum(sizes, 0.5) * fine:
        centre, colour = rng.uniform(-0.1, 1.1, 2) * fine, _colour(rng, base)
        if rng.random() < 0.5:
            reach = size * rng.uniform(0.4, 1.0, 2)
            pen.ellipse([*(centre - reach), *(centre + reach)], fill=colour)
        else:
            angles = np.sort(rng.uniform(0, 2 * np.pi, rng.integers(3, 8)))
            around = np.stack([np.cos(angles), np.sin(angles)], axis=1) * size * rng.uniform(0.5, 1.0)
            pen.polygon([(float(x), float(y)) for x, y in centre + around], fill=colour)
    soft = image.filter(ImageFilter.GaussianBlur(rng.uniform(0, _FINE / 2)))
    small = np.asarray(soft.resize((side, side), Image.Resampling.BOX), float)
    across = np.linspace(-1, 1, side)
    tilt = rng.normal(0, 0.2, 2)
    light = 1 + tilt[0] * across[:, None, None] + tilt[1] * across[None, :, None]
    grain = rng.standard_normal((side, side, 1)) * rng.uniform(0, 8)
    return np.clip(small * light + grain, 0, 255).astype(np.uint8)


def _colour(rng: np.random.Generator, base: np.ndarray) -> tuple[int, int, int]:
    """Mostly grey, as colours outdoors are: the three channels differ little, and alike over a picture."""
    found = rng.uniform(0.05, 0.95) + 0.5 * base + rng.normal(0, 0.08, 3)
    red, green, blue = np.clip(found * 255, 0, 255).astype(int)
    return int(red), int(green), int(blue)


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
