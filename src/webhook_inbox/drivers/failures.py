"""
Sort what PostgreSQL and handlers raise, by SQLSTATE and never by text.

| what | class or code | becomes |
| --- | --- | --- |
| connection broken, refused, shut down | 08, 57P01-57P05, or none | StoreUnavailableError |
| out of connections, disk, memory; read-only | 53, 58, 25006 | StoreUnavailableError |
| deadlock, serialization failure | 40001, 40P01 | ConflictError: the transaction runs again at once |
| a prepared statement is gone: a handler said DEALLOCATE | 26000 | ConflictError for our statements |
| ... or of no use: its table has other columns by now | 0A000 | ConflictError for our statements |
| lock not available in time | 55P03 | KeyBusyError for our statements, the handler's failure for its own |
| time limits of the server | 57014, 25P03, 25P04 | HandlerTimeoutError in a handler, else StoreUnavailableError |
| our own refusal of a handler's COMMIT; a swallowed error | WI001, 25P02 | TransactionEndedError in a handler |
| the schema is not there | 3F000, 42P01, 42703 | SchemaVersionError for our statements |
| anything else | | StatementError for our statements, HandlerFailedError for a handler's |

Source: PostgreSQL manual, appendix A, "PostgreSQL Error Codes".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from webhook_inbox.errors import (
    MIGRATE_INBOX,
    ConflictError,
    HandlerError,
    HandlerFailedError,
    HandlerTimeoutError,
    InboxError,
    KeyBusyError,
    SchemaVersionError,
    StatementError,
    StoreError,
    StoreUnavailableError,
    TransactionEndedError,
)

_CONFLICTS = frozenset({"40001", "40P01"})
_TIME_LIMITS = frozenset({"57014", "25P03", "25P04"})
_UNAVAILABLE_CLASSES = ("08", "53", "57", "58")
_READ_ONLY = "25006"
_KEY_BUSY = "55P03"
_NOT_PREPARED = frozenset({"26000", "0A000"})
_ENDED = "WI001"
_ABORTED = "25P02"
_NO_SCHEMA = frozenset({"3F000", "42P01", "42703"})


def store_error(error: BaseException, *, broken: bool) -> StoreError:
    """
    Name what one of our own statements met.

    Args:
        error: The driver's exception; its ``sqlstate`` is read, its text is not passed on (P-QUIET).
        broken: Whether the connection is unusable now.
    """
    sqlstate: str | None = getattr(error, "sqlstate", None)
    if sqlstate in _CONFLICTS:
        return ConflictError("the server ended the transaction to resolve a conflict", sqlstate=sqlstate)
    if sqlstate in _NOT_PREPARED:
        return ConflictError("what the session has prepared is of no more use", sqlstate=sqlstate)
    if sqlstate == _KEY_BUSY:
        return KeyBusyError("another transaction kept its lock for too long", sqlstate=sqlstate)
    if sqlstate == _READ_ONLY:
        return StoreUnavailableError("the database is read-only (a failover?)", sqlstate=sqlstate)
    if broken or (sqlstate and (sqlstate in _TIME_LIMITS or sqlstate.startswith(_UNAVAILABLE_CLASSES))):
        return StoreUnavailableError(_away(sqlstate), sqlstate=sqlstate)
    if sqlstate is None:
        return StatementError(f"a statement could not be sent: {type(error).__name__}")
    if sqlstate in _NO_SCHEMA:
        return SchemaVersionError(
            "the schema is not there or too old", sqlstate=sqlstate, migrate=MIGRATE_INBOX
        )
    return StatementError(f"a statement failed with SQLSTATE {sqlstate}", sqlstate=sqlstate)


def handler_error(error: BaseException, *, handler: str, broken: bool, pipeline: bool = False) -> InboxError:
    """
    Name what rose out of a handler: its own fault, or the database's.

    Args:
        error: What it raised.
        handler: Its qualified name.
        broken: Whether the connection is unusable now.
        pipeline: Whether its statements were sent without waiting for the answer of each.
    """
    if isinstance(error, HandlerError):
        return error
    states = [sqlstate for sqlstate in _sqlstates(error) if sqlstate]
    if _CONFLICTS.intersection(states):
        return ConflictError(f"{handler} met a deadlock or serialization failure", sqlstate=states[0])
    if _ENDED in states:
        return transaction_ended(handler, "tried to commit the transaction it was given")
    if states[:1] == [_ABORTED]:
        return transaction_ended(handler, "swallowed a database error and went on")
    # asyncpg has the server's last words, where it heard them, behind its own 08003.
    if limit := next((state for state in states if state in _TIME_LIMITS), None):
        return HandlerTimeoutError(f"{handler} ran into a time limit of the server (SQLSTATE {limit})")
    if broken or any(state == _READ_ONLY or state.startswith(_UNAVAILABLE_CLASSES) for state in states):
        return StoreUnavailableError(
            f"{handler} lost the database: {_away(states[0] if states else None)}",
            sqlstate=next(iter(states), None),
        )
    if pipeline and states:
        return HandlerFailedError(
            f"{handler} is pipelined, so the error may belong to an earlier statement of it; "
            "run it with pipeline=False to see which"
        )
    return HandlerFailedError(f"{handler} failed", wraps=True)


def transaction_ended(handler: str, what: str) -> TransactionEndedError:
    """Say that *handler* did *what* to its transaction: ``committed or rolled back the transaction it was given``."""
    return TransactionEndedError(
        f"{handler} {what}; nothing is applied. Leave COMMIT and ROLLBACK to webhook-inbox, and let a database "
        "error rise or contain it in a savepoint"
    )


E = TypeVar("E", bound=BaseException)


def caused_by(cause: BaseException, error: E) -> E:
    """Give *error* with *cause* as its ``__cause__``, for where it is not raised at once."""
    error.__cause__ = cause
    return error


def _sqlstates(error: BaseException | None) -> Iterator[str | None]:
    """Walk what *error* was raised from: an ORM wraps the driver's exception, a handler may wrap that."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield getattr(error, "sqlstate", None)
        error = error.__cause__ or error.__context__


def _away(sqlstate: str | None) -> str:
    return (
        f"the database is not usable (SQLSTATE {sqlstate})"
        if sqlstate
        else "the connection to the database is lost or refused"
    )
