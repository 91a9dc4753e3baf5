"""Our application, broken on purpose: the record is committed before the work, in a transaction of its own."""

from __future__ import annotations

from webhook_inbox.demo import ours
from webhook_inbox.model.receipt import EventResult
from webhook_inbox.protocol import receive, record
from webhook_inbox.protocol.steps import Commit, Plan


def record_first(item: record.Item, to: record.Recording) -> Plan[EventResult]:
    """Do as ``record_one``, but with a commit where none belongs."""
    before = yield to.begin
    recorded = yield to.record(item.arrival, lock_timeout=before[0], open_=False)
    if recorded is None:
        return (yield from record._duplicate(item.arrival, to))
    yield Commit()
    yield to.begin
    yield from record._run_handlers(item, recorded, to)
    yield Commit()
    return record._result(item.arrival)


vars(receive)["record_one"] = record_first
app = ours.app
