"""The pages of the course: a list of them, and one with its sliders and pictures."""

from __future__ import annotations

import math

from reticent.core.errors import DataError
from reticent.studio.markup import Markup, tag
from reticent.studio.pages.frame import heading, page, section
from reticent.studio.pages.lessons import LESSONS, Control, Lesson


def learn_page(name: str | None, *, folder: str) -> Markup:
    """
    Raises:
        DataError: there is no such lesson.
    """
    if name is None:
        return _index(folder)
    found = next((lesson for lesson in LESSONS if lesson.id == name), None)
    if found is None:
        raise DataError(f"There is no lesson '{name}'.", remedy="Choose one on the page Learn.")
    return _lesson(found, folder)


def _index(folder: str) -> Markup:
    cards = (
        tag(
            "li",
            tag("h2", tag("a", lesson.title, href=f"learn?topic={lesson.id}")),
            tag("p", lesson.said, class_="note"),
            tag("p", lesson.origin[0][0], class_="small foot"),
        )
        for lesson in LESSONS
    )
    return page(
        "Learn",
        heading(
            "Learn",
            "The ideas of the five lectures, with sliders. Each page names its theorem and function.",
        ),
        tag("ul", cards, class_="cards"),
        tab="learn",
        folder=folder,
    )


def _lesson(lesson: Lesson, folder: str) -> Markup:
    rows = (tag("tr", tag("th", what, scope="row"), tag("td", said)) for what, said in lesson.origin)
    again = (
        tag("button", "Draw again", type="button", class_="quiet", id="again") if lesson.draws_again else None
    )
    form = tag(
        "form",
        tag("h2", "Move"),
        (_control(each) for each in lesson.controls),
        again,
        class_="card",
        id="controls",
    )
    charts = (section(title, tag("div", id=name)) for name, title in lesson.charts)
    shown = tag(
        "div",
        section(
            "What you see",
            tag("p", lesson.said),
            tag("p", tag("strong", "Try. "), lesson.look),
            tag("p", id="facts", class_="verdict", role="status"),
        ),
        tag("div", charts, class_="pair" if len(lesson.charts) > 1 else None),
        section(
            "Where it is from", tag("div", tag("table", tag("tbody", rows), class_="origin"), class_="wide")
        ),
    )
    return page(
        lesson.title,
        heading(lesson.title, _others(lesson)),
        tag("div", form, shown, class_="split", id="lesson", data_lesson=lesson.id),
        tab="learn",
        folder=folder,
        scripts=("learn.js",),
        is_wide=True,
    )


def _others(lesson: Lesson) -> Markup:
    """The lesson's place among the others, with a link to the next."""
    place = LESSONS.index(lesson)
    following = LESSONS[(place + 1) % len(LESSONS)]
    link = tag("a", following.title, href=f"learn?topic={following.id}")
    return tag("span", f"Page {place + 1} of {len(LESSONS)}. Next: ", link)


def _control(each: Control) -> Markup:
    low, high = (math.log(each.low), math.log(each.high)) if each.is_log else (each.low, each.high)
    slider = tag(
        "input",
        type="range",
        id=each.name,
        name=each.name,
        min=f"{low:.6g}",
        max=f"{high:.6g}",
        step="any",
        value=f"{math.log(each.value) if each.is_log else each.value:.6g}",
        data_log=each.is_log,
        data_whole=each.is_whole,
    )
    shown = tag("output", "", for_=each.name, id=f"{each.name}-value")
    return tag("div", tag("label", each.label, " ", shown, for_=each.name), slider, class_="field")
