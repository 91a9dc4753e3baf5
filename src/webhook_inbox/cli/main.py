"""
Run ``webhook-inbox VERB``.

Nothing heavy is imported before a verb needs it: help and completion answer at once. A verb is a function that
returns its exit code.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from webhook_inbox._version import __version__
from webhook_inbox.cli.audit import audit
from webhook_inbox.cli.demo import demo
from webhook_inbox.cli.dev import dev
from webhook_inbox.cli.doctor import doctor
from webhook_inbox.cli.endpoints import limit_endpoint, list_endpoints, pause_endpoint, resume_endpoint
from webhook_inbox.cli.erase import erase
from webhook_inbox.cli.events import list_events, show_event
from webhook_inbox.cli.failures import (
    BAD,
    GOOD,
    INTERRUPTED,
    PIPE_CLOSED,
    USAGE,
    report,
    report_defect,
)
from webhook_inbox.cli.import_events import import_events
from webhook_inbox.cli.metrics import print_alerts, print_dashboard
from webhook_inbox.cli.migrate import migrate
from webhook_inbox.cli.new import new
from webhook_inbox.cli.operate import discard_events, replay_events, retry_events
from webhook_inbox.cli.outbox import list_outbox, retry_outbox, show_message
from webhook_inbox.cli.output import PROGRAM, say, visible
from webhook_inbox.cli.prove import prove
from webhook_inbox.cli.prune import prune
from webhook_inbox.cli.reconcile import reconcile
from webhook_inbox.cli.relay import relay
from webhook_inbox.cli.reviews import list_reviews, resolve_reviews, show_review
from webhook_inbox.cli.roles import roles
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
    for verb in (
        demo,
        new,
        dev,
        migrate,
        roles,
        serve,
        worker,
        relay,
        status,
        doctor,
        prune,
        erase,
        reconcile,
        send,
        prove,
        audit,
    ):
        _add(app, verb, verb.__name__)
    _add(app, import_events, "import")  # a word of Python's, which no function can be called
    _group(
        app,
        "events",
        "Look at recorded events, and have them run again or given up.",
        {
            "list": list_events,
            "show": show_event,
            "retry": retry_events,
            "replay": replay_events,
            "discard": discard_events,
        },
    )
    _group(
        app,
        "reviews",
        "Look at what handlers asked a person to look at, and close it.",
        {"list": list_reviews, "show": show_review, "resolve": resolve_reviews},
    )
    _group(
        app,
        "endpoints",
        "Look at endpoints, stop running the events of one or slow it down, and run them again.",
        {
            "list": list_endpoints,
            "pause": pause_endpoint,
            "resume": resume_endpoint,
            "limit": limit_endpoint,
        },
    )
    _group(
        app,
        "outbox",
        "Look at the messages of the outbox, and have dead ones sent again.",
        {"list": list_outbox, "show": show_message, "retry": retry_outbox},
    )
    _group(
        app,
        "sources",
        "Show the providers that are known by name.",
        {"list": list_sources, "show": show_source},
    )
    _group(
        app,
        "metrics",
        "Print what makes something of the metrics: alert rules, a dashboard.",
        {"alerts": print_alerts, "dashboard": print_dashboard},
    )
    return app


def _group(app: typer.Typer, name: str, help: str, verbs: Mapping[str, Callable[..., int]]) -> None:  # noqa: A002 - as Typer calls it
    """Add *verbs* below *name*."""
    group = typer.Typer(help=help, no_args_is_help=True)
    for verb, function in verbs.items():
        _add(group, function, verb, name)
    app.add_typer(group, name=name)


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
    message = str(error.format_message())
    if (
        context and message == context.get_help()
    ):  # of verbs that were not told apart: nothing was typed wrong
        say(message)
        return USAGE
    first, *more = message.rstrip(".").expandtabs().splitlines() or [""]
    say(f"{command}: {visible(first[:1].lower() + first[1:])}")
    for line in more:
        say(visible(line))
    say(f"Try '{command} --help'.")
    return int(getattr(error, "exit_code", BAD))


def _pipe_closed() -> int:
    _drop_output()
    return PIPE_CLOSED


def _system_failed(error: OSError) -> int:
    """Say what the system refused, and of which file; often it is the disk that our output goes to."""
    of = f"{error.filename}: " if isinstance(error.filename, str) else ""
    say(f"{PROGRAM}: {visible(of)}{error.strerror or type(error).__name__}")
    _drop_output()
    return BAD


def _drop_output() -> None:
    """Let the interpreter flush into nothing when it ends, rather than fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
