"""Look at the messages of the outbox, and have those sent again that nothing would send any more."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.instants import instant
from webhook_inbox.model.message import SendState
from webhook_inbox.model.routing import Route
from webhook_inbox.protocol.lease import bookkeeping
from webhook_inbox.protocol.migrate import check_schema
from webhook_inbox.protocol.operate import Operator
from webhook_inbox.protocol.steps import All, Commit, Plan, Rollback, Row
from webhook_inbox.sql.statements import Statements

#: The states in which a message can be retried.
RETRIED = (SendState.DEAD, SendState.RETRYING, SendState.UNROUTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFilter:
    """
    Say which messages are meant; what is empty narrows nothing down.

    Attributes:
        state: Where they stand, at the destination that is meant.
        destination: Its name.
        event_type: A type, or ``Invoice*``.
        message_id: The one.
    """

    state: str = ""
    destination: str = ""
    event_type: str = ""
    message_id: str = ""

    def __post_init__(self) -> None:
        """Refuse what means nothing."""
        if self.state and self.state not in tuple(SendState):
            raise ConfigurationError(f"state {self.state!r} is none of {', '.join(SendState)}")
        if self.message_id:
            try:
                UUID(self.message_id)
            except ValueError:
                raise ConfigurationError(f"message id {self.message_id!r} is no UUID") from None

    @property
    def params(self) -> dict[str, object]:
        """Give them as the statements take them."""
        return {
            "state": self.state,
            "destination": self.destination,
            "event_type": Route(self.event_type, "").pattern if self.event_type else "",
            "message_id": self.message_id,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRecord:
    """
    Tell where one message stands at one destination; or, where it is not routed yet, at all.

    Attributes:
        destination: Empty where nobody has said.
        published_at: When the last of its destinations had confirmed it.
    """

    id: str
    destination: str
    event_type: str
    aggregate_type: str
    aggregate_id: str
    state: SendState
    attempts: int
    available_at: datetime | None
    created_at: datetime
    sent_at: datetime | None
    published_at: datetime | None
    last_error: str


def list_messages(meant: MessageFilter, schema: str, *, limit: int) -> Plan[tuple[MessageRecord, ...]]:
    """
    Read what is meant, newest first, at most *limit*; changes nothing.

    Raises:
        SchemaVersionError: As ``check_schema``.
    """
    yield from check_schema(schema)
    sql = Statements.of(schema)
    yield bookkeeping(sql)
    rows: list[Row] = yield All(sql.list_messages, {**meant.params, "limit": limit})
    yield Rollback()
    return tuple(_record(row) for row in rows)


def retry_messages(
    meant: MessageFilter, by: Operator, schema: str, *, dry_run: bool = False
) -> Plan[tuple[tuple[str, str, str], ...]]:
    """
    Have the dead messages that are meant sent again, and those that no route named routed again; who did it is kept.

    Those that are retrying are sent at once where *meant* names that state, or one message.

    Args:
        dry_run: Only say which they are.

    Returns:
        (message id, destination, what it was) of each.

    Raises:
        ConfigurationError: A state is meant from which a message goes on by itself.
        SchemaVersionError: As ``check_schema``.
    """
    if meant.state and meant.state not in RETRIED:
        raise ConfigurationError(
            f"a message that is {meant.state} needs no retry; only {', '.join(RETRIED)} ones do"
        )
    yield from check_schema(schema)
    sql = Statements.of(schema)
    yield bookkeeping(sql)
    rows: list[Row] = yield All(sql.retry_messages, {**meant.params, "actor": by.name, "reason": by.reason})
    yield Rollback() if dry_run else Commit()
    return tuple((row[0], row[1], row[2]) for row in rows)


def _record(row: Row) -> MessageRecord:
    times = [None if value is None else instant(value) for value in row[7:11]]
    return MessageRecord(
        id=row[0],
        destination=row[1],
        event_type=row[2],
        aggregate_type=row[3],
        aggregate_id=row[4],
        state=SendState(row[5]),
        attempts=row[6],
        available_at=times[0],
        created_at=instant(row[8]),
        sent_at=times[2],
        published_at=times[3],
        last_error=row[11] or "",
    )
