"""A command that runs: what it says, how far it is, and a button that stops it."""

from __future__ import annotations

from collections.abc import Sequence

from reticent.studio.jobs import Job
from reticent.studio.markup import Markup, tag
from reticent.studio.pages.frame import command_line, empty, heading, page, section


def job_page(job: Job, *, folder: str) -> Markup:
    """The page of one command; `job.js` fills it while the command speaks."""
    return page(
        f"{job.words[0]}, command {job.number}",
        heading(f"reticent {job.words[0]}", "A command of this studio, in a process of its own."),
        section("The command", command_line(job.command)),
        section(
            "Progress",
            tag("p", tag("span", job.state, class_="badge", id="state"), role="status"),
            tag("div", id="bars", class_="bars"),
            tag("ul", id="log", class_="log", aria_live="polite"),
            tag(
                "div",
                tag("button", "Stop", type="button", id="stop", class_="quiet", hidden=job.code is not None),
                tag("a", "Look at the result", class_="button", id="result", href=job.leads_to, hidden=True)
                if job.leads_to
                else None,
                class_="actions",
            ),
            tag(
                "p",
                "Stopping is Ctrl-C: a run keeps its state and its charge, and can be resumed.",
                class_="hint",
            ),
        ),
        tag(
            "section",
            tag("h2", "What it printed"),
            tag("pre", id="printed", class_="output", tabindex="0"),
            id="output",
            hidden=True,
        ),
        tab="train",
        folder=folder,
        scripts=("job.js",),
    )


def job_list(jobs: Sequence[Job]) -> Markup:
    """The commands of this studio, the newest first."""
    if not jobs:
        return empty("No command was started from here yet.")
    rows = (
        tag(
            "tr",
            tag("td", tag("a", job.command, href=f"job?number={job.number}"), class_="long"),
            tag("td", tag("span", job.state, class_=f"badge {job.state.split()[0]}")),
        )
        for job in jobs
    )
    return tag("div", tag("table", tag("tbody", rows)), class_="wide")
