"""Our application, broken on purpose: the record is committed before the work, in a transaction of its own."""

from __future__ import annotations

from webhook_inbox.demo import ours
from webhook_inbox.model.instants import instant
from webhook_inbox.model.receipt import EventResult
from webhook_inbox.protocol import inline
from webhook_inbox.protocol.record import record_one
from webhook_inbox.protocol.recording import Item, Recording, recorded_result
from webhook_inbox.protocol.steps import Commit, Plan
from webhook_inbox.protocol.work import Subject, run_handlers


def record_first(item: Item, to: Recording) -> Plan[EventResult]:
    """Do as ``record_one``, but with a commit where none belongs."""
    yield to.begin
    recorded = yield to.record(item.arrival, effect=False)
    yield Commit()
    if recorded is None:
        return (yield from record_one(item, to))
    yield to.begin
    event = item.arrival.event(received_at=instant(recorded[1]), attempt=1)
    subject = Subject(event=event, inbox_id=recorded[0], handlers=item.handlers)
    yield from run_handlers(subject, seconds_max=to.handler_seconds_max, sql=to.sql)
    yield Commit()
    return recorded_result(item.arrival)


vars(inline)["record_one"] = record_first
app = ours.app
