"""`reticent datasets`, as somebody at a terminal meets it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from reticent.data import catalog

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(reticent: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command line on a machine without data, cache or network: exit code, stdout, stderr."""
    monkeypatch.delenv("RETICENT_DATA", raising=False)
    monkeypatch.setenv("RETICENT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "120")
    for scheme in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(scheme, "http://127.0.0.1:9")  # the discard port: nobody listens
    monkeypatch.setenv("no_proxy", "")
    return reticent


def test_the_list_names_every_dataset_and_how_to_come_by_it(run: Run):
    code, out, err = run("datasets", "list")
    assert (code, err) == (0, "")
    lines = {line.split()[0]: line for line in out.splitlines()[2:]}
    assert set(lines) == set(catalog.names())
    assert lines["digits"].rstrip().endswith("bundled")
    assert lines["mnist"].rstrip().endswith("download 12 MB")
    assert lines["sst2"].rstrip().endswith("supply by hand")
    assert "60,000 + 10,000" in lines["mnist"]
    assert "32 x 32 x 3" in lines["cifar10"]


def test_the_list_says_where_a_dataset_was_found_and_how_much_of_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "data" / "cifar10").mkdir(parents=True)
    for file in catalog.describe("cifar10").forms[2].files:
        (tmp_path / "data" / "cifar10" / file.name).touch()
    monkeypatch.setenv("RETICENT_DATA", str(tmp_path / "data"))
    _, out, _ = run("datasets", "list")
    (line,) = [line for line in out.splitlines() if line.startswith("cifar10 ")]
    assert "30,000 of 60,000" in line
    assert line.rstrip().endswith("RETICENT_DATA")


@pytest.mark.parametrize("name", catalog.names())
def test_show_describes_every_dataset(run: Run, name: str):
    code, out, err = run("datasets", "show", name)
    assert (code, err) == (0, "")
    entry = catalog.describe(name)
    assert entry.licence in out
    for file in entry.files:
        assert file.sha256 in out
        assert all(url in out for url in file.urls)


def test_show_prints_the_public_columns(run: Run):
    _, out, _ = run("datasets", "show", "adult")
    assert "Public facts about its columns" in out
    assert "hours-per-week  integer   0 to 100" in out
    assert "a weight of the survey" in out


@pytest.mark.parametrize(
    "words", [("list",), ("show", "adult"), ("show", "sst2"), ("show", "digits"), ("get", "digits")]
)
def test_json_is_all_there_is_on_stdout(run: Run, words: tuple[str, ...]):
    code, out, err = run("datasets", *words, "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    if words[0] == "list":
        assert [entry["name"] for entry in document] == catalog.names()
    else:
        assert document["name"] == words[1]


def test_json_of_show_has_files_and_columns(run: Run):
    _, out, _ = run("datasets", "show", "adult", "--json")
    document = json.loads(out)
    assert document["rows"] == {"train": 32561, "test": 16281, "validation": 0}
    assert [file["name"] for file in document["files"]] == ["adult.data", "adult.test"]
    assert document["columns"][0] == {"name": "age", "kind": "integer", "bounds": [0, 100], "missing": False}
    assert document["found"] is None


@pytest.mark.parametrize("command", ["show", "get"])
def test_a_misspelt_name_gets_one_line_with_the_right_one(run: Run, command: str):
    code, out, err = run("datasets", command, "minst")
    assert (code, out) == (1, "")
    assert err == "error: There is no dataset called 'minst'. Did you mean 'mnist'?\n"


@pytest.mark.parametrize("name", ["mnist", "sst2"])
def test_what_cannot_be_had_gets_one_line_that_says_what_was_tried_and_what_to_do(
    run: Run, tmp_path: Path, name: str
):
    code, out, err = run("datasets", "get", name)
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert err.startswith(
        f"error: Dataset '{name}' is not available. Tried in this order: RETICENT_DATA (not set); "
    )
    assert f"into {tmp_path / 'cache' / 'datasets' / name}, or set RETICENT_DATA" in err
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_what_is_here_already_is_not_fetched(run: Run):
    code, out, _ = run("datasets", "get", "digits")
    assert (code, out) == (0, "digits is already here: bundled with scikit-learn\n")


def test_names_complete_in_the_shell(run: Run, monkeypatch: pytest.MonkeyPatch):
    from reticent.cli.datasets import _complete

    assert _complete("m") == ["mnist"]
    assert _complete("") == catalog.names()


def test_listing_imports_nothing_heavy():
    heavy = "{'numpy', 'pyarrow', 'jax', 'sklearn', 'PIL'} & set(sys.modules)"
    code = (
        "import sys; from reticent.cli import app\n"
        "try: app.main(['datasets', 'list'])\n"
        f"finally: print({heavy}, file=sys.stderr)"
    )
    environment = {key: value for key, value in os.environ.items() if key != "RETICENT_DATA"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stderr == "set()\n"


@pytest.fixture
def mirror(shared_data: Callable[[str], Path]) -> Iterator[str]:
    """A proxy on this machine that has the real files of Fashion-MNIST, whatever server is asked."""
    folder = shared_data("fashion-mnist")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = (folder / self.path.rpartition("/")[2]).read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_fashion_mnist_is_fetched_into_the_cache_and_then_loads(
    run: Run, mirror: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("http_proxy", mirror)
    folder = tmp_path / "cache" / "datasets" / "fashion-mnist"
    assert run("datasets", "get", "fashion_mnist")[:2] == (0, f"fashion_mnist is now in {folder} (cache)\n")
    assert run("datasets", "get", "fashion_mnist")[1].startswith("fashion_mnist is already here")
    assert len(catalog.load("fashion_mnist").train) == 60_000
