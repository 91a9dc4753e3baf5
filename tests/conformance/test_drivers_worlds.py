"""What handlers do to a transaction in the words of their world: a session's commit, a pipeline, Django's atomic()."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

import psycopg
import pytest
from django.db import transaction
from sqlalchemy import text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from tests.conformance.test_drivers_commit import committed, serves_on
from tests.fixtures.arrivals import item, recording
from tests.fixtures.benches import (
    EVERY,
    AsyncpgBench,
    AsyncpgSqlAlchemyBench,
    AsyncSqlAlchemyBench,
    DjangoBench,
    DjangoThreadsBench,
    SqlAlchemyBench,
)
from tests.fixtures.drivers import DRIVERS, Bench, Script, enter
from tests.fixtures.worlds import DATABASE_ERRORS, say
from webhook_inbox.errors import TransactionEndedError
from webhook_inbox.model.states import Outcome
from webhook_inbox.protocol.record import record_batch, record_one

Steps: TypeAlias = Generator[Any, Any, None]
EFFECT = "INSERT INTO effect VALUES (1)"
#: What would otherwise be closed by the garbage collector as soon as its handler returns.
KEPT: list[Any] = []


class Base(DeclarativeBase):
    """The models of the test's own."""


class Once(Base):
    """A row of ``once``."""

    __tablename__ = "once"
    n: Mapped[int] = mapped_column(primary_key=True)


def calls(*path: str, swallow: bool = False) -> Script:
    """A handler that writes, and then calls that method of its tx; with *swallow* it goes on after an error."""
    swallowed = DATABASE_ERRORS if swallow else ()

    def script(tx: Any, event: Any) -> Steps:
        yield say(tx.conn, EFFECT)
        method = tx
        for name in path:
            method = getattr(method, name)
        with suppress(*swallowed):
            yield method()

    return script


def leaves_autocommit_on(tx: Any, event: Any) -> Steps:
    """Roll back and switch to autocommit, in which every statement would commit by itself."""
    yield say(tx.conn, EFFECT)
    yield tx.conn.rollback()
    yield tx.conn.set_autocommit(True)


def leaves_open(context: str) -> Script:
    """A handler that enters that context of its connection's and never leaves it."""

    def script(tx: Any, event: Any) -> Steps:
        KEPT.append(getattr(tx.conn, context)())
        yield enter(KEPT[-1])
        yield say(tx.conn, EFFECT)

    return script


def leaves_a_copy_open(tx: Any, event: Any) -> Steps:
    """Begin a COPY and never end it."""
    cursor = tx.conn.cursor()
    KEPT.append(cursor)
    KEPT.append(cursor.copy("COPY effect FROM STDIN"))
    copy = yield enter(KEPT[-1])
    yield copy.write_row([1])


def swallows_a_failed_flush(tx: Any, event: Any) -> Steps:
    """Let the unique key refuse an object, and return as if nothing were."""
    yield say(tx.conn, "INSERT INTO once VALUES (1)")
    tx.session.add(Once(n=1))
    with suppress(*DATABASE_ERRORS):
        yield tx.session.flush()


def begins_anew_after_a_failed_flush(tx: Any, event: Any) -> Steps:
    """Roll the session back, as SQLAlchemy asks for, and write on in the transaction that it begins by itself."""
    yield from swallows_a_failed_flush(tx, event)
    yield tx.session.rollback()
    tx.session.add(Once(n=2))
    yield tx.session.flush()


def uses_the_session_after_a_failed_flush(tx: Any, event: Any) -> Steps:
    """Go on without that rollback, which SQLAlchemy refuses."""
    yield from swallows_a_failed_flush(tx, event)
    yield tx.session.execute(text(EFFECT))


def uses_the_session_as_a_context(tx: Any, event: Any) -> Steps:
    """Write ``with session``, which closes it at the end."""
    yield enter(tx.session)
    yield tx.session.execute(text(EFFECT))
    yield tx.session.close()


def prepares_rolls_back_and_executes(tx: Any, event: Any) -> Steps:
    """Hold on to a prepared statement, which would be committed by itself."""
    statement = yield tx.conn.prepare(EFFECT)
    yield tx.conn.execute("ROLLBACK")
    yield statement.fetch()


def marks_for_rollback(tx: Any, event: Any) -> Steps:
    """Ask Django to roll back, and return."""
    yield say(tx.conn, EFFECT)
    tx.conn.set_rollback(True)


