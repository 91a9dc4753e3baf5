"""Erase what one person's payloads have left, and keep the keys of their events."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from webhook_inbox.cli.event_filter import (
    EndpointOption,
    ErrorOption,
    SinceOption,
    StateOption,
    TypeOption,
    UntilOption,
    event_filter,
)
from webhook_inbox.cli.events import the_event
from webhook_inbox.cli.failures import BAD, GOOD
from webhook_inbox.cli.operate import DryRunOption, YesOption
from webhook_inbox.cli.operator import OperatorOption, ReasonOption, operator
from webhook_inbox.cli.options import AppArgument, JsonOption
from webhook_inbox.cli.output import counted, is_terminal, say, tell, tell_json, visible
from webhook_inbox.cli.store import Store
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.event_filter import EventFilter

if TYPE_CHECKING:
    from webhook_inbox.protocol.erase import Erased


def erase(
    *,
    context: typer.Context,
    app: AppArgument = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            metavar="PATH=VALUE",
            show_envvar=False,
            show_default=False,
            help="Only where the payload has this value there: data.object.customer=cus_1. Several: all of them.",
        ),
    ] = None,
    event: Annotated[
        list[str] | None,
        typer.Option(
            "--event",
            metavar="ID",
            show_envvar=False,
            show_default=False,
            help="Only this event, by its id or its row; may be given several times.",
        ),
    ] = None,
    state: StateOption = None,
    endpoint: EndpointOption = "",
    type: TypeOption = "",
    since: SinceOption = "",
    until: UntilOption = "",
    error: ErrorOption = "",
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            show_envvar=False,
            help="Also of events that are not settled: what they were to do is never done.",
        ),
    ] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    reason: ReasonOption = "",
    by: OperatorOption = "",
    json: JsonOption = False,
) -> int:
    """
    Erase the payloads of APP's events that the options mean, one person's for instance; a redelivery stays a duplicate.

    Bodies, headers, kept fields, other bodies under the same id, errors, what reviews and messages say, keys of
    tx.stale. Options narrow the choice down together. A run that is interrupted goes on when it is started again.
    Exit 1 where one was left.
    """
    from webhook_inbox.cli.load import load_inbox
    from webhook_inbox.protocol.erase import erase as erasing

    load_inbox(app)
    store = Store(context, app, None, "")
    wanted = dict(map(_wanted, _conditions(context, where)))
    meant = event_filter(
        state=state, endpoint=endpoint, type=type, id="", since=since, until=until, error=error
    )
    if event:
        if meant != EventFilter(endpoint=endpoint):
            raise ConfigurationError("say which events by --event or by other options, not by both")
        meant = EventFilter(rows=tuple({the_event(store, each, endpoint).row for each in event}))
    elif meant == EventFilter() and not wanted:
        raise ConfigurationError("say which events: --where, --event, or options such as --endpoint")
    who = operator(by, reason)

    def erased(*, dry_run: bool) -> Erased:
        return store.perform(lambda schema: erasing(meant, wanted, who, schema, force=force, dry_run=dry_run))

    if not dry_run and not yes:
        _ask(erased(dry_run=True).events)
    return _tell(erased(dry_run=dry_run), dry_run=dry_run, json=json)


def _conditions(context: typer.Context, where: list[str] | None) -> list[str]:
    """Give each PATH=VALUE; a variable holds one a line, which Typer would part at every blank of a value."""
    source = context.get_parameter_source("where")
    if source is not None and source.name == "ENVIRONMENT":
        return os.environ["WEBHOOK_INBOX_ERASE_WHERE"].splitlines()
    return where or []


def _wanted(text: str) -> tuple[str, str]:
    """Part what ``--where`` was given; it is not quoted where it is wrong, since it names a person."""
    path, equals, value = text.partition("=")
    path = path.removeprefix("$.")
    if not equals or not value or not all(path.split(".")):
        raise ConfigurationError("--where takes PATH=VALUE, for instance data.object.customer=cus_1")
    return path, value


def _ask(number: int) -> None:
    if not is_terminal(sys.stdin):
        raise ConfigurationError(f"{counted(number, 'event')} would be erased: say --yes, or --dry-run")
    typer.confirm(f"erase the payloads of {counted(number, 'event')}?", abort=True, err=True)


def _tell(done: Erased, *, dry_run: bool, json: bool) -> int:
    if json:
        left = [
            {"row": each.event.row, "event_id": each.event.event_id, "why": each.why} for each in done.left
        ]
        tell_json({"dry_run": dry_run, "erased": done.events, "left": left, "unread": done.unread})
    else:
        verb = "would be erased" if dry_run else "erased"
        tell(f"{counted(done.events, 'event')}: payloads {verb}")
    for each in done.left:
        say(visible(f"left as it is: {each.event.event_id} (row {each.event.row}): {each.why}"))
    if done.unread:
        say(
            f"{counted(done.unread, 'body', 'bodies')} could not be looked into, being no JSON: events show --raw"
        )
    return BAD if done.left else GOOD
