"""Run the user's handlers on the open transaction, and commit what they have written with the mark of their event."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from webhook_inbox.errors import (
    HandlerFailedError,
    HandlerNotYetError,
    HandlerTimeoutError,
    InboxError,
    StatementError,
    StoreError,
    TransactionEndedError,
)
from webhook_inbox.model.event import Event, EventKey
from webhook_inbox.model.steering import STEERING, NotYet, Steering
from webhook_inbox.protocol.handlers import Handler
from webhook_inbox.protocol.steps import Commit, One, Plan, Run, Session, Step, Together
from webhook_inbox.protocol.tx import Review, Tx
from webhook_inbox.sql.statements import Statements
from webhook_inbox.telemetry.spans import processing

# What the seal meets where a handler has swallowed a database error, or is in another transaction by now.
_LEFT_UNUSABLE = frozenset({"25P02", "WI001"})
_FORBIDDEN = "42501"
# ... and where it paused for longer than the server allows (idle_in_transaction_session_timeout, transaction_timeout).
_OUT_OF_TIME = frozenset({"25P03", "25P04"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """
    Name what handlers are run for.

    Attributes:
        event: What they receive.
        inbox_id: Its row.
        handlers: In the order in which they run.
        prepared: What each one's prepare stage gave, by position; not looked at where none has one.
    """

    event: Event
    inbox_id: int
    handlers: tuple[Handler, ...]
    prepared: tuple[Any, ...] = ()


def run_handlers(
    subject: Subject, *, seconds_max: float, sql: Statements
) -> Plan[tuple[Steering | None, tuple[Review, ...]]]:
    """
    Run the handlers of *subject* in order, until one steers.

    Returns:
        What the last one raised to steer, or None; and the reviews that were asked for until then.
    """
    reviews: tuple[Review, ...] = ()
    events = {subject.event.key: (subject.event, subject.inbox_id)}
    for position, handler in enumerate(subject.handlers):
        more = (subject.prepared[position],) if handler.prepare is not None else ()
        given = [subject.event] if handler.batch else subject.event
        work = HandlerWork(handler, (given, *more), events, sql)
        steering = yield Run(handler.name, work, seconds_max, handler.pipeline)
        reviews += work.reviews
        if steering is not None:
            return steering, reviews
    return None, reviews


class HandlerWork:
    """
    Call one handler with a Tx made of the driver's session, and remember the reviews it asked for.

    Args:
        arguments: What the handler takes after its Tx: the event, or the list of events of a set-based one;
            and what its prepare stage gave.
        events: Each event of it with its row.
    """

    __slots__ = ("_arguments", "_events", "_handler", "_tx", "_tx_of")

    def __init__(
        self,
        handler: Handler,
        arguments: tuple[Any, ...],
        events: Mapping[EventKey, tuple[Event, int]],
        sql: Statements,
    ) -> None:
        self._handler = handler
        self._arguments = arguments
        self._events = events
        self._tx_of = partial(Tx, events=events, handler=handler.name, sql=sql)
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
        with processing(self._events.values(), self._handler.name):
            try:
                returned = self._handler.function(tx, *self._arguments)
            finally:
                tx.seal()
            self._check(returned)
            tx.check_awaited()
        return None

    async def _awaited(self, tx: Tx[Any]) -> None:
        with processing(self._events.values(), self._handler.name):
            try:
                returned = self._handler.function(tx, *self._arguments)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """
    Say which marks of a transaction are to be committed.

    Attributes:
        transaction: Its id, as the statement that marked them gave it.
        events: The rows whose handlers have returned.
        undone: The rows whose handlers came to nothing: they lose their mark.
        worker_id: Who holds these.
    """

    transaction: str
    events: Sequence[int]
    undone: Sequence[int] = ()
    worker_id: int | None = None

    def step(self, sql: Statements) -> One:
        """Give the step that seals."""
        params = {
            "transaction": self.transaction,
            "events": list(self.events),
            "undone": list(self.undone),
            "worker_id": self.worker_id,
        }
        return One(sql.seal_effect, params)


def commit_effect(
    seal: Seal | None, handlers: Sequence[Handler], sql: Statements, *, before: Sequence[Step] = ()
) -> Plan[None]:
    """
    Seal the transaction in which *handlers* ran, and commit it.

    Args:
        seal: None where nothing is marked.
        before: Steps to be performed first.

    Raises:
        TransactionEndedError: It is another transaction, or one that can no longer commit: a handler ended it (P-ONCE).
        HandlerFailedError: The handlers left another role, or the server refuses what they wrote.
        HandlerTimeoutError: The server ended the session while they took their time.
    """
    sealed = () if seal is None else (seal.step(sql),)
    try:
        yield Together((*before, *sealed, Commit()))
    except TransactionEndedError as error:
        if not handlers:
            raise
        raise _ended(handlers) from error
    except StoreError as error:
        named = uncommitted(error, handlers) if handlers else error
        if named is error:
            raise
        raise named from error.__cause__ or error


def uncommitted(error: StoreError, handlers: Sequence[Handler]) -> InboxError:
    """Say whose fault it is that the server would not seal or commit what *handlers* wrote."""
    if error.sqlstate in _LEFT_UNUSABLE:
        return _ended(handlers)
    if error.sqlstate == _FORBIDDEN:
        return HandlerFailedError(f"{names(handlers)} left another role; RESET ROLE before returning")
    if error.sqlstate in _OUT_OF_TIME:
        return HandlerTimeoutError(
            f"{names(handlers)} ran into a time limit of the server (SQLSTATE {error.sqlstate})"
        )
    if isinstance(error, StatementError):
        # A constraint that is checked at the end, of the user's own tables.
        return HandlerFailedError(
            f"the server refused to commit what {names(handlers)} wrote (SQLSTATE {error.sqlstate})"
        )
    return error


def _ended(handlers: Sequence[Handler]) -> TransactionEndedError:
    return TransactionEndedError(
        f"{names(handlers)} committed, rolled back or aborted the transaction it was given; nothing is applied. "
        "Leave COMMIT and ROLLBACK to webhook-inbox, and let a database error rise or contain it in a savepoint"
    )


def names(handlers: Sequence[Handler]) -> str:
    """Name *handlers*, each once."""
    return ", ".join(dict.fromkeys(handler.name for handler in handlers))


def not_yet(steering: NotYet) -> HandlerNotYetError:
    """Give what *steering* is where it leaves a plan: rolled back, to be run again, with the handler's reason."""
    reason = str(steering.reason) or "the handler asked to be run again"
    return HandlerNotYetError(reason, retry_in_seconds=steering.retry_in_seconds)
