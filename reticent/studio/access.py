"""Who is let in, and what a page may do.

    http://127.0.0.1:PORT/SECRET/plan

The secret stands in every address, so there is no cookie that another server on this machine could read.
Three more things are asked of each request: it names this host (a name that was made to point here is
refused), it was not sent by another page, and it is not larger than a form.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = "127.0.0.1"
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Access:
    """The secret of one studio, and the host that requests have to name."""

    port: int
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    @property
    def address(self) -> str:
        """The address of the studio, with its secret."""
        return f"http://{LOOPBACK}:{self.port}/{self.secret}/"

    def refuses(self, scope: Scope) -> str | None:
        """Why a request is refused; None if it is not."""
        sent = {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in scope["headers"]}
        hosts = {f"{LOOPBACK}:{self.port}", f"localhost:{self.port}"}
        if sent.get("host") not in hosts:
            return "This studio answers to its own address only."
        first = scope["path"].lstrip("/").partition("/")[0]
        if not hmac.compare_digest(first.encode(), self.secret.encode()):
            return "Open the address that the studio printed: it holds a secret, and this one does not."
        if scope["method"] not in ("GET", "HEAD") and not self._is_own(sent):
            return "This request came from another page."
        return None

    def _is_own(self, sent: dict[str, str]) -> bool:
        """Whether a page of the studio sent the request: browsers say so, and scripts elsewhere cannot."""
        origins = {f"http://{LOOPBACK}:{self.port}", f"http://localhost:{self.port}"}
        return sent.get("origin") in origins and sent.get("sec-fetch-site", "same-origin") == "same-origin"


def guarded(app: App, access: Access) -> App:
    """The application behind its secret, with the headers of every page."""
    own = {key.encode(): value.encode() for key, value in HEADERS.items()}

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await app(scope, receive, send)

        async def answer(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                said = {key.lower(): value for key, value in message.get("headers", ())}
                message["headers"] = list({**own, **said}.items())
            await send(message)

        why = access.refuses(scope)
        if why is not None:
            return await _refuse(answer, why)
        inner = dict(scope)
        inner["path"] = "/" + scope["path"].lstrip("/").partition("/")[2]
        inner["raw_path"] = inner["path"].encode()
        inner["root_path"] = ""
        return await app(inner, receive, answer)

    return serve


async def _refuse(send: Send, why: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": f"{why}\n".encode()})
