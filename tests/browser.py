"""A real browser for tests: Debian's chromium, driven through a pipe, with no network."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
MISSING = "no chromium on this machine: apt-get install chromium"

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)


class Browser:
    """One page in a browser. Whatever it logs, and whatever it asks the network for, is kept."""

    def __init__(self) -> None:
        assert CHROMIUM is not None
        self._folder = tempfile.mkdtemp()
        down, self._write = os.pipe()
        self._read, up = os.pipe()
        flags = " ".join([*_FLAGS, f"--user-data-dir={self._folder}"])
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "{CHROMIUM}" {flags} about:blank 3<&{down} 4>&{up}'],
            pass_fds=(down, up),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(down)
        os.close(up)
        self._number, self._rest = 0, b""
        self.events: list[dict[str, Any]] = []
        target = next(
            one for one in self._ask("Target.getTargets", {})["targetInfos"] if one["type"] == "page"
        )
        attach = {"targetId": target["targetId"], "flatten": True}
        self._session = self._ask("Target.attachToTarget", attach)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait(20)
        os.close(self._write)
        os.close(self._read)
        shutil.rmtree(self._folder, ignore_errors=True)  # its helpers may still be writing

    def open(self, page: Path | str, *, width: int, height: int = 900, dark: bool = False) -> None:
        """Loads a file or an address at a width, in light or dark colours."""
        self.events.clear()
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=page if isinstance(page, str) else page.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression on the page."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait_for(self, condition: str, *, seconds: float = 60.0) -> None:
        """Waits until a JavaScript expression is true on the page, which may be loaded anew meanwhile."""
        end = time.monotonic() + seconds
        while not self._is_true(condition):
            assert time.monotonic() < end, f"never true: {condition}\n{self.run('document.body.innerText')}"
            time.sleep(0.1)

    def _is_true(self, condition: str) -> bool:
        found = self.call("Runtime.evaluate", expression=f"!!({condition})", returnByValue=True)
        return "exceptionDetails" not in found and found["result"].get("value") is True

    def choose_files(self, selector: str, *paths: Path) -> None:
        """Files for an input, as if a person had chosen them."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", files=[str(path) for path in paths], nodeId=node)

    def picture(self, path: Path, *, whole: bool = True) -> None:
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def complaints(self) -> list[str]:
        """Errors and warnings on the console."""
        return [
            json.dumps(event["params"])
            for event in self.events
            if event.get("method")
            in ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")
        ]

    def requests(self) -> list[str]:
        """What was asked for, beside the page itself."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self._ask(method, params, session=self._session)

    def _ask(self, method: str, params: dict[str, Any], *, session: str | None = None) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            piece = os.read(self._read, 1 << 16)
            assert piece, "the browser has gone"
            self._rest += piece
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)
