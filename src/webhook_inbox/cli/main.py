"""
Run ``webhook-inbox VERB``.

Nothing heavy is imported before a verb needs it: help and completion answer at once. A verb is a function that
returns its exit code.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from webhook_inbox._version import __version__
from webhook_inbox.cli.demo import demo
from webhook_inbox.cli.dev import dev
from webhook_inbox.cli.failures import (
    BAD,
    GOOD,
    INTERRUPTED,
    PIPE_CLOSED,
    USAGE,
    report,
    report_defect,
)
from webhook_inbox.cli.migrate import migrate
from webhook_inbox.cli.output import PROGRAM, say, visible
from webhook_inbox.cli.send import send
from webhook_inbox.cli.serve import serve
from webhook_inbox.cli.sources import list_sources, show_source
from webhook_inbox.cli.status import status
from webhook_inbox.cli.worker import worker
from webhook_inbox.errors import InboxError

_EPILOG = (
    "Every option has an environment variable: WEBHOOK_INBOX_SERVE_PORT=8080 stands for serve --port 8080, and so on. "
    "Exit code: 0 good, 1 the answer is bad, 2 usage or configuration."
)


def main() -> None:
    """Run the command line on the process's arguments, and exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """
    Run one command.

    Returns:
        The exit code; see ``failures``. Whatever happens ends in one, never in a traceback (P-QUIET).
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # a TextIOWrapper, at start
    try:
        code = make_app()(arguments, prog_name=PROGRAM, standalone_mode=False)
        print(end="", flush=True)  # a pipe that broke late is noticed here
    except BrokenPipeError:
        return _pipe_closed()
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # Typer's own way to end there
            return _pipe_closed()
        raise
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except InboxError as error:
        return report(error)
    except OSError as error:
        return _system_failed(error)
    except Exception as error:  # noqa: BLE001 - whatever it is, it ends in a sentence
        return _usage(error) if hasattr(error, "format_message") else report_defect(error)
    return code if isinstance(code, int) else GOOD


def make_app() -> typer.Typer:
    """Make the command line's tree of verbs."""
    app = typer.Typer(
        epilog=_EPILOG,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_root)
    for verb in (demo, dev, migrate, serve, worker, status, send):
        _add(app, verb, verb.__name__)
    sources = typer.Typer(help="Show the providers that are known by name.", no_args_is_help=True)
    _add(sources, list_sources, "list", "sources")
    _add(sources, show_source, "show", "sources")
    app.add_typer(sources, name="sources")
    return app


def _add(app: typer.Typer, verb: Callable[..., int], name: str, *of: str) -> None:
    """Add a verb whose options each have a variable; the program's own have none (WEBHOOK_INBOX_VERSION: not ours)."""
    prefix = "_".join(("WEBHOOK_INBOX", *of, name)).upper()
    app.command(name, context_settings={"auto_envvar_prefix": prefix})(verb)


def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> int:
    """Receive webhooks so that their effect commits once, in your own PostgreSQL."""
    if version:
        print(f"{PROGRAM} {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        say(context.get_help())
        raise typer.Exit(USAGE)
    return GOOD


def _usage(error: Any) -> int:  # noqa: ANN401 - Typer's exceptions have moved between its releases
    """Say in two lines what was typed wrong, and where help is."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else PROGRAM
    message = str(error.format_message()).rstrip(".")
    say(f"{command}: {visible(message[:1].lower() + message[1:])}")
    say(f"Try '{command} --help'.")
    return int(getattr(error, "exit_code", BAD))


def _pipe_closed() -> int:
    _drop_output()
    return PIPE_CLOSED


def _system_failed(error: OSError) -> int:
    """Say what the system refused; often it is the disk that our output goes to."""
    say(f"{PROGRAM}: {error.strerror or type(error).__name__}")
    _drop_output()
    return BAD


def _drop_output() -> None:
    """Let the interpreter flush into nothing when it ends, rather than fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
