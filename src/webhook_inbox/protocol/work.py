"""Run the user's handlers on the open transaction, and mark their event as the last write of it."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

from webhook_inbox.errors import HandlerFailedError, HandlerTimeoutError, StoreError, TransactionEndedError
from webhook_inbox.model.steering import STEERING, Steering
from webhook_inbox.protocol.handlers import Handler
from webhook_inbox.protocol.recording import Item, Recording, instant
from webhook_inbox.protocol.steps import One, Plan, Row, Run, Session
from webhook_inbox.protocol.tx import Review, Tx

# What the mark meets where a handler has swallowed a database error, or made its transaction read-only.
_LEFT_UNUSABLE = frozenset({"25P02", "25006"})
_FORBIDDEN = "42501"
# ... and where it paused for longer than the server allows (idle_in_transaction_session_timeout, transaction_timeout).
_OUT_OF_TIME = frozenset({"25P03", "25P04"})


def run_handlers(
    item: Item, recorded: Row, to: Recording
) -> Plan[tuple[Steering | None, tuple[Review, ...]]]:
    """
    Run the handlers of *item* in order, until one steers.

    Returns:
        What the last one raised to steer, or None; and the reviews that were asked for until then.
    """
    inbox_id, received_at = recorded[0], instant(recorded[1])
    event = item.arrival.event(received_at=received_at, attempt=1)
    reviews: tuple[Review, ...] = ()
    for handler in item.handlers:
        tx_of = partial(Tx[Any], event=event, inbox_id=inbox_id, handler=handler.name, sql=to.sql)
        work = HandlerWork(handler, tx_of)
        steering = yield Run(handler.name, work, to.handler_seconds_max)
        reviews += work.reviews
        if steering is not None:
            return steering, reviews
    return None, reviews


class HandlerWork:
    """Call one handler with a Tx made of the driver's session, and remember the reviews it asked for."""

    __slots__ = ("_handler", "_tx", "_tx_of")

    def __init__(self, handler: Handler, tx_of: partial[Tx[Any]]) -> None:
        self._handler = handler
        self._tx_of = tx_of
        self._tx: Tx[Any] | None = None

    @property
    def reviews(self) -> tuple[Review, ...]:
        """Give what the handler asked a person to look at."""
        return () if self._tx is None else self._tx.reviews

    def __call__(self, session: Session) -> Any:  # noqa: ANN401 - None, or an awaitable with an async driver
        """Run the handler; with an async driver, give the awaitable that does."""
        tx = self._tx = self._tx_of(session)
        if self._handler.kind == "async":
            return self._awaited(tx)
        try:
            returned = self._handler.function(tx, tx.event)
        finally:
            tx.seal()
        self._check(returned)
        tx.check_awaited()
        return None

    async def _awaited(self, tx: Tx[Any]) -> None:
        try:
            returned = self._handler.function(tx, tx.event)
            if inspect.isawaitable(returned):
                returned = await returned
        finally:
            tx.seal()
        self._check(returned)
        tx.check_awaited()

    def _check(self, returned: object) -> None:
        """Refuse what shows that a handler's work is still to be done: no event is processed without its effect."""
        if inspect.isawaitable(returned) or inspect.isgenerator(returned) or inspect.isasyncgen(returned):
            if inspect.iscoroutine(returned):
                returned.close()
            raise HandlerFailedError(
                f"{self._handler.name} returned a {type(returned).__name__} that nobody would run; "
                "write it as async def, without yield"
            )
        if isinstance(returned, STEERING) or (isinstance(returned, type) and issubclass(returned, STEERING)):
            raise HandlerFailedError(
                f"{self._handler.name} returned Ignore, GiveUp or NotYet; raise it instead"
            )


def mark(item: Item, inbox_id: int, to: Recording) -> Plan[None]:
    """
    Mark the event of *item* processed, in the very transaction that recorded it (P-ONCE).

    Raises:
        TransactionEndedError: It is another transaction, or one that can no longer write: a handler ended it.
        HandlerFailedError: The handlers left a role that may not mark the event.
        HandlerTimeoutError: The server ended the session while they took their time.
    """
    if not item.handlers:
        return
    try:
        marked = yield One(to.sql.mark_processed, {"id": inbox_id})
    except StoreError as error:
        if error.sqlstate == _FORBIDDEN:
            raise HandlerFailedError(
                f"{names(item)} left a role that may not mark the event; RESET ROLE before returning"
            ) from error
        if error.sqlstate in _OUT_OF_TIME:
            raise HandlerTimeoutError(
                f"{names(item)} ran into a time limit of the server (SQLSTATE {error.sqlstate})"
            ) from error
        if error.sqlstate not in _LEFT_UNUSABLE:
            raise
        marked = None
    if marked is None:
        raise TransactionEndedError(
            f"{names(item)} committed, rolled back, aborted or made read-only the transaction it was given; "
            "nothing is applied. Leave COMMIT and ROLLBACK to webhook-inbox, and let a database error rise or "
            "contain it in a savepoint"
        )


def names(*items: Item) -> str:
    """Name the handlers of *items*, each once."""
    return ", ".join(dict.fromkeys(handler.name for item in items for handler in item.handlers))