def swallows_in_a_block_without_savepoint(tx: Any, event: Any) -> Steps:
    """Let an inner block fail that cannot be undone alone: Django marks the outer one."""
    yield say(tx.conn, EFFECT)
    with suppress(ValueError), transaction.atomic(using=tx.conn.alias, savepoint=False):
        raise ValueError


def leaves_an_atomic_block_open(tx: Any, event: Any) -> Steps:
    """Enter ``atomic()`` and never leave it."""
    KEPT.append(transaction.atomic(using=tx.conn.alias))
    yield enter(KEPT[-1])
    yield say(tx.conn, EFFECT)


SESSIONS = (SqlAlchemyBench, AsyncSqlAlchemyBench, AsyncpgSqlAlchemyBench)
#: Each of them ends, breaks or hides the transaction that it was given, in the words of its world.
CRIMES: dict[tuple[type[Any], ...], dict[str, Script]] = {
    DRIVERS: {
        "commit()": calls("conn", "commit"),
        "commit(), swallowed": calls("conn", "commit", swallow=True),
        "rollback()": calls("conn", "rollback"),
        "close()": calls("conn", "close"),
        "set_autocommit(True)": leaves_autocommit_on,
        "transaction()": leaves_open("transaction"),
        "pipeline()": leaves_open("pipeline"),
        "copy()": leaves_a_copy_open,
    },
    SESSIONS: {
        "session.commit()": calls("session", "commit"),
        "session.commit(), swallowed": calls("session", "commit", swallow=True),
        "session.rollback()": calls("session", "rollback"),
        "session.close()": calls("session", "close"),
        "with session": uses_the_session_as_a_context,
        "conn.commit()": calls("conn", "commit"),
        "conn.commit(), swallowed": calls("conn", "commit", swallow=True),
        "conn.rollback()": calls("conn", "rollback"),
        "conn.close()": calls("conn", "close"),
        "conn.invalidate()": calls("conn", "invalidate"),
        "a failed flush, swallowed": swallows_a_failed_flush,
        "a failed flush, and begin anew": begins_anew_after_a_failed_flush,
        "a failed flush, and go on": uses_the_session_after_a_failed_flush,
    },
    (AsyncpgBench,): {
        "close()": calls("conn", "close"),
        "terminate()": calls("conn", "terminate"),
        "reset()": calls("conn", "reset"),
        "a prepared statement after ROLLBACK": prepares_rolls_back_and_executes,
    },
    (DjangoBench,): {
        "commit()": calls("conn", "commit"),
        "rollback()": calls("conn", "rollback"),
        "beneath Django: commit()": calls("conn", "connection", "commit"),
        "beneath Django: rollback()": calls("conn", "connection", "rollback"),
        "set_rollback(True)": marks_for_rollback,
        "an inner block without savepoint fails, swallowed": swallows_in_a_block_without_savepoint,
        "atomic()": leaves_an_atomic_block_open,
    },
    (DjangoThreadsBench,): {
        "close()": calls("conn", "close"),
        "beneath Django: close()": calls("conn", "connection", "close"),
        "atomic()": leaves_an_atomic_block_open,
        "set_rollback(True)": marks_for_rollback,
    },
}


def adds_objects(tx: Any, event: Any) -> Steps:
    """Leave objects in the session, unflushed."""
    tx.session.add(Once(n=1))
    yield say(tx.conn, EFFECT)


def undoes_a_nested_part(tx: Any, event: Any) -> Steps:
    """Contain an error in ``begin_nested``, and leave another such part open."""
    yield say(tx.conn, "INSERT INTO once VALUES (1)")
    nested = yield tx.session.begin_nested()
    tx.session.add(Once(n=1))
    with suppress(*DATABASE_ERRORS):
        yield tx.session.flush()
    yield nested.rollback()
    yield tx.session.begin_nested()
    yield tx.session.execute(text(EFFECT))


def uses_asyncpgs_transactions(tx: Any, event: Any) -> Steps:
    """Use ``conn.transaction()`` as a savepoint: one undone, one kept, one left open."""
    yield say(tx.conn, "INSERT INTO once VALUES (1)")
    undone = tx.conn.transaction()
    yield undone.start()
    with suppress(*DATABASE_ERRORS):
        yield say(tx.conn, "INSERT INTO once VALUES (1)")
    yield undone.rollback()
    kept = tx.conn.transaction()
    yield kept.start()
    yield say(tx.conn, EFFECT)
    yield kept.commit()
    yield tx.conn.transaction().start()


