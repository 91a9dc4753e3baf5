"""Send the messages of the outbox as a service of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from webhook_inbox.cli.failures import BAD, GOOD
from webhook_inbox.cli.options import AppArgument, JsonOption, LogFormatOption, LogLevelOption
from webhook_inbox.cli.output import say, tell, tell_json, visible
from webhook_inbox.cli.scraped import MetricsHostOption, MetricsPortOption, scraped

if TYPE_CHECKING:
    from webhook_inbox.inbox import Inbox


def relay(
    *,
    app: AppArgument = None,
    drain: Annotated[
        bool,
        typer.Option("--drain", show_envvar=False, help="Send until nothing is due that can be, then exit."),
    ] = False,
    metrics_port: MetricsPortOption = None,
    metrics_host: MetricsHostOption = "127.0.0.1",
    log_format: LogFormatOption = "text",
    log_level: LogLevelOption = "info",
    json: JsonOption = False,
) -> int:
    """
    Send the messages of the outbox for APP to its destinations; any number of relays share the work.

    Refuses to start, with exit 2, without a destination or on a database that it cannot use. SIGTERM claims nothing
    more, settles what is being sent or gives it back within stop_seconds_max, and exits 0; a second one ends it.
    --drain exits 1 where messages are left that are due, or to be sent again later.
    """
    from webhook_inbox.cli.load import load_inbox
    from webhook_inbox.cli.logs import known, set_up_logging
    from webhook_inbox.cli.ready import refuse_without_database, refuse_without_destination
    from webhook_inbox.cli.stop_signals import leave
    from webhook_inbox.cli.until_told import counts, counts_said, until_told
    from webhook_inbox.model.message import SendState

    form = known(log_format, log_level)
    inbox = load_inbox(app)
    refuse_without_destination(inbox)
    refuse_without_database(inbox, app, otherwise="not relaying")
    set_up_logging(form, log_level)
    with scraped(inbox, metrics_host, metrics_port):
        outcomes, stopped = until_told(
            inbox,
            lambda stop: inbox.relay(stop=stop, drain=drain),
            drain=drain,
            announce=None if drain and json else lambda: _announce(inbox, json=json),
        )
    told = counts(outcomes, (SendState.SENT, SendState.WAITING, SendState.RETRYING, SendState.DEAD))
    said = counts_said(outcomes.total(), "send", told)
    if not drain:
        say(f"stopped; {said}")
        return leave(GOOD)
    left = _left(inbox, app)
    if json:
        facts = {"relay": inbox.worker_name, "drained": not stopped, "sends": outcomes.total(), **told}
        tell_json({**facts, "left": left})
    else:
        counted_left = ", ".join(f"{number} {name}" for name, number in left.items())
        ended = "stopped" if stopped else "not all is sent" if left else "nothing is due"
        tell(f"{ended}; {said}" + (f"; left: {counted_left}" if left else ""))
    return leave(BAD if stopped or left else GOOD)


def _left(inbox: Inbox, app: str | None) -> dict[str, int]:
    """Count what is routed and not sent, though somebody will try: what is due, and what is retried later."""
    from webhook_inbox.cli.database import ask_inbox
    from webhook_inbox.model.message import SendState

    found = ask_inbox(inbox, type(inbox).backlog, app=app).outbox_counts
    return {each.value: found[each] for each in (SendState.WAITING, SendState.RETRYING) if found[each]}


def _announce(inbox: Inbox, *, json: bool) -> None:
    """Say who sends, and where to."""
    import os
    import sys

    if json:
        places = [{"destination": name, "place": place} for name, place in inbox.destinations.items()]
        tell_json({"relay": inbox.worker_name, "destinations": places, "pid": os.getpid()})
        sys.stdout.flush()
    else:
        names = ", ".join(f"{name} ({place})" for name, place in inbox.destinations.items())
        say(
            f"relay {visible(inbox.worker_name)} sends to {visible(names)}, from {visible(inbox.database_place)}"
        )
