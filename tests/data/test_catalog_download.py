"""A download is either the promised file or nothing at all. Servers here are on this machine."""

from __future__ import annotations

import hashlib
import re
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from reticent.core.errors import IntegrityError, ReticentError, Unavailable
from reticent.data.catalog import download
from reticent.data.catalog.entries import CatalogEntry, File, Form, RowCounts

BODY = bytes(range(256)) * 1024


class Server:
    """Answers every path with what `answers` says: status, the length it promises, the bytes it sends."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, int, bytes]] = {}
        self.asked: list[str] = []

    def gives(self, path: str, body: bytes = BODY, *, status: int = 200, promises: int | None = None) -> str:
        self.answers[path] = (status, len(body) if promises is None else promises, body)
        return f"{self.address}{path}"

    address = ""


@pytest.fixture
def server() -> Iterator[Server]:
    table = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            table.asked.append(self.path)
            status, length, body = table.answers.get(self.path, (404, 0, b""))
            self.send_response(status)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        table.address = f"http://127.0.0.1:{running.server_address[1]}"
        yield table
        running.shutdown()
        thread.join()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("RETICENT_DATA", raising=False)
    monkeypatch.setenv("RETICENT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "cache" / "datasets" / "toys"


def toys(*urls: str, body: bytes = BODY, size: int | None = None) -> CatalogEntry:
    """A dataset of one file, whose right content is `body`."""
    file = File(
        name="toys.bin",
        size=len(body) if size is None else size,
        sha256=hashlib.sha256(body).hexdigest(),
        urls=urls,
    )
    return CatalogEntry(
        name="toys",
        title="Toys",
        task="classification",
        classes=2,
        licence="none",
        source="a test",
        folder="toys",
        forms=(Form(reader="lines", rows=RowCounts(1), files=(file,)),),
    )


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if not path.is_dir()]


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_good_file_arrives_whole_under_its_own_name(server: Server, cache: Path):
    location = download.fetch(toys(server.gives("/toys.bin")))
    assert location.paths["toys.bin"].read_bytes() == BODY
    assert files_below(cache) == [cache / "toys.bin"]


def test_progress_grows_from_the_first_chunk_to_one(server: Server, cache: Path):
    fractions: list[float] = []
    download.fetch(toys(server.gives("/toys.bin")), on_progress=fractions.append)
    assert 0 < fractions[0] <= fractions[-1] == 1
    assert fractions == sorted(fractions)


def test_a_file_in_the_cache_is_not_fetched_again(server: Server, cache: Path):
    entry = toys(server.gives("/toys.bin"))
    download.fetch(entry)
    download.fetch(entry)
    assert server.asked == ["/toys.bin"]


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        ({"body": BODY[::-1]}, IntegrityError, "sent other bytes: sha256"),
        ({"body": BODY + b"!"}, IntegrityError, "sent more than the 262,144 bytes"),
        ({"body": BODY[:-1]}, IntegrityError, "broke off after 262,143 of 262,144 bytes"),
        (
            {"body": BODY[:100_000], "promises": len(BODY)},
            IntegrityError,
            "broke off after 100,000 of 262,144",
        ),
        ({"body": b""}, IntegrityError, "broke off after 0 of"),
        ({"body": b"", "status": 404}, Unavailable, "answered 404 Not Found"),
        ({"body": b"", "status": 503}, Unavailable, "answered 503 Service Unavailable"),
    ],
    ids=["checksum", "too long", "too short", "truncated", "empty", "not found", "overloaded"],
)
def test_a_bad_answer_is_named_and_leaves_nothing_behind(
    server: Server, cache: Path, answer: dict, kind: type[ReticentError], says: str
):
    url = server.gives("/toys.bin", **answer)
    with pytest.raises(kind, match=re.escape(says)) as caught:
        download.fetch(toys(url))
    assert url in caught.value.happened
    assert files_below(cache) == []


def test_without_a_network_the_error_lists_what_was_tried_and_two_ways_out(cache: Path):
    url = f"http://127.0.0.1:{unused_port()}/toys.bin"
    with pytest.raises(Unavailable) as caught:
        download.fetch(toys(url))
    assert caught.value.happened == (
        "Dataset 'toys' is not available. Tried in this order: RETICENT_DATA (not set); "
        f"cache (no folder {cache}); {url} (connection refused)."
    )
    assert f"Put toys.bin at {cache / 'toys.bin'}" in caught.value.remedy
    assert "set RETICENT_DATA to a folder that has it in a folder toys" in caught.value.remedy
    assert files_below(cache) == []


def test_a_name_that_does_not_resolve_is_no_traceback(cache: Path):
    with pytest.raises(Unavailable, match=r"nowhere\.invalid"):
        download.fetch(toys("http://nowhere.invalid/toys.bin"))


def test_a_server_that_talks_nonsense_is_no_traceback(cache: Path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"hello, who is there?\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(Unavailable, match="hello, who is there"):
            download.fetch(toys(f"http://127.0.0.1:{listener.getsockname()[1]}/toys.bin"))
        thread.join()


def test_a_second_address_helps_when_the_first_is_down_or_wrong(server: Server, cache: Path):
    down = f"http://127.0.0.1:{unused_port()}/toys.bin"
    wrong = server.gives("/wrong", BODY[::-1])
    location = download.fetch(toys(down, wrong, server.gives("/right")))
    assert location.paths["toys.bin"].read_bytes() == BODY


def test_wrong_bytes_anywhere_make_it_an_integrity_error(server: Server, cache: Path):
    wrong = server.gives("/wrong", BODY[::-1])
    down = f"http://127.0.0.1:{unused_port()}/toys.bin"
    with pytest.raises(IntegrityError):
        download.fetch(toys(wrong, down))


def test_a_dataset_without_an_address_says_that_somebody_has_to_supply_it(cache: Path):
    with pytest.raises(Unavailable, match="no address with a known checksum") as caught:
        download.fetch(toys())
    assert str(cache / "toys.bin") in caught.value.remedy


def test_a_cache_that_cannot_be_written_names_the_variable_to_set(
    server: Server, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("not a folder")
    monkeypatch.setenv("RETICENT_CACHE", str(in_the_way))
    with pytest.raises(Unavailable, match="Cannot write") as caught:
        download.fetch(toys(server.gives("/toys.bin")))
    assert "RETICENT_CACHE" in caught.value.remedy
    assert in_the_way.read_text() == "not a folder"


def test_a_folder_in_the_place_of_the_file_is_reported_and_nothing_is_left(server: Server, cache: Path):
    (cache / "toys.bin").mkdir(parents=True)
    with pytest.raises(Unavailable, match="Cannot write"):
        download.fetch(toys(server.gives("/toys.bin")))
    assert files_below(cache) == []


def test_an_interrupted_download_leaves_nothing_behind(server: Server, cache: Path):
    def press_control_c(done: float) -> None:
        assert len(files_below(cache)) == 1, "the download is under way"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download.fetch(toys(server.gives("/toys.bin")), on_progress=press_control_c)
    assert files_below(cache) == []
