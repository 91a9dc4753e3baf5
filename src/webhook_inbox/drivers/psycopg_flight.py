"""
Send the statements of one step, or of several, in one flight: one write, one wait, one answer each.

psycopg's own pipeline waits for the socket once a statement and for the server once a BEGIN; a plan knows beforehand
what it will send. So this speaks to libpq beneath psycopg's cursors (``Connection.pgconn``, ``Connection.wait``), by a
generator that serves blocking and asyncio connections alike. A handler's own statements never come this way.

    BEGIN, begin, record_events, COMMIT, Sync  ──►  the server stops at the first that fails and skips the rest
    ◄── a result each; the first error is raised

Statements are prepared where the connection prepares at all, on first use: what a session has prepared outlives its
transactions. Parameters that are lists go in binary form, results come in it.

Source: PostgreSQL manual, "Pipeline Mode" of libpq; psycopg 3 documentation, "Pipeline mode support", ``psycopg.pq``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import psycopg
from psycopg import generators
from psycopg.abc import Transformer as Reader
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

from webhook_inbox.drivers.parameters import numbered
from webhook_inbox.drivers.psycopg_state import Connection, ended_while_idle, unfit
from webhook_inbox.drivers.standby import confirmed_by_standby
from webhook_inbox.drivers.walk import commands
from webhook_inbox.errors import TransactionEndedError
from webhook_inbox.protocol.steps import (
    NO_PARAMS,
    All,
    Begin,
    Commit,
    One,
    Params,
    Release,
    Rollback,
    RollbackTo,
    Row,
    Savepoint,
    Step,
    parts,
)
from webhook_inbox.sql.statements import Statement

_PREPARED_MAX = 200
# Once prepared, a statement keeps a plan that was made when the tables were small, until somebody analyses them: these
# would go on reading them from end to end. One plan serves a whole batch.
_PLANNED_ANEW = frozenset({"claim_events", "measure_limits", "record_events"})
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
# A handler or a pool said DEALLOCATE or DISCARD; or a table is no longer what it was when the statement was prepared.
_STALE = (psycopg.errors.InvalidSqlStatementName, psycopg.errors.FeatureNotSupported)
_FAILED = (ExecStatus.FATAL_ERROR, ExecStatus.PIPELINE_ABORTED)
Flight: TypeAlias = Generator[Any, Any, tuple[object, ...]]
_prepared: WeakKeyDictionary[Connection, dict[tuple[bytes, tuple[int, ...]], bytes]] = WeakKeyDictionary()
_forgotten: WeakKeyDictionary[Connection, int] = (
    WeakKeyDictionary()
)  # how often a session has lost what it had


@dataclass(frozen=True, slots=True)
class _Message:
    """
    Hold one statement as it goes to the server.

    Attributes:
        name: Under which it is prepared; empty: not at all.
        known: Whether the session has it already.
    """

    text: bytes
    values: Sequence[Any] = ()
    types: tuple[int, ...] = ()
    formats: Sequence[Format] = ()
    name: bytes = b""
    known: bool = False
    reader: Reader | None = None


def fly(conn: Connection, steps: Sequence[Step]) -> Flight:
    """
    Give the generator that performs *steps* in their order, and comes to one result each.

    Raises:
        TransactionEndedError: There is no healthy transaction for them, at once; or the server did not commit.
        psycopg.Error: The connection is of no use, at once: nothing was sent. Or what the first that failed met: the
            later ones were not performed.
    """
    _check(conn, steps)
    texts = _divisions(steps)
    return _divide(conn, steps, texts) if texts else _flown(conn, steps)


def commits(step: Step) -> bool:
    """Say whether *step* ends in a COMMIT."""
    return any(isinstance(part, Commit) for part in parts(step))


def _divisions(steps: Sequence[Step]) -> list[str]:
    """Give the SQL of *steps* where all that they do is to divide a transaction; else nothing."""
    texts: list[str] = []
    for step in steps:
        if not isinstance(step, Savepoint | RollbackTo | Release):
            return []
        texts.extend(commands(step))
    return texts


def _divide(conn: Connection, steps: Sequence[Step], texts: Sequence[str]) -> Flight:
    """Send *texts* as one query of the simple protocol, which costs both sides half of what a pipeline does."""
    conn.pgconn.send_query("; ".join(texts).encode())
    for result in (yield from generators.execute(conn.pgconn)):
        if result.status in _FAILED:
            raise error_from_result(result, encoding=conn.info.encoding)
    return (None,) * len(steps)


def _flown(conn: Connection, steps: Sequence[Step]) -> Flight:
    try:
        return (yield from _fly(conn, steps))
    except _STALE:
        if not isinstance(steps[0], Begin):
            raise
    # Nothing of the transaction was anywhere but in this flight: it can be flown again, with nothing known as prepared.
    yield from _fly(conn, (Rollback(),))
    return (yield from _fly(conn, steps))


def _fly(conn: Connection, steps: Sequence[Step]) -> Flight:
    messages = [_messages(conn, step) for step in steps]
    believing = confirmed_by_standby(conn) if isinstance(steps[-1], Commit) else nullcontext()
    with believing:
        answers = iter((yield from _exchange(conn, [message for group in messages for message in group])))
    return tuple(
        _outcome(step, [(message, next(answers)) for message in group])
        for step, group in zip(steps, messages, strict=True)
    )


def _check(conn: Connection, steps: Sequence[Step]) -> None:
    """Refuse to send what would be performed, and confirmed, outside of the transaction that was begun (P-ONCE)."""
    if conn.closed:
        raise psycopg.OperationalError("the connection is closed")
    if isinstance(steps[0], Begin) and ended_while_idle(conn):
        raise psycopg.OperationalError("the session ended while it was idle")
    if isinstance(steps[0], Begin | Rollback):
        return
    status = conn.info.transaction_status
    # A pipeline of the handler's that is still open would hold the server's answer back.
    if status is TransactionStatus.IDLE or unfit(conn):
        raise TransactionEndedError("there is no healthy transaction to go on with")
    if status is not TransactionStatus.INTRANS and any(commits(step) for step in steps):
        raise TransactionEndedError("there is no healthy transaction to commit")


def _messages(conn: Connection, step: Step) -> list[_Message]:
    match step:
        case Begin(statement, params):
            return [_Message(_BEGIN.encode()), _message(conn, statement, params)]
        case One(statement, params) | All(statement, params):
            return [_message(conn, statement, params)]
        case Savepoint() | RollbackTo() | Release() | Commit() | Rollback():
            return [_Message(text.encode()) for text in commands(step)]
        case _:
            raise TypeError(f"{type(step).__name__} cannot be sent together with others")


def _message(conn: Connection, statement: Statement, params: Params = NO_PARAMS) -> _Message:
    text, names = numbered(statement.text)
    values = [params[name] for name in names]
    tx = Transformer(conn)
    try:
        dumped = tx.dump_sequence(values, [_format(value) for value in values])
        encoded = text.encode(conn.info.encoding)
    except UnicodeEncodeError as error:
        raise psycopg.DataError(
            f"a character is not in {error.encoding}, the connection's encoding"
        ) from None
    types = tuple(tx.types or ())
    name, known = (b"", False) if statement.name in _PLANNED_ANEW else _name(conn, encoded, types)
    return _Message(encoded, dumped, types, tx.formats or (), name, known, tx)


def _format(value: object) -> PyFormat:
    # The binary form of a list says the type of its elements, which only an element can tell.
    binary = isinstance(value, list) and any(each is not None for each in value)
    return PyFormat.BINARY if binary else PyFormat.AUTO


def _name(conn: Connection, text: bytes, types: tuple[int, ...]) -> tuple[bytes, bool]:
    if conn.prepare_threshold is None:
        return b"", False
    prepared = _prepared.setdefault(conn, {})
    if name := prepared.get((text, types)):
        return name, True
    if len(prepared) >= _PREPARED_MAX:
        return b"", False
    # By what it is: whoever shares a session behind a pooler calls the same statement so, and no other one.
    told = hashlib.blake2b(repr((text, types)).encode(), digest_size=12)
    return f"webhook_inbox_{told.hexdigest()}_{_forgotten.get(conn, 0)}".encode(), False


def _exchange(conn: Connection, messages: Sequence[_Message]) -> Generator[Any, Any, list[PGresult]]:
    """Send *messages* and give one result each; where this is left early, the connection is of no more use."""
    pgconn, met = conn.pgconn, _Met(conn)
    pgconn.enter_pipeline_mode()
    fresh = {message.name: message for message in reversed(messages) if message.name and not message.known}
    for message in messages:
        if fresh.get(message.name) is message:
            pgconn.send_prepare(message.name, message.text, param_types=message.types)
        _send(pgconn, message)
    pgconn.pipeline_sync()
    try:
        yield from generators.send(pgconn)
        results = []
        for message in messages:
            if fresh.get(message.name) is message:
                met.look((yield from generators.fetch_many(pgconn)))
                if met.error is None:
                    _prepared[conn][message.text, message.types] = message.name
            results.append(met.look((yield from generators.fetch_many(pgconn))))
        yield from generators.fetch_many(pgconn)  # the answer to Sync
    except psycopg.Error as lost:
        raise met.error or lost from None
    pgconn.exit_pipeline_mode()
    if met.error is not None:
        raise met.error
    return results


class _Met:
    """Keep the first error that the server reported."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        self.error: psycopg.Error | None = None

    def look(self, results: list[PGresult]) -> PGresult:
        """Give the last of *results*, having looked at it."""
        result = results[-1]
        if result.status in _FAILED and self.error is None:
            self.error = error_from_result(result, encoding=self._conn.info.encoding)
            if isinstance(self.error, _STALE):
                # What is left of the others keeps its names.
                _prepared.pop(self._conn, None)
                _forgotten[self._conn] = _forgotten.get(self._conn, 0) + 1
        return result


def _send(pgconn: PGconn, message: _Message) -> None:
    if message.name:
        pgconn.send_query_prepared(
            message.name, message.values, param_formats=message.formats, result_format=Format.BINARY
        )
    else:
        pgconn.send_query_params(
            message.text,
            message.values,
            param_types=message.types,
            param_formats=message.formats,
            result_format=Format.BINARY,
        )


def _outcome(step: Step, answers: Sequence[tuple[_Message, PGresult]]) -> object:
    message, result = answers[-1]
    match step:
        case Begin() | One():
            return next(iter(_rows(message, result)), None)
        case All():
            return _rows(message, result)
        case Commit():
            tag = (result.command_status or b"nothing").decode()
            if tag != "COMMIT":
                raise TransactionEndedError(f"the server answered {tag} to COMMIT")
        case _:
            pass
    return None


def _rows(message: _Message, result: PGresult) -> list[Row]:
    assert message.reader is not None  # noqa: S101 - every statement with rows has one
    message.reader.set_pgresult(result)
    return message.reader.load_rows(0, result.ntuples, tuple)
