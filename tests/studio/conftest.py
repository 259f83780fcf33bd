"""A studio over a small folder, for every test that looks at it."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

HOSTILE = "<img src=x onerror=alert(1)>"


class OpenStudio(NamedTuple):
    """A studio that answers, and its folder."""

    address: str
    folder: Path


@pytest.fixture(scope="session")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenStudio]:
    """A studio over two runs, one of them with attacks and an audit, and one that is damaged."""
    needed = "needs the extra: pip install 'reticent[studio]'"
    pytest.importorskip("starlette", reason=needed)
    uvicorn = pytest.importorskip("uvicorn", reason=needed)
    from made_runs import made_run, with_attacks, with_audit

    from reticent.studio.access import Access, guarded
    from reticent.studio.application import application
    from reticent.studio.jobs import Jobs
    from reticent.studio.serve import _listen
    from reticent.studio.workspace import Workspace

    folder = tmp_path_factory.mktemp("studio")
    first = made_run(folder / "runs" / "first", method="objective", model="linear")
    with_attacks(first)
    with_audit(first)
    shutil.copytree(first, folder / "runs" / HOSTILE)
    (folder / "runs" / "damaged").mkdir()
    (folder / "runs" / "damaged" / "run.json").write_text("{}")
    listening, jobs = _listen(0), Jobs(folder)
    access = Access(port=listening.getsockname()[1])
    guarding = guarded(application(Workspace(folder), jobs), access)
    config = uvicorn.Config(guarding, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    end = time.monotonic() + 30
    while not server.started:
        assert time.monotonic() < end
        time.sleep(0.02)
    yield OpenStudio(access.address, folder)
    server.should_exit = True
    thread.join(10)
    jobs.close()
