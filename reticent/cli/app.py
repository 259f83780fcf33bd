"""`reticent`: the root of all commands, and the only place where errors become exit codes.

Exit codes: 0 fine, 1 wrong input or failure, 3 refused by the privacy budget, 130 interrupted.
"""

from __future__ import annotations

import _thread
import atexit
import os
import shlex
import sys
import threading
import traceback
from contextlib import suppress
from typing import Annotated

import typer

from reticent import __version__
from reticent.cli import (
    account,
    attack,
    audit,
    calibrate,
    compare,
    datasets,
    demo,
    domain,
    export,
    federate,
    ledger,
    output,
    pate,
    predict,
    pretrain,
    report,
    sample,
    show,
    studio,
    sweep,
    synth,
    train,
    trust,
)
from reticent.cli.defaults import defaults_for
from reticent.cli.parsing import LineError, explain
from reticent.cli.without_pandas import leave_pandas_out
from reticent.core.errors import ReticentError, TooFewRows
from reticent.core.kept_programs import keep_programs
from reticent.core.postgres import looks_like_database

app = typer.Typer(
    name="reticent",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo", epilog=demo.EPILOG)(demo.run)
app.command("train", epilog=train.EPILOG)(train.run)
app.command("pretrain", epilog=pretrain.EPILOG)(pretrain.run)
app.command("pate", epilog=pate.EPILOG)(pate.run)
app.command("federate", epilog=federate.EPILOG)(federate.run)
app.command("synth", epilog=synth.EPILOG)(synth.run)
app.command("predict", epilog=predict.EPILOG)(predict.run)
app.command("sample", epilog=sample.EPILOG)(sample.run)
app.command("show", epilog=show.EPILOG)(show.run)
app.command("compare", epilog=compare.EPILOG)(compare.run)
app.command("export", epilog=export.EPILOG)(export.run)
app.command("trust", epilog=trust.EPILOG)(trust.run)
app.command("attack", epilog=attack.EPILOG)(attack.run)
app.command("audit", epilog=audit.EPILOG)(audit.run)
app.command("sweep", epilog=sweep.EPILOG)(sweep.run)
app.command("report", epilog=report.EPILOG)(report.run)
app.command("studio", epilog=studio.EPILOG)(studio.run)
app.command("account", epilog=account.EPILOG)(account.run)
app.command("calibrate", epilog=calibrate.EPILOG)(calibrate.run)
app.add_typer(datasets.app, name="datasets")
app.command("domain", epilog=domain.EPILOG)(domain.run)
app.add_typer(ledger.app, name="ledger")

_ASSUMING = "--prepare assume-public"  # the last of two is the one that counts
_INTERRUPTED = 130  # as shells have it for Ctrl-C


def main(arguments: list[str] | None = None) -> None:
    """Runs a command line and exits with its code. `--debug` anywhere on it shows the traceback."""
    given = sys.argv[1:] if arguments is None else arguments
    kept = None
    if arguments is None:  # elsewhere, the process is somebody else's
        kept = keep_programs()
        sys.unraisablehook = _send_interrupt_again
        leave_pandas_out(given)
    code = _run([word for word in given if word != "--debug"], debug="--debug" in given)
    if kept is not None and "jax" in sys.modules:
        kept.tidy()
    if code:
        from reticent.distributed.starting import leave

        leave(code)
    is_interrupted = code == _INTERRUPTED and "jax" in sys.modules
    if is_interrupted or (arguments is None and {"jax", "pyarrow"} & sys.modules.keys()):
        _exit_past_threads(code)
    sys.exit(code)


def _send_interrupt_again(lost: sys.UnraisableHookArgs) -> None:
    """Repeats a Ctrl-C that Python dropped.

    An exception in a callback of the garbage collector is printed and ignored, and JAX has such a callback:
    a run that was interrupted there would go on, and be charged.
    """
    if issubclass(lost.exc_type, KeyboardInterrupt):
        threading.Timer(0.01, _thread.interrupt_main).start()  # once that callback has ended
    else:
        sys.__unraisablehook__(lost)


def _exit_past_threads(code: int) -> None:
    """Ends the process without shutting the interpreter down under threads that are still running.

    XLA may still compute after Ctrl-C, and Arrow may still read ahead in a file that was refused. A
    thread that uses an interpreter during its shutdown aborts the process.
    """
    if code != _INTERRUPTED:
        atexit._run_exitfuncs()  # what the interpreter does first: temporary folders, log handlers
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # its reader may be gone
            stream.flush()
    os._exit(code)


def _run(arguments: list[str], *, debug: bool) -> int:
    try:
        command = typer.main.get_command(app)
        given = defaults_for(arguments, command)
        # A command that ends early by `typer.Exit` hands its code back instead of raising.
        code = command(arguments, prog_name="reticent", standalone_mode=False, default_map=given) or 0
        if code == _INTERRUPTED:
            output.fail("Interrupted.")
        sys.stdout.flush()  # a reader who has gone is noticed here, not while the interpreter shuts down
        return code
    except (BrokenPipeError, SystemExit) as error:
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise
        # The reader (`head`, say) has seen enough, which typer and rich would call a failure.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        if _is_joined():  # the others wait for what this process will not do any more
            os.dup2(nowhere, sys.stderr.fileno())
            return 1
        return 0
    except (KeyboardInterrupt, typer.Abort):
        output.fail("Interrupted.")
        return _INTERRUPTED
    except ReticentError as error:
        code = _report(error, str(error), error.exit_code, debug=debug)
        is_secret = any("://" in word or looks_like_database(word) for word in arguments)  # a password?
        if isinstance(error, TooFewRows) and not is_secret:
            output.note(f"As a line to paste: {shlex.join(['reticent', *arguments])} {_ASSUMING}")
        return code
    except LineError as error:  # an option that does not exist, a value of the wrong kind
        message = explain(error)
        if not message:  # no command was given, and the help is printed already
            return 0
        message += "" if message.endswith((".", "?")) else "."
        where = getattr(error, "ctx", None)
        command = where.command_path if where else "reticent"
        return _report(error, f"{message} Try: {command} --help", 1, debug=debug)
    except Exception as error:  # noqa: BLE001 - the last line of defence: no user sees a traceback unasked
        advice = "Run again with --debug to see where, and please report it."
        return _report(error, f"Unexpected {type(error).__name__}: {error}. {advice}", 1, debug=debug)


def _is_joined() -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and jax.distributed.is_initialized()


def _report(error: Exception, message: str, code: int, *, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    output.fail(message)
    return code


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"reticent {__version__}")
        raise typer.Exit


@app.callback(epilog="Example:  reticent datasets list")
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Private machine learning: train, account, attack, explain."""
