"""
Read quarantined deliveries again, after the source has learnt to: what is in them becomes events like any other. So may
those be that an operator has discarded meanwhile.

The delivery was verified when it came, and its bytes and headers are as they were then; only ``identify`` is asked
anew. In one transaction the quarantined row is settled and the events are recorded, waiting for a worker; one that has
come by another way meanwhile is there already, and stays what it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.event_filter import EventFilter
from webhook_inbox.model.event_record import EventRecord
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.states import Origin, State
from webhook_inbox.protocol.deferred import queued
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.enqueue import record_columns
from webhook_inbox.protocol.items import items_of
from webhook_inbox.protocol.look import list_events, show_event
from webhook_inbox.protocol.operate import (
    BATCH_EVENTS,
    REPLAY,
    Left,
    Operated,
    Operator,
    change,
    operating,
    why_left,
)
from webhook_inbox.protocol.recording import Item, Recording
from webhook_inbox.protocol.steps import All, Commit, Plan, Rollback
from webhook_inbox.sql.statements import Statements

REREAD = replace(REPLAY, states=(State.QUARANTINED, State.IGNORED), to=State.IGNORED)


def reread(
    meant: EventFilter, endpoints: Mapping[str, EndpointPlan], by: Operator, schema: str
) -> Plan[Operated]:
    """
    Read each quarantined delivery that *meant* means again, oldest first.

    Args:
        meant: Names the states of ``REREAD``, or rows; else quarantined ones are meant.
        endpoints: By name; what came to another one is left.

    Raises:
        StoreError: What was read before stays so; the same call goes on.

    Promises: P-KEEP, P-ONCE.
    """
    changed, left, after = 0, list[Left](), None
    meant = replace(meant, states=meant.states or (() if meant.rows else (State.QUARANTINED,)))
    while found := (
        yield from list_events(meant, schema, limit=BATCH_EVENTS, after=after, oldest_first=True)
    ):
        for record in found:
            why = yield from _reread(record, endpoints.get(record.endpoint), by, schema)
            left += [Left(record, why)] if why else []
            changed += not why
        after = found[-1].row
    return Operated(changed=changed, left=tuple(left))


def _reread(record: EventRecord, endpoint: EndpointPlan | None, by: Operator, schema: str) -> Plan[str]:
    """Read one again; give why it is left, or an empty text."""
    if endpoint is None:
        return f"APP has no endpoint {record.endpoint!r}, whose source would read it again"
    details = yield from show_event(record, schema)
    if details.body is None or details.headers is None:
        return "its bytes are not kept any more, so there is nothing to read"
    items = _items(endpoint, record, details.headers, details.body)
    unread = [item.arrival.reason for item in items if item.arrival.settled is State.QUARANTINED]
    if unread:
        return f"it still cannot be read: {unread[0]}"
    return (yield from _record(record, items, endpoint, by, Statements.of(schema)))


def _items(endpoint: EndpointPlan, record: EventRecord, headers: Headers, body: bytes) -> list[Item]:
    delivery = Delivery(
        method="POST", url="", headers=headers, body=body, received_at=record.received_at.timestamp()
    )
    return items_of(endpoint, delivery, record.secret_label, origin=Origin.REPLAY)


def _record(
    record: EventRecord, items: list[Item], endpoint: EndpointPlan, by: Operator, sql: Statements
) -> Plan[str]:
    arrivals = {arrival.key: arrival for arrival in queued(endpoint, items)}
    names = ", ".join(key.event_id for key in arrivals) or "nothing"
    to = Recording(
        sql=sql,
        wait_seconds=endpoint.settings.duplicate_wait_seconds,
        handler_seconds_max=endpoint.settings.handler_seconds_max,
    )
    yield operating(sql)
    done = yield from change(REREAD, [record], by, sql, last_error=f"read again as {names}")
    if not done:
        yield Rollback()
        return why_left(REPLAY, record)
    yield All(sql.record_events, record_columns(list(arrivals.values()), to))
    yield Commit()
    return ""
