"""List recorded events, and show one: where it stands, what its runs met, and its bytes for who asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from webhook_inbox.cli.event_filter import (
    EndpointOption,
    ErrorOption,
    IdOption,
    SinceOption,
    StateOption,
    TypeOption,
    UntilOption,
    event_filter,
)
from webhook_inbox.cli.event_page import details_facts, details_lines, event_facts, event_table, write_body
from webhook_inbox.cli.failures import GOOD
from webhook_inbox.cli.options import AppOption, DatabaseOption, JsonOption, SchemaOption
from webhook_inbox.cli.output import say, tell, tell_json
from webhook_inbox.cli.store import Store
from webhook_inbox.errors import ConfigurationError

if TYPE_CHECKING:
    from webhook_inbox.model.event_record import EventRecord

EventArgument = Annotated[
    str,
    typer.Argument(metavar="ID", help="The provider's event id, or the row's number in the list."),
]
LIMIT_MAX = 1000


def list_events(
    *,
    context: typer.Context,
    state: StateOption = None,
    endpoint: EndpointOption = "",
    type: TypeOption = "",
    id: IdOption = "",
    since: SinceOption = "",
    until: UntilOption = "",
    error: ErrorOption = "",
    limit: Annotated[
        int,
        typer.Option(
            "--limit", metavar="N", min=1, max=LIMIT_MAX, show_envvar=False, help="How many at most."
        ),
    ] = 50,
    after: Annotated[
        int | None,
        typer.Option(
            "--after", metavar="N", min=0, show_envvar=False, help="Go on after this row: the next page."
        ),
    ] = None,
    oldest_first: Annotated[
        bool, typer.Option("--oldest-first", show_envvar=False, help="In place of newest first.")
    ] = False,
    app: AppOption = None,
    database: DatabaseOption = None,
    schema: SchemaOption = "webhooks",
    json: JsonOption = False,
) -> int:
    """
    List events, newest first.

    Options that say which are meant narrow the list down together. Headers and bodies are not shown; see events show.
    """
    from webhook_inbox.model.event_filter import EventFilter
    from webhook_inbox.protocol import look

    meant = event_filter(
        state=state, endpoint=endpoint, type=type, id=id, since=since, until=until, error=error
    )
    found = Store(context, app, database, schema).perform(
        lambda name: look.list_events(meant, name, limit=limit, after=after, oldest_first=oldest_first)
    )
    following = found[-1].row if len(found) == limit else None
    if json:
        tell_json({"events": [event_facts(each) for each in found], "after": following})
        return GOOD
    for line in event_table(found):
        tell(line)
    if not found:
        say("there is no such event" if meant != EventFilter() else "there is no event yet")
    elif following is not None:
        say(f"there may be more: --after {following}")
    return GOOD


def show_event(
    *,
    context: typer.Context,
    id: EventArgument,
    endpoint: Annotated[
        str,
        typer.Option(
            "--endpoint",
            metavar="NAME",
            show_envvar=False,
            show_default=False,
            help="Its endpoint, where several have this id.",
        ),
    ] = "",
    show_headers: Annotated[
        bool, typer.Option("--show-headers", show_envvar=False, help="Show the values of headers, too.")
    ] = False,
    show_body: Annotated[
        bool, typer.Option("--show-body", show_envvar=False, help="Show the payload, too.")
    ] = False,
    raw: Annotated[
        bool,
        typer.Option("--raw", show_envvar=False, help="Write the exact bytes of the body, nothing else."),
    ] = False,
    app: AppOption = None,
    database: DatabaseOption = None,
    schema: SchemaOption = "webhooks",
    json: JsonOption = False,
) -> int:
    """
    Show one event: its state and times, what its runs met, the names of its headers.

    The values of headers and the payload may be personal; they are shown only to who asks for them.
    """
    from webhook_inbox.protocol import look

    if raw and (json or show_headers or show_body):
        raise ConfigurationError("--raw writes the body and nothing else; leave --json and --show-... away")
    store = Store(context, app, database, schema)
    record = the_event(store, id, endpoint)
    details = store.perform(lambda name: look.show_event(record, name))
    if raw:
        return write_body(details)
    shown: Any = {"headers": show_headers, "body": show_body}
    if json:
        tell_json(details_facts(details, **shown))
        return GOOD
    for line in details_lines(details, **shown):
        tell(line)
    return GOOD


def the_event(store: Store, name: str, endpoint: str) -> EventRecord:
    """
    Find the one event that *name* means.

    Raises:
        ConfigurationError: There is none, or there are several: the text lists them.
    """
    from webhook_inbox.protocol import look

    found = store.perform(lambda schema: look.find_events(name, schema, endpoint=endpoint))
    where = f" at endpoint {endpoint!r}" if endpoint else ""
    if not found:
        raise ConfigurationError(f"there is no event {name!r}{where}")
    if len(found) > 1:
        matches = [
            f"  row {each.row}: {each.event_id!r} at endpoint {each.endpoint!r}"
            + (f", account {each.account!r}" if each.account else "")
            + (f", {each.environment}" if each.environment else "")
            + f", {each.state}"
            for each in found
        ]
        lines = [f"{name!r}{where} means several events; give a row's number, or --endpoint:", *matches]
        raise ConfigurationError("\n".join(lines))
    return found[0]
