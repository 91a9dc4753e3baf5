"""Show the endpoints; stop running the events of one, or slow it down, and let it go again; receiving goes on."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

import typer

from webhook_inbox.cli.event_page import at, plain
from webhook_inbox.cli.failures import BAD, GOOD
from webhook_inbox.cli.operator import OperatorOption, ReasonOption, operator
from webhook_inbox.cli.options import AppOption, DatabaseOption, JsonOption, SchemaOption
from webhook_inbox.cli.output import say, table, tell, tell_json, visible
from webhook_inbox.cli.store import Store
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.endpoint_record import EndpointRecord
from webhook_inbox.model.limit import Limit

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The endpoint.")]


def list_endpoints(
    *,
    context: typer.Context,
    app: AppOption = None,
    database: DatabaseOption = None,
    schema: SchemaOption = "webhooks",
    json: JsonOption = False,
) -> int:
    """List the endpoints of APP, and those that events have come to."""
    store = Store(context, app, database, schema)
    known = _known(store)
    if json:
        tell_json([_facts(each, mode) for each, mode in known.values()])
        return GOOD
    rows = [
        (
            each.name,
            each.provider,
            mode or "-",
            since(each.paused_at, each.paused_by),
            f"{each.limit} {since(each.limited_at, each.limited_by)}".strip(),
        )
        for each, mode in known.values()
    ]
    for line in table(("endpoint", "provider", "mode", "paused", "limited to"), rows) if rows else ():
        tell(line)
    if not rows:
        say("there is no endpoint")
    return GOOD


def pause_endpoint(
    *,
    context: typer.Context,
    name: NameArgument,
    reason: ReasonOption = "",
    by: OperatorOption = "",
    app: AppOption = None,
    database: DatabaseOption = None,
    schema: SchemaOption = "webhooks",
    json: JsonOption = False,
) -> int:
    """
    Stop running the events of an endpoint, in every worker, from its next claim on.

    Receiving goes on, and what is being run is finished. Inline endpoints run their handlers in the request: a pause
    does not touch these. One that is paused already stays so, and it says since when.
    """
    from webhook_inbox.protocol.lease import pause

    store = Store(context, app, database, schema)
    _refuse_unknown(store, name)
    who = operator(by, reason)
    changed = store.perform(lambda schema_name: pause(name, who.name, schema_name, reason=reason))
    known, _ = _known(store)[name]
    _tell(name, json=json, paused=True, changed=changed, when=since(known.paused_at, known.paused_by))
    return GOOD


def resume_endpoint(
    *,
    context: typer.Context,
    name: NameArgument,
    reason: ReasonOption = "",
    by: OperatorOption = "",
    app: AppOption = None,
    database: DatabaseOption = None,
    schema: SchemaOption = "webhooks",
    json: JsonOption = False,
) -> int:
    """Run the events of an endpoint again; exit 1 where it was not paused."""
    from webhook_inbox.protocol.lease import resume

    who = operator(by, reason)
    changed = Store(context, app, database, schema).perform(
        lambda schema_name: resume(name, who.name, schema_name, reason=reason)
    )
    _tell(name, json=json, paused=False, changed=changed)
    return GOOD if changed else BAD


def limit_endpoint(
    *,
    context: typer.Context,
    name: NameArgument,
    concurrency: Annotated[
        int | None,
        typer.Option(
            "--concurrency",
            metavar="N",
            show_envvar=False,
            show_default=False,
            help="Events under way at once, in all workers together.",
        ),
    ] = None,
    rate: Annotated[
        str,
        typer.Option(
            "--rate",
            metavar="N/s|N/min|N/h",
            show_envvar=False,
            show_default=False,
            help="Events begun in that time, by all workers together.",
        ),
    ] = "",
    none: Annotated[bool, typer.Option("--none", show_envvar=False, help="Lift the limit.")] = False,
    reason: ReasonOption = "",
    by: OperatorOption = "",
    app: AppOption = None,
    database: DatabaseOption = None,
    schema: SchemaOption = "webhooks",
    json: JsonOption = False,
) -> int:
    """
    Let all workers together run only so many events of an endpoint, from their next claim on.

    What is said replaces the limit that it had: a bound that is left out is none. Receiving goes on, and what is
    held back waits. Inline endpoints run their handlers in the request: a limit does not touch these, only what is left
    of theirs to a worker. --none lifts it; exit 1 where it was not limited.
    """
    from webhook_inbox.protocol import limits

    limit = Limit.of(concurrency, rate)
    if limit.bounds == none:
        raise ConfigurationError("say --concurrency, --rate or both; or --none, which lifts both")
    store = Store(context, app, database, schema)
    if not none:
        _refuse_unknown(store, name)
    who = operator(by, reason)
    changed = store.perform(lambda schema_name: limits.limit_endpoint(name, limit, who, schema_name))
    if json:
        tell_json(
            {"endpoint": name, "concurrency": limit.concurrency, "rate": limit.rate, "changed": changed}
        )
    elif none:
        (tell if changed else say)(
            visible(f"{name} {'is limited no more' if changed else 'was not limited'}")
        )
    else:
        _tell_limit(store, name, changed=changed)
    return GOOD if changed or not none else BAD


def _tell_limit(store: Store, name: str, *, changed: bool) -> None:
    known, mode = _known(store)[name]
    if changed:
        tell(visible(f"{name} is limited to {known.limit}, in all workers together; receiving goes on"))
    else:
        when = since(known.limited_at, known.limited_by)
        say(visible(f"{name} is limited to {known.limit} already, {when}"))
    if mode == "inline":
        say(visible(f"{name} is inline: it runs its handlers in the request, which no limit touches"))


def _known(store: Store) -> dict[str, tuple[EndpointRecord, str | None]]:
    """Give what APP and the database know of each endpoint, and its mode where APP has it; by name."""
    from webhook_inbox.protocol import endpoints

    recorded = {each.name: each for each in store.perform(endpoints.list_endpoints)}
    plans = {} if store.inbox is None else store.inbox.endpoint_plans
    found: dict[str, tuple[EndpointRecord, str | None]] = {}
    for name in sorted({*recorded, *plans}):
        plan, record = plans.get(name), recorded.get(name) or EndpointRecord(name=name, provider="")
        if plan is not None:
            record = replace(record, provider=plan.source.provider)
        found[name] = record, plan.mode if plan else None
    return found


def _facts(each: EndpointRecord, mode: str | None) -> dict[str, Any]:
    return {
        "endpoint": each.name,
        "provider": each.provider,
        "mode": mode,
        "paused_at": plain(each.paused_at),
        "paused_by": each.paused_by,
        **limit_facts(each),
    }


def limit_facts(each: EndpointRecord) -> dict[str, Any]:
    """Give what JSON says of a limit; null where there is none."""
    return {
        "concurrency": each.limit.concurrency,
        "rate": each.limit.rate,
        "limited_at": plain(each.limited_at),
        "limited_by": each.limited_by,
    }


def _refuse_unknown(store: Store, name: str) -> None:
    """A misspelt name would be held without anybody noticing that the right one is not, until it mattered."""
    known = _known(store)
    if name not in known:
        raise ConfigurationError(
            f"there is no endpoint {name!r} in {'APP' if store.inbox else 'the database'}; "
            f"there are {', '.join(known) or 'none'}"
            + ("" if store.inbox else ". --app knows those without events")
        )


def _tell(name: str, *, json: bool, paused: bool, changed: bool, when: str = "") -> None:
    if json:
        tell_json({"endpoint": name, "paused": paused, "changed": changed})
    elif changed:
        tell(f"{visible(name)} is {'paused; receiving goes on' if paused else 'running again'}")
    else:
        say(visible(f"{name} is paused already, {when}" if paused else f"{name} was not paused"))


def since(moment: datetime | None, by: str) -> str:
    """Say since when, and by whom; nothing where it is not so."""
    return "" if moment is None else f"since {at(moment)}" + (f" by {by}" if by else "")
