"""Say what a run of an event's handlers would do, where it was rolled back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from webhook_inbox.model.event_record import EventRecord
from webhook_inbox.model.failure import Failure

End: TypeAlias = Literal["processed", "ignored", "dead", "not_yet", "failed", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """
    Hold one row of the user's tables before and after.

    Attributes:
        table: With its schema, quoted where it must be.
        before: None where the row is inserted.
        after: None where it is deleted.
    """

    table: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDraft:
    """Hold one message that would be in the outbox; see ``tx.emit``."""

    event_type: str
    aggregate_type: str
    aggregate_id: str
    destination: str
    payload: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewDraft:
    """Hold one thing that a person would be asked to look at; see ``tx.review``."""

    summary: str
    details: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed:
    """
    Say what a run would come to.

    Attributes:
        event: As it stands, before and after.
        end: What the event would be; ``not_yet`` and ``failed`` would be run again, ``refused`` was not run at all.
        reason: Why, where it is not processed; no payload.
        failure: What a handler met, where it failed.
        rows: What it would change in tables that the database's user may read.
        unread: Tables that it would change and that this user may not read.
        messages, reviews: What it would leave behind.
        whole: Whether *rows* has all of them.
    """

    event: EventRecord
    end: End
    reason: str = ""
    failure: Failure | None = None
    rows: tuple[RowChange, ...] = ()
    unread: tuple[str, ...] = ()
    messages: tuple[MessageDraft, ...] = ()
    reviews: tuple[ReviewDraft, ...] = ()
    whole: bool = True
