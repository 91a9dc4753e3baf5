"""Run recorded events again, or never: one, several, or all that a filter means."""

from __future__ import annotations

from typing import Annotated

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
from webhook_inbox.cli.event_job import EventJob
from webhook_inbox.cli.operator import OperatorOption, ReasonOption, operator
from webhook_inbox.cli.options import AppOption, DatabaseOption, JsonOption, SchemaOption
from webhook_inbox.cli.rehearse import rehearse_events
from webhook_inbox.cli.store import Store
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.states import State

IdsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ID...", show_default=False, help="Event ids or rows; without any, the options say which."
    ),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", show_envvar=False, help="Change nothing; say how many are meant.")
]
YesOption = Annotated[
    bool, typer.Option("--yes", show_envvar=False, help="Do not ask first, where options say which.")
]
RateOption = Annotated[
    float | None,
    typer.Option(
        "--rate",
        metavar="N",
        min=0.001,
        show_envvar=False,
        show_default=False,
        help="Have this many due in a second, not all at once.",
    ),
]


def retry_events(
    *,
    context: typer.Context,
    ids: IdsArgument = None,
    state: StateOption = None,
    endpoint: EndpointOption = "",
    type: TypeOption = "",
    id: IdOption = "",
    since: SinceOption = "",
    until: UntilOption = "",
    error: ErrorOption = "",
    rate: RateOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    reason: ReasonOption = "",
    by: OperatorOption = "",
    app: AppOption = None,
    database: DatabaseOption = None,
    schema: SchemaOption = "webhooks",
    json: JsonOption = False,
) -> int:
    """
    Run events again that failed: dead ones, and at once those that wait for another attempt.

    Attempts go on counting; the time for retries begins anew. Without --state, options mean dead events. A run that is
    interrupted goes on when it is started again.
    """
    from webhook_inbox.protocol.operate import RETRY

    meant = event_filter(
        state=state, endpoint=endpoint, type=type, id=id, since=since, until=until, error=error
    )
    job = EventJob(
        store=Store(context, app, database, schema),
        action=RETRY,
        by=operator(by, reason),
        every_seconds=1 / rate if rate else 0.0,
        json=json,
    )
    return job.do(ids, meant, (State.DEAD,), dry_run=dry_run, yes=yes)


def replay_events(
    *,
    context: typer.Context,
    ids: IdsArgument = None,
    state: StateOption = None,
    endpoint: EndpointOption = "",
    type: TypeOption = "",
    id: IdOption = "",
    since: SinceOption = "",
    until: UntilOption = "",
    error: ErrorOption = "",
    force: Annotated[
        bool,
        typer.Option(
            "--force", show_envvar=False, help="Processed ones, too: their effect happens once more."
        ),
    ] = False,
    rehearse: Annotated[
        bool,
        typer.Option(
            "--rehearse",
            show_envvar=False,
            help="Roll back the run of each ID, whatever its state, and show what it would change.",
        ),
    ] = False,
    rate: RateOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    reason: ReasonOption = "",
    by: OperatorOption = "",
    app: AppOption = None,
    database: DatabaseOption = None,
    schema: SchemaOption = "webhooks",
    json: JsonOption = False,
) -> int:
    """
    Run events that are settled: ignored ones after a handler was added, quarantined ones after their source was mended.

    Handlers find event.origin == "replay". Quarantined deliveries are read again by the source of APP's endpoint.
    Without --state, options mean ignored events. --force takes --reason. --rehearse needs APP, whose handlers it runs;
    exit 1 where one would not be processed.
    """
    from webhook_inbox.protocol.operate import REPLAY, REPLAY_PROCESSED

    if rehearse:
        meant = event_filter(
            state=state, endpoint="", type=type, id=id, since=since, until=until, error=error
        )
        return rehearse_events(Store(context, app, database, schema), ids, meant, endpoint, json=json)
    if force and not reason:
        raise ConfigurationError("--force runs processed events once more: say why with --reason")
    meant = event_filter(
        state=state, endpoint=endpoint, type=type, id=id, since=since, until=until, error=error
    )
    job = EventJob(
        store=Store(context, app, database, schema),
        action=REPLAY_PROCESSED if force else REPLAY,
        by=operator(by, reason),
        every_seconds=1 / rate if rate else 0.0,
        json=json,
    )
    return job.do(ids, meant, (State.IGNORED,), dry_run=dry_run, yes=yes)


def discard_events(
    *,
    context: typer.Context,
    ids: IdsArgument = None,
    state: StateOption = None,
    endpoint: EndpointOption = "",
    type: TypeOption = "",
    id: IdOption = "",
    since: SinceOption = "",
    until: UntilOption = "",
    error: ErrorOption = "",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    reason: ReasonOption = "",
    by: OperatorOption = "",
    app: AppOption = None,
    database: DatabaseOption = None,
    schema: SchemaOption = "webhooks",
    json: JsonOption = False,
) -> int:
    """
    Give up events that nobody needs: dead, quarantined or still to run, they are ignored from now on.

    Nothing is deleted at once: events replay runs them after all, as long as their bytes are kept. Without --state,
    options mean dead and quarantined ones.
    """
    from webhook_inbox.protocol.operate import DISCARD

    meant = event_filter(
        state=state, endpoint=endpoint, type=type, id=id, since=since, until=until, error=error
    )
    job = EventJob(
        store=Store(context, app, database, schema), action=DISCARD, by=operator(by, reason), json=json
    )
    return job.do(ids, meant, (State.DEAD, State.QUARANTINED), dry_run=dry_run, yes=yes)
