"""Look at the messages of the outbox, and have those sent again that nothing would send any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from webhook_inbox.cli.event_page import at
from webhook_inbox.cli.failures import BAD, GOOD
from webhook_inbox.cli.operator import OperatorOption, ReasonOption, operator
from webhook_inbox.cli.options import AppOption, DatabaseOption, JsonOption, SchemaOption
from webhook_inbox.cli.output import counted, is_terminal, say, table, tell, tell_json, visible
from webhook_inbox.cli.store import Store
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.message import SendState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webhook_inbox.protocol.messages import MessageFilter, MessageRecord

LIMIT_MAX = 1000


def _filter(option: str, metavar: str, help: str) -> Any:  # noqa: A002, ANN401 - as Typer calls it, and gives it
    return typer.Option(option, metavar=metavar, show_envvar=False, show_default=False, help=help)


StateOption = Annotated[
    str,
    _filter("--state", "STATE", "Only in this state: waiting, leased, retrying, sent, dead, unrouted."),
]
RetriedStateOption = Annotated[
    str,
    _filter("--state", "STATE", "Only in this state: dead, retrying, unrouted; else dead and unrouted."),
]
DestinationOption = Annotated[str, _filter("--destination", "NAME", "Only for this destination.")]
TypeOption = Annotated[
    str, _filter("--type", "TYPE", "Only of this type; 'Invoice*' means all that begin so.")
]


def list_outbox(
    *,
    context: typer.Context,
    state: StateOption = "",
    destination: DestinationOption = "",
    type: TypeOption = "",
    limit: Annotated[
        int,
        typer.Option(
            "--limit", metavar="N", min=1, max=LIMIT_MAX, show_envvar=False, help="How many at most."
        ),
    ] = 50,
    app: AppOption = None,
    database: DatabaseOption = None,
    schema: SchemaOption = "webhooks",
    json: JsonOption = False,
) -> int:
    """
    List messages, newest first, a line for each destination; payloads are not shown.

    Options that say which are meant narrow the list down together.
    """
    from webhook_inbox.protocol.messages import MessageFilter, list_messages

    meant = MessageFilter(state=state, destination=destination, event_type=type)
    found = Store(context, app, database, schema).perform(
        lambda name: list_messages(meant, name, limit=limit)
    )
    if json:
        tell_json({"messages": [_facts(each) for each in found]})
        return GOOD
    rows = [
        [each.id, each.destination, each.event_type, each.state.value, str(each.attempts), each.last_error]
        for each in found
    ]
    headings = ["id", "destination", "type", "state", "attempts", "error"]
    for line in table(headings, rows, numbers=(4,), whole=(0, 3, 4), first=(0, 5)) if rows else ():
        tell(line)
    if not found:
        say("there is no such message" if meant != MessageFilter() else "there is no message yet")
    return GOOD


def show_message(
    *,
    context: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="The message's id.")],
    app: AppOption = None,
    database: DatabaseOption = None,
    schema: SchemaOption = "webhooks",
    json: JsonOption = False,
) -> int:
    """Show one message: where it goes, and what came of each send; its payload is not shown."""
    from webhook_inbox.protocol.messages import MessageFilter, list_messages

    meant = MessageFilter(message_id=id)
    found = Store(context, app, database, schema).perform(
        lambda name: list_messages(meant, name, limit=LIMIT_MAX)
    )
    if not found:
        raise ConfigurationError(f"there is no message {id!r}")
    if json:
        tell_json({"sends": [_facts(each) for each in found]})
        return GOOD
    for each in found:
        for name, value in _told(each).items():
            if value:
                tell(f"{name:<12} {visible(value)}")
        tell()
    return GOOD


def retry_outbox(
    *,
    context: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", show_default=False, help="Only this message.")] = "",
    state: RetriedStateOption = "",
    destination: DestinationOption = "",
    type: TypeOption = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", show_envvar=False, help="Only say which they are.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", show_envvar=False, help="Do it without asking; a terminal is asked.")
    ] = False,
    reason: ReasonOption = "",
    by: OperatorOption = "",
    app: AppOption = None,
    database: DatabaseOption = None,
    schema: SchemaOption = "webhooks",
    json: JsonOption = False,
) -> int:
    """
    Have dead messages sent again, and unrouted ones routed again, under the ids that they have.

    One that waits for another attempt goes out at once, by its id or --state retrying. Who does it, and why, is kept in
    the audit. Without a terminal to ask, it wants --yes or --dry-run.
    """
    from webhook_inbox.protocol.messages import MessageFilter, retry_messages

    meant = MessageFilter(state=state, destination=destination, event_type=type, message_id=id)
    store, who = Store(context, app, database, schema), operator(by, reason)
    found = store.perform(lambda name: retry_messages(meant, who, name, dry_run=True))
    left = [] if found else _left(store, meant)
    if found and not dry_run and not yes and not _agreed(len(found)):
        say("nothing is changed")
        return BAD
    if not dry_run:
        found = store.perform(lambda name: retry_messages(meant, who, name))
    if json:
        tell_json(
            {
                "dry_run": dry_run,
                "messages": [{"id": row[0], "destination": row[1], "was": row[2]} for row in found],
            }
        )
        return BAD if left else GOOD
    for message_id, name, was in found:
        tell(f"{message_id}  {visible(name) or '-'}  {was}")
    say(
        f"{counted(len(found), 'message')} {'would be' if dry_run else 'is' if len(found) == 1 else 'are'} due again"
    )
    return BAD if left else GOOD


def _left(store: Store, meant: MessageFilter) -> Sequence[MessageRecord]:
    """
    Say why nothing is to be retried where one message is named; give it.

    Raises:
        ConfigurationError: There is no such message, or none for the destination.
    """
    from webhook_inbox.protocol.messages import MessageFilter, list_messages

    named = MessageFilter(message_id=meant.message_id, destination=meant.destination)
    if named == MessageFilter():
        return ()
    found = store.perform(lambda name: list_messages(named, name, limit=LIMIT_MAX if meant.message_id else 1))
    if not found:
        what = f" {meant.message_id!r}" if meant.message_id else ""
        where = f" for destination {meant.destination!r}" if meant.destination else ""
        raise ConfigurationError(f"there is no message{what}{where}")
    if not meant.message_id:
        return ()
    for each in found:
        where = f" at {each.destination}" if each.destination else ""
        say(visible(f"left as it is: {each.id}{where}: it is {each.state}"))
    return found


def _agreed(number: int) -> bool:
    """Ask whoever sits there."""
    import sys

    if not is_terminal(sys.stdin):
        raise ConfigurationError("nobody can be asked: give --yes to do it, or --dry-run to see it")
    return typer.confirm(f"Have {counted(number, 'message')} sent again?", err=True)


def _told(record: MessageRecord) -> dict[str, str]:
    """Give the facts of a message for people, in the order in which they are asked for."""
    times = {
        "created": record.created_at,
        "due": record.available_at if record.state in (SendState.WAITING, SendState.RETRYING) else None,
        "sent": record.sent_at,
        "published": record.published_at,
    }
    return {
        "id": record.id,
        "destination": record.destination,
        "type": record.event_type,
        "aggregate": " ".join(filter(None, (record.aggregate_type, record.aggregate_id))),
        "state": record.state,
        "last error": record.last_error,
        "attempts": str(record.attempts),
        **{name: at(time) for name, time in times.items() if time is not None},
    }


def _facts(record: MessageRecord) -> dict[str, Any]:
    times = {
        name: None if (value := getattr(record, name)) is None else value.isoformat()
        for name in ("created_at", "available_at", "sent_at", "published_at")
    }
    return {
        "id": record.id,
        "destination": record.destination,
        "type": record.event_type,
        "aggregate_type": record.aggregate_type,
        "aggregate_id": record.aggregate_id,
        "state": record.state.value,
        "attempts": record.attempts,
        **times,
        "last_error": record.last_error,
    }
