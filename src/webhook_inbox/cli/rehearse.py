"""Show what a run of events would change, by running their handlers in a transaction that is rolled back."""

from __future__ import annotations

import json as codec
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from webhook_inbox.cli.events import the_event
from webhook_inbox.cli.failures import BAD, GOOD
from webhook_inbox.cli.output import counted, say, styled, tell, tell_json, visible
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.event_filter import EventFilter

if TYPE_CHECKING:
    from webhook_inbox.cli.store import Store
    from webhook_inbox.model.event_record import EventRecord
    from webhook_inbox.model.rehearsed import Rehearsed, RowChange
    from webhook_inbox.protocol.handlers import Handler

_ENDS = {
    "processed": "would be processed",
    "ignored": "would be ignored",
    "dead": "would be dead",
    "not_yet": "would wait and run again",
    "failed": "would fail",
    "refused": "was not run",
}


def rehearse_events(
    store: Store, ids: Sequence[str] | None, meant: EventFilter, endpoint: str, *, json: bool
) -> int:
    """
    Rehearse each event of *ids*, and show what came of it; the exit code, 1 where one would not be processed.

    Args:
        meant: What other options say, which must be nothing.
        endpoint: Where the ids are.

    Raises:
        ConfigurationError: There are no ids, other options, or no APP.
    """
    if store.inbox is None:
        raise ConfigurationError("--rehearse runs the handlers of your Inbox: say --app")
    if not ids or meant != EventFilter():
        raise ConfigurationError("--rehearse takes ids, and no option that says which events but --endpoint")
    good = True
    for name in dict.fromkeys(ids):
        done, outside = _rehearsed(store, the_event(store, name, endpoint))
        good = good and done.end in {"processed", "ignored"}
        if json:
            tell_json(_facts(done, outside))
        else:
            for line in _lines(done, outside):
                tell(line)
    if not json:
        say("nothing was changed")
    return GOOD if good else BAD


def _rehearsed(store: Store, record: EventRecord) -> tuple[Rehearsed, list[str]]:
    """Rehearse one, and note what its handlers do outside of their transaction."""
    from webhook_inbox.cli.database import ask_inbox
    from webhook_inbox.testing.proof.outside import watched

    outside: dict[str, None] = {}

    def wrap(handler: Handler) -> Handler:
        return replace(
            handler, function=watched(handler, lambda name, what: outside.setdefault(f"{name}: {what}"))
        )

    assert store.inbox is not None  # noqa: S101 - the caller has looked
    done = ask_inbox(store.inbox, lambda inbox: inbox.rehearse(record, wrap=wrap), app=store.app)
    return done, list(outside)


def _facts(done: Rehearsed, outside: Sequence[str]) -> dict[str, Any]:
    return {
        "row": done.event.row,
        "event_id": done.event.event_id,
        "end": done.end,
        "reason": done.reason,
        "traceback": list(done.failure.frames) if done.failure else [],
        "rows": [
            {"table": each.table, "before": _plain(each.before), "after": _plain(each.after)}
            for each in done.rows
        ],
        "all_rows": done.whole and not done.unread,
        "unread_tables": list(done.unread),
        "messages": [
            {
                "event_type": each.event_type,
                "aggregate_type": each.aggregate_type,
                "aggregate_id": each.aggregate_id,
                "destination": each.destination,
                "payload": each.payload,
            }
            for each in done.messages
        ],
        "reviews": [{"summary": each.summary, "details": each.details} for each in done.reviews],
        "outside": list(outside),
    }


def _plain(row: Mapping[str, Any] | None) -> object:
    """Give a row as JSON has it: numbers that Python would round as text."""
    return None if row is None else codec.loads(codec.dumps(row, default=str))


def _lines(done: Rehearsed, outside: Sequence[str]) -> Iterator[str]:
    from webhook_inbox.testing.rows import difference

    event = done.event
    good = done.end in {"processed", "ignored"}
    yield styled(
        visible(f"{event.event_id} (row {event.row}), {event.state}: {_ENDS[done.end]}"),
        "bold" if good else "red",
    )
    if done.reason:
        yield f"  {visible(done.reason)}"
    for frame in done.failure.frames if done.failure else ():
        yield f"  {visible(frame)}"
    for table, changes in _by_table(done.rows).items():
        yield f"  {visible(table)}: {_counts(changes)}"
    before, after = _state(done.rows, "before"), _state(done.rows, "after")
    for line in difference(before, after):
        yield f"  {visible(line)}"
    for table in done.unread:
        yield f"  {visible(table)}: written, and this database user may not read it"
    if not done.whole:
        yield "  there are more rows than are shown: too many, or in tables too large to be searched in time"
    for message in done.messages:
        about = " ".join(filter(None, (message.aggregate_type, message.aggregate_id)))
        to = f" to {message.destination}" if message.destination else ""
        yield visible(f"  message {message.event_type} {about}{to}: {codec.dumps(message.payload)}")
    for review in done.reviews:
        yield visible(f"  review {review.summary}: {codec.dumps(review.details)}")
    for what in outside:
        yield styled(visible(f"  outside of the transaction, so it was done: {what}"), "yellow")


def _by_table(rows: Sequence[RowChange]) -> dict[str, list[RowChange]]:
    tables: dict[str, list[RowChange]] = {}
    for each in rows:
        tables.setdefault(each.table, []).append(each)
    return tables


def _counts(changes: Sequence[RowChange]) -> str:
    """Say how many rows of a table are inserted, updated and deleted."""
    kinds = Counter(
        "inserted" if each.before is None else "deleted" if each.after is None else "updated"
        for each in changes
    )
    return ", ".join(f"{counted(number, 'row')} {kind}" for kind, number in sorted(kinds.items()))


def _state(rows: Sequence[RowChange], side: str) -> dict[str, Counter[tuple[str | None, ...]]]:
    """Give the rows of each table on one side of the change, as ``difference`` takes them."""
    state: dict[str, Counter[tuple[str | None, ...]]] = {each.table: Counter() for each in rows}
    for each in rows:
        row: Mapping[str, Any] | None = getattr(each, side)
        if row is not None:
            state[each.table][tuple(f"{name}={_shown(value)}" for name, value in row.items())] += 1
    return state


def _shown(value: object) -> str:
    return value if isinstance(value, str) else codec.dumps(value, default=str)
