"""Record which events an older receiver has processed, so that they have no second effect here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from webhook_inbox.cli.failures import BAD, GOOD
from webhook_inbox.cli.operator import OperatorOption, ReasonOption, operator
from webhook_inbox.cli.options import JsonOption
from webhook_inbox.cli.output import counted, say, tell, tell_json
from webhook_inbox.errors import ConfigurationError

if TYPE_CHECKING:
    from webhook_inbox.cli.import_file import Unfit
    from webhook_inbox.protocol.importing import Imported

_LINES_SHOWN = 20


def import_events(
    *,
    app: Annotated[
        str,
        typer.Argument(metavar="APP", help="Your Inbox as module:attribute, for instance billing.app:inbox."),
    ],
    endpoint: Annotated[str, typer.Argument(metavar="ENDPOINT", help="The name of an endpoint of it.")],
    file: Annotated[str, typer.Argument(metavar="FILE", help="What names the events; - for stdin.")],
    format: Annotated[  # noqa: A002 - as the option is called
        str,
        typer.Option(
            "--format",
            metavar="ids|csv|jsonl",
            show_envvar=False,
            show_default=False,
            help="Default: as the file's name ends, else ids.",
        ),
    ] = "",
    environment: Annotated[
        str,
        typer.Option(
            "--environment",
            metavar="live|test",
            show_envvar=False,
            show_default=False,
            help="Of events whose line says none.",
        ),
    ] = "",
    account: Annotated[
        str,
        typer.Option(
            "--account",
            metavar="ACCOUNT",
            show_envvar=False,
            show_default=False,
            help="Of events whose line says none.",
        ),
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", show_envvar=False, help="Record nothing; say what would be.")
    ] = False,
    reason: ReasonOption = "",
    by: OperatorOption = "",
    json: JsonOption = False,
) -> int:
    """
    Record the events that FILE names as processed by an older receiver: a redelivery is a duplicate from now on.

    FILE has an id a line, or is CSV with a heading or JSON lines: id, and any of type, account, environment,
    received_at. What is here already stays as it is. Exit 1 where a line names no event that ENDPOINT could be sent.
    """
    from webhook_inbox.cli.database import ask_inbox
    from webhook_inbox.cli.import_file import Unfit, format_of, named_events, opened
    from webhook_inbox.cli.load import load_inbox
    from webhook_inbox.protocol.importing import import_events as importing, unfit

    form = format_of(file, format)
    inbox = load_inbox(app)
    if (plan := inbox.endpoint_plans.get(endpoint)) is None:
        raise ConfigurationError(f"{app} has no endpoint {endpoint!r}")
    bad = Unfit()
    who = operator(by, reason)
    with opened(file) as content:
        events = named_events(
            content,
            form,
            {"environment": environment, "account": account},
            unfit=lambda each: unfit(each, plan.source),
            told=bad,
        )
        done = ask_inbox(
            inbox,
            lambda each: each.perform(lambda schema: importing(events, plan, who, schema, dry_run=dry_run)),
            app=app,
        )
    if json:
        tell_json(_facts(done, bad, dry_run=dry_run))
    else:
        _show(done, bad, dry_run=dry_run)
    return BAD if bad.number else GOOD


def _facts(done: Imported, bad: Unfit, *, dry_run: bool) -> dict[str, object]:
    return {
        "dry_run": dry_run,
        "new": done.new,
        "known": done.known.total(),
        "known_states": done.known,
        "repeated": done.repeated,
        "invalid": bad.number,
        "invalid_lines": [{"line": line, "reason": reason} for line, reason in bad.lines.items()],
    }


def _show(done: Imported, bad: Unfit, *, dry_run: bool) -> None:
    for line, reason in list(bad.lines.items())[:_LINES_SHOWN]:
        say(f"line {line}: {reason}")
    if bad.number > _LINES_SHOWN:
        say(f"... and {counted(bad.number - _LINES_SHOWN, 'line')} more")
    repeated = f", {done.repeated} repeated" if done.repeated else ""
    verb = "would be imported" if dry_run else "imported"
    tell(f"{verb}: {done.new} new, {done.known.total()} known{repeated}, {bad.number} invalid")
    for state, number in sorted(done.known.items()):
        if state not in {"processed", "ignored"}:
            say(
                f"{counted(number, 'event')} known and {state}: to have no effect here either, events discard"
            )
