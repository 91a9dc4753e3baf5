"""Give a handler its transaction: the user's own connection, and what may be written beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload
from uuid import UUID

from webhook_inbox.errors import ArgumentError, HandlerFailedError
from webhook_inbox.model.event import Event, EventKey
from webhook_inbox.protocol.outbox import (
    AsyncConnection,
    SyncConnection,
    caused_id,
    checked_text,
    json_text,
    message_params,
    travelling,
)
from webhook_inbox.protocol.steps import Session
from webhook_inbox.sql.statements import Statements

if TYPE_CHECKING:
    from sqlalchemy import Connection as SqlAlchemyConnection
    from sqlalchemy.ext.asyncio import (
        AsyncConnection as SqlAlchemyAsyncConnection,
        AsyncSession as SqlAlchemyAsyncSession,
    )
    from sqlalchemy.orm import Session as SqlAlchemySession

Connection_co = TypeVar("Connection_co", covariant=True)


class _UsersSession:
    """Give ``tx.session``, typed by the connection of its Tx."""

    @overload
    def __get__(self, tx: Tx[SqlAlchemyConnection], owner: object = ...) -> SqlAlchemySession: ...
    @overload
    def __get__(self, tx: Tx[SqlAlchemyAsyncConnection], owner: object = ...) -> SqlAlchemyAsyncSession: ...
    def __get__(self, tx: Any, owner: object = None) -> Any:
        return tx.given_session()


@dataclass(frozen=True, slots=True)
class Review:
    """Hold what a handler asked a person to look at; kept even where its writes are rolled back."""

    summary: str
    details: str


class Tx(Generic[Connection_co]):
    """
    Hold the transaction that records the event, while the handler runs in it.

    What is written through it commits once, together with the event, or not at all (P-ONCE).
    """

    __slots__ = (
        "_called",
        "_closed",
        "_emitted",
        "_events",
        "_handler",
        "_reviews",
        "_session",
        "_sql",
    )

    def __init__(
        self, session: Session, *, events: Mapping[EventKey, tuple[Event, int]], handler: str, sql: Statements
    ) -> None:
        self._session = session
        self._events = events
        self._handler = handler
        self._sql = sql
        self._emitted: Counter[EventKey] = Counter()
        self._called = 0
        self._closed = False
        self._reviews: list[Review] = []

    session = _UsersSession()
    """
    The SQLAlchemy session of the handler's own, fresh for each run of it, in the transaction; flushed when it returns.
    Never commit, roll back or close it. Raises HandlerFailedError where the inbox was not given SQLAlchemy, or the
    handler has already returned.
    """

    def given_session(self) -> Any:  # noqa: ANN401 - typed by ``session``
        """Give what ``session`` gives."""
        self._check_open()
        if (session := getattr(self._session, "session", None)) is None:
            raise HandlerFailedError(
                f"{self._handler} asked for tx.session, which there is with a SQLAlchemy engine only; use tx.conn"
            )
        return session

    @property
    def conn(self) -> Connection_co:
        """
        Give the driver's own connection, inside the transaction; never commit or roll back on it.

        Raises:
            HandlerFailedError: The handler has already returned.
        """
        self._check_open()
        connection: Connection_co = self._session.conn
        return connection

    @overload
    def emit(
        self: Tx[SyncConnection],
        event_type: str,
        payload: object,
        *,
        aggregate_type: str = ...,
        aggregate_id: object = ...,
        to: str = ...,
        key: str | None = ...,
        headers: Mapping[str, str] | None = ...,
        event: Event | None = ...,
    ) -> UUID: ...
    @overload
    def emit(
        self: Tx[AsyncConnection],
        event_type: str,
        payload: object,
        *,
        aggregate_type: str = ...,
        aggregate_id: object = ...,
        to: str = ...,
        key: str | None = ...,
        headers: Mapping[str, str] | None = ...,
        event: Event | None = ...,
    ) -> Awaitable[UUID]: ...
    def emit(
        self,
        event_type: str,
        payload: object,
        *,
        aggregate_type: str = "",
        aggregate_id: object = "",
        to: str = "",
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        event: Event | None = None,
    ) -> Any:
        """
        Put a message into the outbox; it exists only if the transaction commits (P-OUT).

        Args:
            event_type: What others will know the message by, for instance ``InvoicePaymentBooked``.
            payload: Anything JSON can say; no NaN, no NUL, no lone surrogates.
            aggregate_type: What kind of thing the message is about.
            aggregate_id: Which one; stored as text.
            to: The one destination that it is for; wherever its type is routed to, where it is not given.
            key: Names the message within the event and the handler, in place of its position: for handlers whose
                messages may come in another order the next time.
            headers: What shall travel along, beside the trace and the correlation id of the event; lower-case names.
            event: In a set-based handler, which of its events causes the message.

        Returns:
            The message id: made from the event, the handler and the position, or the key, so that a re-run makes the
            same one; nothing is added then. To be awaited in an ``async def`` handler.

        Raises:
            ArgumentError: The event type is empty, the payload cannot be stored as JSON, one of the texts or headers
                not at all, or a set-based handler did not say which event it means.
            HandlerFailedError: The handler has already returned.
        """
        self._check_open()
        about, inbox_id = self._about(event)
        params = message_params(
            self._message_id(about, key),
            event_type,
            payload,
            aggregate_type=aggregate_type,
            aggregate_id=aggregate_id,
            to=to,
            headers=travelling(about) | dict(headers or {}),
            inbox_id=inbox_id,
            what="tx.emit",
        )
        self._called += 1
        return _then(params["id"], self._session.execute(self._sql.insert_outbox, params))

    @overload
    def review(
        self: Tx[SyncConnection],
        summary: str,
        *,
        details: Mapping[str, object] = ...,
        event: Event | None = ...,
    ) -> int: ...
    @overload
    def review(
        self: Tx[AsyncConnection],
        summary: str,
        *,
        details: Mapping[str, object] = ...,
        event: Event | None = ...,
    ) -> Awaitable[int]: ...
    def review(
        self, summary: str, *, details: Mapping[str, object] | None = None, event: Event | None = None
    ) -> Any:
        """
        Ask a person to look at this event; commits with the effect, and is kept when the handler raises
        Ignore or GiveUp.

        Args:
            summary: One line, for instance ``paid after void``.
            details: What the person needs to see.
            event: In a set-based handler, which of its events is meant.

        Returns:
            The review's number. To be awaited in an ``async def`` handler.

        Raises:
            ArgumentError: The details cannot be stored as JSON.
            HandlerFailedError: The handler has already returned.
        """
        self._check_open()
        about, inbox_id = self._about(event)
        review = Review(
            checked_text(summary, what="tx.review: the summary"),
            json_text(details or {}, what="tx.review: the details"),
        )
        self._reviews.append(review)
        self._called += 1
        return _first_column(
            self._session.execute(self._sql.insert_review, review_params(review, about, inbox_id))
        )

    @overload
    def stale(
        self: Tx[SyncConnection], key: str, version: float | Decimal, *, event: Event | None = ...
    ) -> bool: ...
    @overload
    def stale(
        self: Tx[AsyncConnection], key: str, version: float | Decimal, *, event: Event | None = ...
    ) -> Awaitable[bool]: ...
    def stale(self, key: str, version: float | Decimal, *, event: Event | None = None) -> Any:
        """
        Say whether a newer version of *key* was applied before; if not, this one is the newest from now on.

        Two events of one key take turns from here to the end of the transaction. Only a lower version is
        stale, an equal one is not. Never use it with a clock of whole seconds, such as Stripe's ``created``:
        two changes of one second have one version.

        Args:
            key: What the version belongs to, for instance ``subscription:sub_1``; within the endpoint.
            version: A number that grows with every change.

        Returns:
            True: leave the newer state alone. To be awaited in an ``async def`` handler.

        Raises:
            HandlerFailedError: The handler has already returned.
        """
        self._check_open()
        about, inbox_id = self._about(event)
        number = Decimal(version)
        if not number.is_finite():
            raise ArgumentError("tx.stale: the version is no finite number")
        params = {
            "endpoint": about.endpoint,
            "key": checked_text(key, what="tx.stale: the key"),
            "version": number,
            "inbox_id": inbox_id,
        }
        self._called += 1
        return _is_none(self._session.execute(self._sql.version_applied, params))

    @property
    def reviews(self) -> tuple[Review, ...]:
        """Give the reviews asked for so far."""
        return tuple(self._reviews)

    def seal(self) -> None:
        """End the handler's use of the transaction; a reference that outlives it can write nothing."""
        self._closed = True

    def check_awaited(self) -> None:
        """
        Refuse to go on where an ``emit`` or ``review`` was called but never awaited, so that it is not lost in silence.

        Raises:
            HandlerFailedError: Names the handler.
        """
        if self._called > self._session.ended:
            raise HandlerFailedError(
                f"{self._handler} called tx.emit or tx.review without await; nothing was written"
            )

    def _check_open(self) -> None:
        if self._closed:
            raise HandlerFailedError(
                f"{self._handler} used its tx after it had returned; the transaction is no longer its own"
            )

    def _about(self, event: Event | None) -> tuple[Event, int]:
        if event is not None and event.key in self._events:
            return self._events[event.key]
        if event is None and len(self._events) == 1:
            return next(iter(self._events.values()))
        raise ArgumentError(f"{self._handler} handles several events; say which one is meant: event=...")

    def _message_id(self, event: Event, key: str | None) -> UUID:
        if key is not None:
            return caused_id(event, self._handler, key)
        self._emitted[event.key] += 1
        return caused_id(event, self._handler, self._emitted[event.key])


def review_params(review: Review, event: Event, inbox_id: int) -> dict[str, object]:
    """Give the parameters of ``insert_review``."""
    return {
        "inbox_id": inbox_id,
        "endpoint": event.endpoint,
        "event_id": event.id,
        "summary": review.summary,
        "details": review.details,
    }


def _then(value: object, given: Any) -> Any:  # noqa: ANN401 - a row or None, or an awaitable of one
    return _awaited_then(value, given) if isinstance(given, Awaitable) else value


async def _awaited_then(value: object, given: Awaitable[Any]) -> object:
    await given
    return value


def _first_column(given: Any) -> Any:  # noqa: ANN401 - a row, or an awaitable of one
    return _awaited(given) if isinstance(given, Awaitable) else given[0]


async def _awaited(given: Awaitable[Any]) -> Any:  # noqa: ANN401 - the first column of our own statement
    return (await given)[0]


def _is_none(given: Any) -> Any:  # noqa: ANN401 - a row or None, or an awaitable of one
    return _awaited_none(given) if isinstance(given, Awaitable) else given is None


async def _awaited_none(given: Awaitable[Any]) -> bool:
    return await given is None
