"""Ctrl-C while XLA is at work: an exit code, and no crash on the way out."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from reticent.cli import app

_AT_WORK = """if True:
    import signal
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    import jax, jax.numpy as jnp
    from reticent.cli import app
    def command(*given, **rest):
        f = jax.jit(lambda x: jax.lax.fori_loop(0, 10**6, lambda i, x: jnp.tanh(x @ x), x))
        started = f(jnp.ones((300, 300)) / 300)
        print("at work", flush=True)
        started.block_until_ready()
    app.app, app.typer.main.get_command, app.defaults_for = command, lambda made: made, lambda *given: {}
    app.main(["train"])
"""


def test_an_interrupt_in_the_middle_of_a_computation_ends_with_130():
    process = subprocess.Popen(
        [sys.executable, "-c", _AT_WORK], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "at work\n"
    process.send_signal(signal.SIGINT)
    try:
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, said.strip()) == (130, "error: Interrupted.")


def test_an_interrupt_before_anything_heavy_is_an_ordinary_exit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(app, "_run", lambda given, debug: 130)
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    with pytest.raises(SystemExit) as ended:
        app.main(["account"])
    assert ended.value.code == 130


def test_an_interrupt_that_python_drops_is_sent_again(monkeypatch: pytest.MonkeyPatch):
    class Callback:
        def __del__(self) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "unraisablehook", app._send_interrupt_again)
    Callback()  # gone at once
    with pytest.raises(KeyboardInterrupt):
        time.sleep(30)
