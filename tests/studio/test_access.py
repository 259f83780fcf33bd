"""Who is let in, and what pages may do: asked over the wire, without a browser."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from urllib.parse import quote, urlsplit

import pytest

HOSTILE = "<img src=x onerror=alert(1)>"


class Answer:
    """What a studio answered."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status, self.headers = response.status, response.headers
        self.text = response.read().decode()


def ask(
    address: str,
    path: str = "",
    *,
    host: str | None = None,
    send: Mapping[str, str] | None = None,
    **headers: str,
) -> Answer:
    """One request, with the headers that a browser would send unless others are given."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    own = {"host": host or parts.netloc, **{name.replace("_", "-"): value for name, value in headers.items()}}
    body = None if send is None else json.dumps(send)
    method = "GET" if send is None else "POST"
    connection.request(method, quote(parts.path + path, safe="/?=&%"), body=body, headers=own)
    try:
        return Answer(connection.getresponse())
    finally:
        connection.close()


def test_nobody_is_let_in_without_the_secret(studio):
    origin = "http://" + urlsplit(studio.address).netloc
    for path in ("/", "/plan", "/runs", "/static/studio.css", "/wrong/plan", studio.address[-8:] + "plan"):
        assert ask(origin, path if path.startswith("/") else f"/{path}").status == 403, path
    assert ask(studio.address, "plan").status == 200


def test_another_name_or_another_page_is_refused(studio):
    own = f"http://{urlsplit(studio.address).netloc}"
    assert ask(studio.address, "plan", host="evil.example").status == 403
    assert ask(studio.address, "say/verify", send={"ledger": "x"}).status == 403
    assert ask(studio.address, "say/verify", send={"ledger": "x"}, origin="http://evil.example").status == 403
    other = {"origin": own, "sec_fetch_site": "cross-site"}
    assert ask(studio.address, "say/verify", send={"ledger": "x"}, **other).status == 403
    assert ask(studio.address, "say/verify", send={"ledger": "x"}, origin=own).status == 200


@pytest.mark.parametrize("path", ["plan", "nowhere", "static/studio.css", "report?name=runs/first"])
def test_every_answer_forbids_what_it_does_not_need(studio, path: str):
    answer = ask(studio.address, path)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "script-src 'unsafe" not in policy
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


def test_nothing_outside_the_folder_is_named(studio, tmp_path):
    (tmp_path / "run.json").write_text("{}")
    (studio.folder / "link").symlink_to(tmp_path)
    for name in ("..", "../..", "/etc", "link", str(tmp_path), "runs/../../x", "runs\0"):
        assert ask(studio.address, f"run?name={quote(name)}").status == 404, name
    assert ask(studio.address, "static/..%2faccess.py").status == 404
    (studio.folder / "link").unlink()


def test_the_words_of_a_stranger_are_text(studio):
    for path in ("runs", f"run?name={quote('runs/' + HOSTILE)}", f"report?name={quote('runs/' + HOSTILE)}"):
        answer = ask(studio.address, path)
        assert answer.status == 200
        assert "<img" not in answer.text
    assert "&lt;img" in ask(studio.address, "runs").text
    assert "damaged" in ask(studio.address, "runs").text