def uses_atomic(tx: Any, event: Any) -> Steps:
    """Contain an error in ``atomic()``, and keep another such block; and have Django refuse a commit."""
    yield say(tx.conn, "INSERT INTO once VALUES (1)")
    with suppress(*DATABASE_ERRORS), transaction.atomic(using=tx.conn.alias):
        say(tx.conn, "INSERT INTO once VALUES (1)")
    with transaction.atomic(using=tx.conn.alias):
        say(tx.conn, EFFECT)
    with suppress(*DATABASE_ERRORS):
        tx.conn.commit()


RIGHTS: dict[tuple[type[Any], ...], dict[str, Script]] = {
    SESSIONS: {"objects left in the session": adds_objects, "begin_nested()": undoes_a_nested_part},
    (AsyncpgBench,): {"conn.transaction()": uses_asyncpgs_transactions},
    (DjangoBench,): {"atomic()": uses_atomic},
}


def each(cases: dict[tuple[type[Any], ...], dict[str, Script]]) -> pytest.MarkDecorator:
    """Try every case on every driver that it is for."""
    return pytest.mark.parametrize(
        ("open_bench", "script"),
        [
            pytest.param(bench, script, id=f"{bench.label}-{name}")
            for benches, scripts in cases.items()
            for bench in benches
            for name, script in scripts.items()
        ],
        indirect=["open_bench"],
    )


@pytest.fixture(autouse=True)
def kept() -> Generator[None]:
    """Let go, in the end, of what handlers left open."""
    yield
    KEPT.clear()


@each(CRIMES)
def test_a_handler_that_ends_its_transaction_in_its_worlds_words_fails_by_name(
    bench: Bench, effects: psycopg.Connection[Any], script: Script
) -> None:
    """P-ONCE: nothing is applied, the failure says which handler, and the connections serve the next events."""
    handler = bench.handler(script)
    with pytest.raises(TransactionEndedError) as caught:
        bench.run(lambda: record_one(item(handler), recording()))
    assert handler.name in str(caught.value)
    assert committed(effects) == {"effect": 0, "inbox": 0, "bodies": 0}
    assert effects.execute("SELECT count(*) FROM once").fetchone() == (0,)
    serves_on(bench, effects)


@each(CRIMES)
def test_no_mate_is_acknowledged_where_a_handler_ended_the_transaction_in_its_worlds_words(
    bench: Bench, effects: psycopg.Connection[Any], script: Script
) -> None:
    """P-ONCE: the savepoint around each event goes with the transaction; nothing of the body is stored by this run."""
    bad = item(bench.handler(script), event_id="evt_1")
    with pytest.raises(TransactionEndedError):
        bench.run(lambda: record_batch([item(event_id="evt_0"), bad, item(event_id="evt_2")], recording()))
    assert committed(effects) == {"effect": 0, "inbox": 0, "bodies": 0}
    serves_on(bench, effects)


@each(RIGHTS)
def test_a_handler_that_keeps_its_transaction_in_its_worlds_words_is_believed(
    bench: Bench, effects: psycopg.Connection[Any], script: Script
) -> None:
    """P-ONCE: what is flushed, nested and contained commits once, with the event, alone or among others."""
    alone = bench.run(lambda: record_one(item(bench.handler(script)), recording()))
    assert alone.outcome is Outcome.PROCESSED
    assert effects.execute("SELECT count(*) FROM once").fetchone() == (1,)
    effects.execute("TRUNCATE once")
    mate = item(bench.handler(lambda tx, event: once(say(tx.conn, EFFECT))), event_id="evt_3")
    both = [item(bench.handler(script), event_id="evt_2"), mate]
    results = bench.run(partial(record_batch, both, recording()))
    assert [result.outcome for result in results] == [Outcome.PROCESSED] * 2
    assert committed(effects) == {"effect": 3, "inbox": 3, "bodies": 3}
    serves_on(bench, effects)


def once(value: Any) -> Steps:
    """A script of one step."""
    yield value


def test_every_driver_is_tried_in_its_own_words() -> None:
    """A driver that is added asks for its world's crimes here."""
    assert {bench for benches in CRIMES for bench in benches} == {*EVERY, DjangoThreadsBench}
