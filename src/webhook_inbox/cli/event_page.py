"""Lay events out for people and for programs; a stranger chose ids, types and headers, so all of it is escaped."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

from webhook_inbox.cli.failures import BAD, GOOD
from webhook_inbox.cli.output import counted, duration, is_terminal, say, styled, table, visible
from webhook_inbox.model.states import State

if TYPE_CHECKING:
    from webhook_inbox.model.event_record import AttemptRecord, EventDetails, EventRecord

HIDDEN = "(hidden)"
_HEADINGS = ("row", "received", "endpoint", "event", "type", "state", "attempts", "last error")


def event_table(events: Sequence[EventRecord]) -> list[str]:
    """Give a line for each event, below the headings; nothing where there is none."""
    if not events:
        return []
    rows = [
        (
            str(each.row),
            at(each.received_at),
            each.endpoint,
            each.event_id,
            each.event_type,
            each.state,
            str(each.attempts),
            each.last_error or "",
        )
        for each in events
    ]
    return table(_HEADINGS, rows, numbers=(0, 6), whole=(0, 1, 3, 5, 6), first=(0, 3, 7))


def event_facts(event: EventRecord) -> dict[str, Any]:
    """Give an event as JSON: every field of the record, times in ISO 8601."""
    return {field.name: plain(getattr(event, field.name)) for field in fields(event)}


def details_facts(details: EventDetails, *, headers: bool, body: bool) -> dict[str, Any]:
    """Give all that is known of an event as JSON; what is not asked for is hidden."""
    facts = event_facts(details.record)
    facts["kept"] = details.body is not None
    facts["runs"] = [
        {field.name: plain(getattr(each, field.name)) for field in fields(each)} for each in details.attempts
    ]
    facts["audit"] = [
        {field.name: plain(getattr(each, field.name)) for field in fields(each)} for each in details.audit
    ]
    if details.headers is not None:
        pairs = details.headers.pairs
        facts["headers"] = [[name, value if headers else None] for name, value in pairs]
    if body and details.body is not None:
        try:
            facts["body"] = details.body.decode()
        except UnicodeDecodeError:
            facts["body_base64"] = base64.b64encode(details.body).decode()
    return facts


def details_lines(details: EventDetails, *, headers: bool, body: bool) -> Iterator[str]:
    """Give all that is known of an event as lines; what is not asked for is hidden."""
    record = details.record
    yield styled(f"{visible(record.event_id)}  {visible(record.event_type)}", "bold")
    for name, value in _told(record):
        yield f"{name:<12}{visible(value)}"
    for attempt in details.attempts:
        yield from _attempt_lines(attempt)
    for action in details.audit:
        yield ""
        why = f": {action.reason}" if action.reason else ""
        yield visible(
            f"{action.action} by {action.actor} at {at(action.at)}, {action.before}, then {action.after}{why}"
        )
    yield ""
    if details.body is None or details.headers is None:
        yield "headers and body are not kept any more"
        return
    for name, value in details.headers.pairs:
        yield f"{visible(name)}: {visible(value) if headers else HIDDEN}"
    yield ""
    if body:
        yield from map(visible, details.body.decode(errors="backslashreplace").splitlines())
    else:
        yield f"{counted(len(details.body), 'byte')} {HIDDEN}; --show-body shows them, --raw writes them"


def write_body(details: EventDetails) -> int:
    """Write the exact bytes to stdout; to a terminal, which would obey them, only what shows as itself."""
    if details.body is None:
        say("the body is not kept any more")
        return BAD
    if is_terminal(sys.stdout):
        say("not to a terminal, which might obey what is in there: redirect it, or use --show-body")
        return BAD
    sys.stdout.buffer.write(details.body)
    return GOOD


def at(time: datetime | None) -> str:
    """Give *time* to the second, in UTC; ``-`` for None."""
    return "-" if time is None else f"{time:%Y-%m-%d %H:%M:%S}Z"


def _told(record: EventRecord) -> Iterator[tuple[str, str]]:
    """Give the facts of an event that there are, in the order in which they are asked for."""
    yield "row", str(record.row)
    yield "endpoint", f"{record.endpoint} ({record.provider})"
    if record.account or record.environment:
        yield "account", " ".join(filter(None, (record.account, record.environment)))
    yield "state", record.state + (f", held by {record.holder}" if record.holder else "")
    if record.last_error:
        yield "last error", record.last_error
    crashes = f", {counted(record.crashes, 'worker')} died under it" if record.crashes else ""
    yield "attempts", f"{record.attempts}{crashes}"
    for name, time in _times(record).items():
        if time is not None:
            yield name, at(time)
    if record.order_key is not None:
        yield "order key", record.order_key
    yield "origin", record.origin
    if record.secret_label:
        yield "secret", record.secret_label
    yield "body", f"{counted(record.body_bytes, 'byte')}, sha256 {record.body_sha256}"


def _times(record: EventRecord) -> dict[str, datetime | None]:
    """Give the times that mean something where the event stands, by what they say."""
    times = {"created": record.created_at, "received": record.received_at, "processed": record.processed_at}
    if record.state is State.DEAD:
        return {**times, "died": record.available_at}
    if record.state in {State.WAITING, State.RETRYING}:
        return {**times, "due": record.available_at, "gives up": record.give_up_at}
    return times


def _attempt_lines(attempt: AttemptRecord) -> Iterator[str]:
    yield ""
    took = duration(attempt.seconds)
    yield visible(
        f"run {attempt.attempt}: {attempt.outcome} at {at(attempt.started_at)} after {took}, by {attempt.worker}"
    )
    for line in (*attempt.error.splitlines(), *attempt.traceback.splitlines()):
        yield f"  {visible(line)}"


def plain(value: object) -> object:
    """Give *value* as JSON has it: a time in ISO 8601."""
    return value.isoformat() if isinstance(value, datetime) else value
