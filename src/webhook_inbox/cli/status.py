"""Show what is not settled, and say whether that is still acceptable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from webhook_inbox.cli.endpoints import limit_facts, since
from webhook_inbox.cli.event_page import plain
from webhook_inbox.cli.failures import BAD, GOOD, report
from webhook_inbox.cli.options import AppArgument, DatabaseOption, JsonOption, SchemaOption
from webhook_inbox.cli.output import counted, duration, styled, table, tell, tell_json, visible
from webhook_inbox.cli.store import Store
from webhook_inbox.errors import StoreError
from webhook_inbox.model.message import SendState
from webhook_inbox.model.states import Outcome, State

if TYPE_CHECKING:
    from webhook_inbox.model.reconciled import WalkRecord
    from webhook_inbox.protocol.status import Backlog

_STATES = (State.WAITING, State.LEASED, State.RETRYING, State.DEAD, State.QUARANTINED)
_REASONS_SHOWN = 5
_OUTBOX_STATES = (SendState.RETRYING, SendState.DEAD, SendState.UNROUTED)


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
    outbox_dead: int | None = None
    outbox_unrouted: int | None = None
    reviews: int | None = None
    conflicts: int | None = None
    duplicates: int | None = None
    rejected: int | None = None
    failed: int | None = None

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
            "outbox_dead": backlog.outbox_counts[SendState.DEAD],
            "outbox_unrouted": backlog.outbox_counts[SendState.UNROUTED],
            "reviews": backlog.reviews_open,
            "conflicts": backlog.conflicts,
            **_last_hour(backlog),
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
    max_outbox_dead: Annotated[
        int | None, _threshold("--max-outbox-dead", "Messages sent again only by outbox retry.")
    ] = None,
    max_outbox_unrouted: Annotated[
        int | None, _threshold("--max-outbox-unrouted", "Messages that no route names.")
    ] = None,
    max_reviews: Annotated[
        int | None, _threshold("--max-reviews", "What a person was asked to look at.")
    ] = None,
    max_conflicts: Annotated[
        int | None, _threshold("--max-conflicts", "Other bodies that came under a known id.")
    ] = None,
    max_duplicates: Annotated[
        int | None, _threshold("--max-duplicates", "Events that came once more in the last hour.")
    ] = None,
    max_rejected: Annotated[
        int | None, _threshold("--max-rejected", "Deliveries answered 4xx in the last hour.")
    ] = None,
    max_failed: Annotated[
        int | None, _threshold("--max-failed", "Deliveries answered 5xx in the last hour.")
    ] = None,
    json: JsonOption = False,
) -> int:
    """
    Show what is not settled, and say whether that is good.

    Reads the database of APP, else the one that --database names. Exit 1 if a number is over its --max-..., or if the
    database cannot be used; a number without a --max-... is shown and not judged.
    """
    from webhook_inbox.protocol.status import read_backlog

    thresholds = Thresholds(
        unprocessed=max_unprocessed,
        age_seconds=max_age_seconds,
        retrying=max_retrying,
        dead=max_dead,
        quarantined=max_quarantined,
        outbox=max_outbox,
        outbox_age_seconds=max_outbox_age_seconds,
        outbox_dead=max_outbox_dead,
        outbox_unrouted=max_outbox_unrouted,
        reviews=max_reviews,
        conflicts=max_conflicts,
        duplicates=max_duplicates,
        rejected=max_rejected,
        failed=max_failed,
    )
    store = Store(context, app, database, schema)
    try:
        backlog = store.perform(read_backlog)
    except StoreError as error:
        if json:
            tell_json({"healthy": False, "error": {"code": error.code, "message": str(error)}})
        return report(error)
    exceeded = thresholds.exceeded_by(backlog)
    if json:
        tell_json({"schema": store.schema, "healthy": not exceeded, **_facts(backlog), "exceeded": exceeded})
    else:
        _show(backlog, exceeded, store)
    return BAD if exceeded else GOOD


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
        "outbox": {
            "unsent": backlog.outbox_unpublished,
            "oldest_seconds": backlog.outbox_oldest_seconds,
            **{state.value: backlog.outbox_counts[state] for state in _OUTBOX_STATES},
        },
        "paused": [
            {"endpoint": each.name, "paused_at": plain(each.paused_at), "paused_by": each.paused_by}
            for each in backlog.paused
        ],
        "limited": [{"endpoint": each.name, **limit_facts(each)} for each in backlog.limited],
        "reviews_open": backlog.reviews_open,
        "conflicts": backlog.conflicts,
        "unhandled": [asdict(each) for each in backlog.unhandled],
        "reconciles": [_reconcile_facts(each) for each in backlog.reconciles],
        "last_hour": {**_last_hour(backlog), "counts": [asdict(each) for each in backlog.last_hour]},
    }


def _show(backlog: Backlog, exceeded: list[dict[str, Any]], store: Store) -> None:
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
    tell(f"outbox       {_outbox(backlog)}")
    tell(f"reviews      {backlog.reviews_open}")
    tell(f"conflicts    {backlog.conflicts}")
    if backlog.last_hour:
        tell(f"last hour    {', '.join(f'{number} {name}' for name, number in _last_hour(backlog).items())}")
    for count in [each for each in backlog.last_hour if each.reason][:_REASONS_SHOWN]:
        tell(f"{count.outcome:<12} {count.number} at {visible(count.endpoint)}: {visible(count.reason)}")
    for line in _held(backlog):
        tell(visible(line))
    for walk in backlog.reconciles:
        tell(_reconcile_line(walk))
    for ignored in backlog.unhandled:
        endpoint, event_type = visible(ignored.endpoint), visible(ignored.event_type)
        tell(
            f"{counted(ignored.count, 'event')} ignored: endpoint {endpoint} has no handler for {event_type}"
        )
    for look in _looks(backlog, store):
        tell(f"see: {visible(look)}")
    for over in exceeded:
        option = "--max-" + over["name"].replace("_", "-")
        tell(styled(f"bad: {over['name']} is {over['value']:g}, over {option} {over['threshold']:g}", "red"))


def _held(backlog: Backlog) -> Iterator[str]:
    """Say which endpoints an operator holds back, since when, and by whom."""
    for each in backlog.paused:
        yield f"paused       {each.name} {since(each.paused_at, each.paused_by)}"
    for each in backlog.limited:
        yield f"limited      {each.name} to {each.limit}, {since(each.limited_at, each.limited_by)}"


def _looks(backlog: Backlog, store: Store) -> list[str]:
    """Give what to type to see what a person must look at: into a shell, or where there is no verb, into psql."""
    from webhook_inbox.protocol.migrate import DEFAULT_SCHEMA
    from webhook_inbox.sql.statements import quoted_identifier

    looks = [
        f"webhook-inbox events list --state {state}{store.options}"
        for state in (State.DEAD, State.QUARANTINED)
        if backlog.count(state)
    ]
    looks += [
        f"webhook-inbox outbox list --state {state}{store.options}"
        for state in (SendState.DEAD, SendState.UNROUTED)
        if backlog.outbox_counts[state]
    ]
    if backlog.reviews_open:
        looks.append(f"webhook-inbox reviews list{store.options}")
    if backlog.conflicts:
        quoted = store.schema if store.schema == DEFAULT_SCHEMA else quoted_identifier(store.schema)
        looks.append(f"SELECT endpoint, event_id, event_type, state FROM {quoted}.events WHERE conflicting")  # noqa: S608 - to be read
    return looks


def _last_hour(backlog: Backlog) -> dict[str, int]:
    """Add up what left no row in the last hour."""
    return {
        "duplicates": backlog.hourly(Outcome.DUPLICATE),
        "rejected": backlog.hourly(Outcome.REJECTED),
        "failed": backlog.hourly(Outcome.FAILED, Outcome.UNAVAILABLE),
    }


def _aged(count: int, oldest_seconds: float | None) -> str:
    return f"{count}, oldest {duration(oldest_seconds)}" if count else "0"


def _outbox(backlog: Backlog) -> str:
    counts = [f"{number} {state}" for state in _OUTBOX_STATES if (number := backlog.outbox_counts[state])]
    aged = _aged(backlog.outbox_unpublished, backlog.outbox_oldest_seconds)
    return "; ".join(filter(None, (aged, ", ".join(counts))))


def _reconcile_facts(walk: WalkRecord) -> dict[str, Any]:
    facts = asdict(walk)
    return {"endpoint": facts.pop("endpoint"), "account": facts.pop("account"), **facts.pop("tally"), **facts}


def _reconcile_line(walk: WalkRecord) -> str:
    """Say when a provider was asked the latest time, and what came of it."""
    whose = visible(f"{walk.endpoint} {walk.account}".rstrip())
    if walk.ended_seconds is None:
        return f"reconciled   {whose}: not to the end yet"
    said = f"{walk.tally.recovered} recovered, {walk.tally.failed} failed"
    error = f"; {visible(walk.last_error)}" if walk.last_error else ""
    return f"reconciled   {whose}: {duration(walk.ended_seconds)} ago, {said}{error}"
