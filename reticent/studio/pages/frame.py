"""What is around every page: the bar with its tabs, the style, the scripts."""

from __future__ import annotations

from collections.abc import Sequence

from reticent import __version__
from reticent.studio.markup import Content, Markup, tag

TABS = (
    ("plan", "Plan"),
    ("runs", "Runs"),
    ("train", "Train"),
    ("ledgers", "Ledger"),
    ("learn", "Learn"),
)


def page(
    title: str, *content: Content, tab: str, folder: str, scripts: Sequence[str] = (), is_wide: bool = False
) -> Markup:
    """A whole document. Every address in it is relative, below the secret."""
    links = (
        tag("a", name, href=address, aria_current="page" if address == tab else None)
        for address, name in TABS
    )
    body = tag(
        "body",
        tag("a", "Skip to the content", class_="skip", href="#content"),
        tag(
            "header",
            tag("a", "reticent ", tag("span", "studio"), class_="brand", href="plan"),
            tag("nav", links, aria_label="Pages"),
            tag("span", folder, class_="place", title="the folder that this studio looks into"),
            class_="bar",
        ),
        tag("main", *content, id="content", class_="wide-page" if is_wide else None),
        tag(
            "footer",
            tag(
                "p",
                f"reticent {__version__}. On this machine only: these pages ask nobody else for anything.",
            ),
        ),
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} · reticent studio"),
        tag("link", rel="icon", href="static/icon.svg", type="image/svg+xml"),
        tag("link", rel="stylesheet", href="static/studio.css"),
        (tag("script", src=f"static/{name}", type="module") for name in scripts),
    )
    return Markup("<!DOCTYPE html>\n" + tag("html", head, body, lang="en"))


def heading(title: str, *said: Content) -> Markup:
    """The title of a page, and a sentence on what it is for."""
    return tag("div", tag("h1", title), tag("p", *said, class_="lead") if said else None, class_="heading")


def section(title: str, *content: Content, id: str | None = None, class_: str | None = None) -> Markup:
    return tag("section", tag("h2", title), *content, id=id, class_=class_)


def field(name: str, label: str, control: Content, *, hint: Content = None, class_: str = "field") -> Markup:
    """A control below its label, with a hint that a screen reader reads with it."""
    said = None if hint is None else tag("p", hint, class_="hint", id=f"{name}-hint")
    return tag("div", tag("label", label, for_=name), control, said, class_=class_)


def select(name: str, choices: Sequence[tuple[str, str]], chosen: str | None = None) -> Markup:
    """A list to choose from: values and what they are called."""
    return tag(
        "select",
        (tag("option", said, value=value, selected=value == chosen) for value, said in choices),
        name=name,
        id=name,
    )


def command_line(text: str, *, id: str | None = None) -> Markup:
    """A command, and a button that copies it."""
    return tag(
        "div",
        tag("pre", tag("code", text, id=id), tabindex="0"),
        tag("button", "Copy", type="button", class_="copy quiet"),
        class_="command",
    )


def empty(said: Content) -> Markup:
    return tag("p", said, class_="empty")
