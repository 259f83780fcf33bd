"""Flower over its own processes on loopback: a SuperLink, SuperNodes, a server that is killed, a third client
that never comes. `make flower` runs it, where flwr is installed.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent.core.keys import Keys

APP = Path(__file__).parents[2] / "examples" / "flower"
COMMANDS = {
    name: Path(sys.executable).with_name(name) for name in ("flower-superlink", "flower-supernode", "flwr")
}
CONFIG = """[superlink]
default = "loop"

[superlink.loop]
address = "127.0.0.1:{port}"
insecure = true
"""

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(
        not all(command.exists() for command in COMMANDS.values()),
        reason="flwr is not installed; make flower has it",
    ),
]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Network:
    """Flower's processes, with their own home, on loopback alone."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        home = folder / "home"
        home.mkdir()
        (home / "config.toml").write_text(CONFIG.format(port=self.port))
        self.environment = {
            **os.environ,
            "FLWR_HOME": str(home),
            "HOME": str(folder),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "PYTHONPATH": str(APP.parents[1]),
            "PATH": f"{COMMANDS['flwr'].parent}:{os.environ['PATH']}",
        }
        self.processes: list[subprocess.Popen] = []

    def start(self, name: str, *words: str) -> subprocess.Popen:
        with (self.folder / f"{name}-{len(self.processes)}.log").open("w") as log:
            process = subprocess.Popen(
                [str(COMMANDS[name]), *words],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment,
                cwd=self.folder,
                start_new_session=True,  # with the processes that it starts
            )
        self.processes.append(process)
        return process

    def start_node(self, client: str) -> subprocess.Popen:
        words = ("--superlink", f"127.0.0.1:{self.port}", "--port", str(free_port()))
        return self.start("flower-supernode", "--insecure", *words, "--node-config", f'client="{client}"')

    @property
    def is_listening(self) -> bool:
        with socket.socket() as found:
            return found.connect_ex(("127.0.0.1", self.port)) == 0

    def run(self, seed: int, wait_for: int) -> None:
        given = f'folder="{self.folder / "server"}" seed={seed} wait-for={wait_for} timeout=120.0'
        self.start("flwr", "run", str(APP), "loop", "--stream", "--run-config", given)

    def close(self) -> None:
        for process in self.processes:
            kill(process)

    @property
    def said(self) -> str:
        return "\n".join(path.read_text(errors="replace")[-2000:] for path in self.folder.glob("*.log"))


def kill(process: subprocess.Popen) -> None:
    """The process and all that it started, by signal 9."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait(network: Network, what: str, is_there: Any, seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while not is_there():
        if time.monotonic() > end:
            pytest.fail(f"No {what} after {seconds} seconds:\n{network.said}")
        time.sleep(0.2)


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    found = Network(tmp_path)
    found.start("flower-superlink", "--insecure", "--host", "127.0.0.1", "--port", str(found.port))
    try:
        wait(found, "SuperLink", lambda: found.is_listening)  # on a busy machine it takes a while
        yield found
    finally:
        found.close()


def test_kills_on_loopback_leave_the_model_of_the_simulator(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(APP))
    task: Any = importlib.import_module("clinics.task")
    nodes = [network.start_node(client) for client in task.CLINICS[:2]]  # the third never comes
    network.run(seed=3, wait_for=2)
    journal = tmp_path / "server" / "private" / "journal.json"
    wait(network, "second round", lambda: journal.exists() and '"1": ' in journal.read_text())
    # In the middle of a round: the SuperLink with the server that it started, and a client.
    kill(network.processes[0])
    kill(nodes[1])
    assert not (tmp_path / "server" / "model.npz").exists()
    network.port = free_port()
    (tmp_path / "home" / "config.toml").write_text(CONFIG.format(port=network.port))
    kill(nodes[0])
    network.start("flower-superlink", "--insecure", "--host", "127.0.0.1", "--port", str(network.port))
    for client in task.CLINICS[:2]:
        network.start_node(client)
    wait(network, "SuperLink", lambda: network.is_listening)
    network.run(seed=3, wait_for=2)
    wait(network, "model", (tmp_path / "server" / "model.npz").exists)
    rows = {client: task.patients(client) for client in task.CLINICS[:2]}
    users = np.concatenate([np.full(len(own["y"]), client) for client, own in rows.items()])
    data = {name: np.concatenate([own[name] for own in rows.values()]) for name in ("x", "y")}
    simulated = rt.federated.train(
        task.loss, task.start(), rt.Dataset(data, users=users), task.PLAN, keys=Keys.seeded(3)
    )
    with np.load(tmp_path / "server" / "model.npz") as found:
        for name, leaf in simulated.params.items():
            np.testing.assert_allclose(found[name], leaf, atol=2e-6)
    cached = list((tmp_path / ".cache" / "reticent" / "compiled").iterdir())
    assert cached, "programs are kept from message to message"
