"""Show what is not settled, and say whether that is still acceptable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from webhook_inbox.cli.failures import BAD, GOOD, report
from webhook_inbox.cli.options import AppArgument, DatabaseOption, JsonOption, SchemaOption, typed_here
from webhook_inbox.cli.output import duration, styled, table, tell, tell_json, visible
from webhook_inbox.errors import ConfigurationError, StoreError
from webhook_inbox.model.states import State

if TYPE_CHECKING:
    from webhook_inbox.protocol.status import Backlog

_STATES = (State.WAITING, State.LEASED, State.RETRYING, State.DEAD, State.QUARANTINED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Hold the highest values that are still good; None: any."""

    unprocessed: int | None = None
    age_seconds: float | None = None
    retrying: int | None = None
    dead: int | None = None
    quarantined: int | None = None
    outbox: int | None = None
    outbox_age_seconds: float | None = None
    reviews: int | None = None

    def exceeded_by(self, backlog: Backlog) -> list[dict[str, Any]]:
        """List what is over its threshold: name, value and threshold."""
        values = {
            "unprocessed": backlog.unprocessed,
            "age_seconds": backlog.oldest_seconds,
            "retrying": backlog.count(State.RETRYING),
            "dead": backlog.count(State.DEAD),
            "quarantined": backlog.count(State.QUARANTINED),
            "outbox": backlog.outbox_unpublished,
            "outbox_age_seconds": backlog.outbox_oldest_seconds,
            "reviews": backlog.reviews_open,
        }
        return [
            {"name": name, "value": value, "threshold": threshold}
            for name, value in values.items()
            if value is not None and (threshold := getattr(self, name)) is not None and value > threshold
        ]


def _threshold(option: str, help: str) -> Any:  # noqa: A002, ANN401 - as Typer calls it, and gives it
    return typer.Option(option, metavar="N", min=0, show_envvar=False, show_default=False, help=help)


def status(
    *,
    context: typer.Context,
    app: AppArgument = None,
    database: DatabaseOption = None,
    schema: SchemaOption = "webhooks",
    max_unprocessed: Annotated[
        int | None, _threshold("--max-unprocessed", "Events without their effect.")
    ] = None,
    max_age_seconds: Annotated[
        float | None, _threshold("--max-age-seconds", "Age of the oldest of them.")
    ] = None,
    max_retrying: Annotated[
        int | None, _threshold("--max-retrying", "Events that failed and run again.")
    ] = None,
    max_dead: Annotated[int | None, _threshold("--max-dead", "Events that run again only by replay.")] = None,
    max_quarantined: Annotated[
        int | None, _threshold("--max-quarantined", "Authentic, but unreadable.")
    ] = None,
    max_outbox: Annotated[int | None, _threshold("--max-outbox", "Messages not sent yet.")] = None,
    max_outbox_age_seconds: Annotated[
        float | None, _threshold("--max-outbox-age-seconds", "Age of the oldest of them.")
    ] = None,
    max_reviews: Annotated[
        int | None, _threshold("--max-reviews", "What a person was asked to look at.")
    ] = None,
    json: JsonOption = False,
) -> int:
    """
    Show what is not settled, and say whether that is good.

    Reads the database of APP, else the one that --database names. Exit 1 if a number is over its --max-..., or if the
    database cannot be used; a number without a --max-... is shown and not judged.
    """
    thresholds = Thresholds(
        unprocessed=max_unprocessed,
        age_seconds=max_age_seconds,
        retrying=max_retrying,
        dead=max_dead,
        quarantined=max_quarantined,
        outbox=max_outbox,
        outbox_age_seconds=max_outbox_age_seconds,
        reviews=max_reviews,
    )
    named = typed_here(context, "database") or typed_here(context, "schema")
    if named and typed_here(context, "app"):
        raise ConfigurationError("APP knows its database and schema: give APP, or --database and --schema")
    try:
        name, backlog = _of_database(database, schema) if named or not app else _of_app(app)
    except StoreError as error:
        if json:
            tell_json({"healthy": False, "error": {"code": error.code, "message": str(error)}})
        return report(error)
    exceeded = thresholds.exceeded_by(backlog)
    if json:
        tell_json({"schema": name, "healthy": not exceeded, **_facts(backlog), "exceeded": exceeded})
    else:
        _show(backlog, exceeded, schema=name)
    return BAD if exceeded else GOOD


def _of_database(database: str | None, schema: str) -> tuple[str, Backlog]:
    from webhook_inbox.cli.database import run_plan
    from webhook_inbox.protocol.status import read_backlog

    return schema, run_plan(database, lambda: read_backlog(schema))


def _of_app(app: str) -> tuple[str, Backlog]:
    import asyncio

    from webhook_inbox.cli.database import explained
    from webhook_inbox.cli.load import load_inbox

    inbox = load_inbox(app)

    async def ask() -> Backlog:
        async with inbox.running():
            return await inbox.backlog()

    with explained(inbox.database_place):
        return inbox.schema, asyncio.run(ask())


def _facts(backlog: Backlog) -> dict[str, Any]:
    return {
        "unprocessed": backlog.unprocessed,
        "oldest_seconds": backlog.oldest_seconds,
        **{state.value: backlog.count(state) for state in _STATES},
        "endpoints": [
            {
                "endpoint": each.endpoint,
                **{state.value: each.count(state) for state in _STATES},
                "oldest_seconds": each.oldest_seconds,
            }
            for each in backlog.endpoints
        ],
        "outbox": {"unsent": backlog.outbox_unpublished, "oldest_seconds": backlog.outbox_oldest_seconds},
        "reviews_open": backlog.reviews_open,
    }


def _show(backlog: Backlog, exceeded: list[dict[str, Any]], *, schema: str) -> None:
    if backlog.endpoints:
        rows = [
            [each.endpoint, *(str(each.count(state)) for state in _STATES), duration(each.oldest_seconds)]
            for each in backlog.endpoints
        ]
        headings = ["endpoint", *(state.value for state in _STATES), "oldest"]
        for line in table(headings, rows, numbers=range(1, 6)):
            tell(line)
        tell()
    tell(f"unprocessed  {_aged(backlog.unprocessed, backlog.oldest_seconds)}")
    tell(f"outbox       {_aged(backlog.outbox_unpublished, backlog.outbox_oldest_seconds)}")
    tell(f"reviews      {backlog.reviews_open}")
    for query in _queries(backlog, schema):
        tell(f"see: {visible(query)}")
    for each in exceeded:
        option = "--max-" + each["name"].replace("_", "-")
        tell(styled(f"bad: {each['name']} is {each['value']:g}, over {option} {each['threshold']:g}", "red"))


def _queries(backlog: Backlog, schema: str) -> list[str]:
    """Give what to type into psql to see the rows that a person must look at."""
    from webhook_inbox.protocol.migrate import DEFAULT_SCHEMA
    from webhook_inbox.sql.statements import quoted_identifier

    quoted = schema if schema == DEFAULT_SCHEMA else quoted_identifier(schema)
    queries = [
        f"SELECT event_id, event_type, last_error FROM {quoted}.inbox WHERE state = '{state}'"  # noqa: S608 - to be read
        for state in (State.DEAD, State.QUARANTINED)
        if backlog.count(state)
    ]
    if backlog.reviews_open:
        queries.append(f"SELECT event_id, summary, details FROM {quoted}.reviews WHERE resolved_at IS NULL")  # noqa: S608
    return queries


def _aged(count: int, oldest_seconds: float | None) -> str:
    return f"{count}, oldest {duration(oldest_seconds)}" if count else "0"
