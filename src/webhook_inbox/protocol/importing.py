"""
Record which events an older receiver has processed, so that neither a redelivery nor reconcile has their effect again.

Only keys are recorded: processed, without bytes, with origin ``import``. What is here already stays as it is, so the
same file may be imported again, and a run that is interrupted goes on where it is started again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from webhook_inbox.model.processed_before import ProcessedBefore
from webhook_inbox.model.states import State
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.migrate import check_schema
from webhook_inbox.protocol.operate import Operator, operating
from webhook_inbox.protocol.steps import All, Commit, One, Plan, Row
from webhook_inbox.sources.identity import text_of
from webhook_inbox.sources.source import Source, Unreadable
from webhook_inbox.sql.statements import Statements

BATCH_EVENTS = 1000


@dataclass(slots=True)
class Imported:
    """
    Say what came of an import.

    Attributes:
        new: How many were recorded, or would be.
        known: How many were here already, by where they stand.
        repeated: How many were named before in the same transaction; what is named again later is known by then, or in
            a dry run counted as new once more.
    """

    new: int = 0
    known: Counter[State] = field(default_factory=Counter)
    repeated: int = 0


def unfit(event: ProcessedBefore, source: Source) -> str:
    """Say why a delivery of *source* could never name *event*, without quoting it; empty: it could."""
    for text, what in ((event.event_id, "event id"), (event.event_type or "-", "type")):
        if isinstance(read := text_of(text, what=what, where="that place"), Unreadable):
            return read.reason
    if source.event_id_form is not None and not source.event_id_form.fullmatch(event.event_id):
        return f"no event id of {source.provider}'s, which looks otherwise"
    for part in ("account", "environment"):
        given = getattr(event, part)
        if part in source.key_parts and not given:
            return f"no {part}, which is a part of each event's key at {source.provider}"
        if given and part not in source.key_parts | source.optional_key_parts:
            return f"an {part}, which no event's key at {source.provider} has"
    if event.environment not in {"", "live", "test"}:
        return "an environment is live or test"
    return ""


def import_events(
    events: Iterable[ProcessedBefore],
    endpoint: EndpointPlan,
    by: Operator,
    schema: str,
    *,
    dry_run: bool = False,
    progress: Callable[[Imported], None] = lambda _: None,
) -> Plan[Imported]:
    """
    Record *events* as processed at *endpoint*, ``BATCH_EVENTS`` in a transaction.

    Args:
        events: Each as ``unfit`` finds nothing to say of; read as they are needed.
        dry_run: Only count.
        progress: Told after each commit what came of it so far.

    Raises:
        StoreError: Batches that were committed stay so; the same call goes on.

    Promises: P-DUP.
    """
    yield from check_schema(schema)
    sql = Statements.of(schema)
    done, coming = Imported(), iter(events)
    while batch := list(islice(coming, BATCH_EVENTS)):
        firsts = {_key(event): event for event in reversed(batch)}
        done.repeated += len(batch) - len(firsts)
        # Two that lock the same keys in different orders deadlock.
        given = [firsts[key] for key in sorted(firsts)]
        where = {"provider": endpoint.source.provider, "endpoint": endpoint.name, **_keys(given)}
        yield operating(sql)
        recorded = 0
        if not dry_run:
            told = {"actor": by.name, "reason": by.reason}
            (recorded,) = yield One(sql.import_events, {**where, **_columns(given), **told})
        rows: list[Row] = yield All(sql.find_known, where)
        yield Commit()
        done.new += len(given) - len(rows) if dry_run else recorded
        # Those that were recorded just now are among what is here.
        done.known += Counter(State(state) for _, state in rows) - Counter({State.PROCESSED: recorded})
        progress(done)
    return done


def _key(event: ProcessedBefore) -> tuple[str, str, str]:
    return event.account, event.environment, event.event_id


def _keys(events: list[ProcessedBefore]) -> dict[str, list[str]]:
    return {
        "accounts": [each.account for each in events],
        "environments": [each.environment for each in events],
        "event_ids": [each.event_id for each in events],
    }


def _columns(events: list[ProcessedBefore]) -> dict[str, list[Any]]:
    return {
        "event_types": [each.event_type for each in events],
        "processed_at": [each.received_at for each in events],
    }
