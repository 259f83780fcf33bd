"""Which function answers which address. Pages are made on the server; scripts ask for JSON."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import AsyncIterator, Callable
from importlib import resources
from typing import TYPE_CHECKING, Any, BinaryIO

from reticent.core.errors import InvalidArgument, ReticentError
from reticent.core.files import open_new
from reticent.report.from_run import collect_facts
from reticent.report.render.html import page as report_of
from reticent.studio import budgets, columns, planning, teaching
from reticent.studio.commands import command_for, prepare
from reticent.studio.jobs import Job, Jobs
from reticent.studio.pages import comparison, frame, job, learn, ledger, plan, run, runs, train
from reticent.studio.workspace import Workspace

if TYPE_CHECKING:  # of the extra, which is imported when a studio is started
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
_MOST_FORM = 1 << 20  # bytes of what a form sends
_MOST_TABLE = 1 << 32  # bytes of a table that is dropped on a page


def application(workspace: Workspace, jobs: Jobs) -> Starlette:
    """The pages over one folder."""
    from starlette.applications import Starlette

    studio = _Studio(workspace, jobs)
    return Starlette(routes=studio.routes())


class _Studio:
    def __init__(self, workspace: Workspace, jobs: Jobs) -> None:
        self.workspace, self.jobs = workspace, jobs
        self.folder = workspace.folder.resolve().name or "/"

    def routes(self) -> list[Route]:
        from starlette.responses import RedirectResponse
        from starlette.routing import Route

        return [
            Route("/", lambda request: RedirectResponse("plan")),
            Route("/static/{name}", _static),
            Route(
                "/plan", self.page(lambda request: plan.plan_page(request.query_params, folder=self.folder))
            ),
            *(
                Route(f"/plan/{name}", _json(lambda request, what=what: what(request.query_params)))
                for name, what in _PLANNING.items()
            ),
            Route("/runs", self.page(lambda request: runs.runs_page(self.workspace, folder=self.folder))),
            Route("/run", self.page(self.run)),
            Route("/compare", self.page(self.compare)),
            Route("/report", self.page(self.report)),
            Route("/train", self.page(self.train)),
            Route("/train/drop", self.drop, methods=["POST"]),
            Route("/train/price", self.post(self.price), methods=["POST"]),
            Route(
                "/ledgers", self.page(lambda request: ledger.ledgers_page(self.workspace, folder=self.folder))
            ),
            Route("/ledger", self.page(self.ledger)),
            Route("/ledger/fits", _json(self.fits)),
            Route("/learn", self.page(self.learn)),
            *(
                Route(f"/learn/{name}", _json(lambda request, what=what: what(request.query_params)))
                for name, what in teaching.LESSONS.items()
            ),
            Route("/job", self.page(lambda request: job.job_page(self.job(request), folder=self.folder))),
            Route("/job/events", self.events),
            Route("/job/stop", self.post(self.stop), methods=["POST"]),
            Route("/say/{action}", self.post(self.say), methods=["POST"]),
            Route("/do/{action}", self.post(self.do), methods=["POST"]),
        ]

    def page(self, make: Callable[[Request], Any]) -> Callable[[Request], Any]:
        """A page, or one that says why there is none."""

        def answer(request: Request) -> Response:
            try:
                made = make(request)
                return _html(made) if isinstance(made, str) else made
            except ReticentError as error:
                said = frame.heading("That did not work", str(error))
                back = frame.tag("p", frame.tag("a", "To all runs", href="runs"))
                whole = frame.page("Not possible", said, back, tab="", folder=self.folder)
                return _html(whole, status=404)

        return answer

    def post(self, act: Callable[[Request, dict[str, str]], Any]) -> Callable[[Request], Any]:
        """What a button does, from the fields of its form."""

        from starlette.concurrency import run_in_threadpool

        async def answer(request: Request) -> Response:
            try:
                fields = await _fields(request)
                return _plain_json(await run_in_threadpool(act, request, fields))
            except ReticentError as error:
                return _plain_json({"error": str(error)})

        return answer

    def run(self, request: Request) -> Any:
        return run.run_page(request.query_params.get("name", ""), self.workspace, folder=self.folder)

    def compare(self, request: Request) -> Any:
        return comparison.compare_page(
            request.query_params.getlist("name"), self.workspace, folder=self.folder
        )

    def report(self, request: Request) -> Response:
        """The report of a run, made anew: a page of its own, with its style inside and no script at all."""
        facts = collect_facts(self.workspace.find(request.query_params.get("name", "")))
        return _html(report_of(facts), headers={"content-security-policy": _REPORT_POLICY})

    def train(self, request: Request) -> Any:
        if name := request.query_params.get("file"):
            return train.train_page(name, self.workspace, folder=self.folder)
        return train.choose_page(self.workspace, self.jobs.newest(), folder=self.folder)

    def price(self, request: Request, fields: dict[str, str]) -> dict[str, Any]:
        return columns.price(fields, self.workspace)

    def ledger(self, request: Request) -> Any:
        return ledger.ledger_page(request.query_params.get("name", ""), self.workspace, folder=self.folder)

    def learn(self, request: Request) -> Any:
        return learn.learn_page(request.query_params.get("topic"), folder=self.folder)

    def fits(self, request: Request) -> dict[str, Any]:
        words = request.query_params
        return budgets.what_fits(self.workspace.find(words.get("name", "")), words.get("dataset", ""))

    async def drop(self, request: Request) -> Response:
        """Takes in a table, piece by piece; one that does not arrive whole is not kept."""
        try:
            path = self.workspace.new_table(request.query_params.get("name", ""))
            with open_new(path, is_private=True) as file:
                try:
                    await _receive(request, file)
                except BaseException:
                    path.unlink(missing_ok=True)
                    raise
            return _plain_json({"name": self.workspace.name(path)})
        except ReticentError as error:
            return _plain_json({"error": str(error)})

    def job(self, request: Request) -> Job:
        word = request.query_params.get("number", "")
        return self.jobs.find(int(word) if word.isdigit() else 0)

    async def events(self, request: Request) -> Response:
        """What a command says, as server-sent events, until it has ended."""
        from starlette.responses import StreamingResponse

        try:
            followed = self.job(request)
        except ReticentError as error:
            return _bytes(f"{error}\n".encode(), "text/plain", status=404)
        return StreamingResponse(_follow(request, followed), media_type="text/event-stream")

    def stop(self, request: Request, fields: dict[str, str]) -> dict[str, Any]:
        word = fields.get("number", "")
        self.jobs.find(int(word) if word.isdigit() else 0).stop()
        return {}

    def say(self, request: Request, fields: dict[str, str]) -> dict[str, Any]:
        """The command of a button, as it would be typed."""
        line = command_for(request.path_params["action"], fields, self.workspace)
        return {"command": shlex.join(["reticent", *line.words])}

    def do(self, request: Request, fields: dict[str, str]) -> dict[str, Any]:
        action = request.path_params["action"]
        line = command_for(action, fields, self.workspace)
        prepare(action, fields, self.workspace)
        return {"number": self.jobs.start(line.words, leads_to=line.leads_to).number}


async def _fields(request: Request) -> dict[str, str]:
    """The fields of a form, as a script sends them.

    Raises:
        InvalidArgument: it is not JSON of names and words, or too large.
    """
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _MOST_FORM:
            raise InvalidArgument("The form is too large.", remedy="Shorten its fields.")
    try:
        found = json.loads(body)
        if isinstance(found, dict) and all(isinstance(value, str) for value in found.values()):
            return found
    except ValueError:
        pass
    raise InvalidArgument("This is not a form of the studio.", remedy="Reload the page.")


async def _receive(request: Request, file: BinaryIO) -> None:
    """
    Raises:
        InvalidArgument: it is larger than a page may send.
    """
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > _MOST_TABLE:
            raise InvalidArgument(
                f"The table is larger than {_MOST_TABLE >> 30} GB.", remedy="Put it into the folder by hand."
            )
        file.write(piece)


async def _follow(request: Request, followed: Job) -> AsyncIterator[str]:
    """Sends what is new, ten times a second at most."""
    seen, since = -1, 0
    while not await request.is_disconnected():
        if followed.version != seen:
            seen = followed.version
            facts = followed.facts(since)
            since = facts["next"]
            yield f"data: {json.dumps(facts)}\n\n"
            if facts["code"] is not None:
                return
        await asyncio.sleep(0.1)


_PLANNING = {
    "price": planning.price,
    "curves": planning.curves,
    "odds": planning.odds,
    "take": planning.take,
}


def _json(make: Callable[[Request], Any]) -> Callable[[Request], Response]:
    """An answer for a script: what was asked for, or what is wrong with the question, in words."""

    def answer(request: Request) -> Response:
        try:
            return _plain_json(make(request))
        except ReticentError as error:
            return _plain_json({"error": str(error)})

    return answer


def _static(request: Request) -> Response:
    name = request.path_params["name"]
    ending = next((ending for ending in _TYPES if name.endswith(ending)), None)
    place = resources.files("reticent.studio") / "static" / name
    if ending is None or "/" in name or "\\" in name or not place.is_file():
        return _bytes(b"There is no such file.\n", "text/plain", status=404)
    return _bytes(place.read_bytes(), _TYPES[ending])


def _html(text: str, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    from starlette.responses import HTMLResponse

    return HTMLResponse(text, status_code=status, headers=headers)


def _plain_json(value: Any) -> Response:
    from starlette.responses import JSONResponse

    return JSONResponse(value)


def _bytes(content: bytes, kind: str, *, status: int = 200) -> Response:
    from starlette.responses import Response

    return Response(content, status_code=status, media_type=kind)
