"""A handler's SQLAlchemy session is of its user's own kind, fresh for each event, on the event's connection alone."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any, TypeAlias

import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import IntegrityError, ResourceClosedError
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from tests.conformance.conftest import OpenBench
from tests.conformance.test_drivers_commit import committed, serves_on
from tests.conformance.test_drivers_worlds import Base, Once
from tests.fixtures.arrivals import item, recording
from tests.fixtures.benches import AsyncpgSqlAlchemyBench, AsyncSqlAlchemyBench, SqlAlchemyBench, url_of
from tests.fixtures.drivers import statement
from tests.fixtures.worlds import say
from webhook_inbox.drivers.lending import LoopDriver, ThreadDriver
from webhook_inbox.drivers.sqlalchemy_engine import SqlAlchemyLender
from webhook_inbox.errors import HandlerFailedError
from webhook_inbox.model.failure import describe
from webhook_inbox.model.settings import Settings
from webhook_inbox.model.states import Outcome
from webhook_inbox.protocol.record import record_one
from webhook_inbox.protocol.steps import Begin, Commit, Plan

Steps: TypeAlias = Generator[Any, Any, None]
pytestmark = pytest.mark.parametrize(
    "open_bench",
    [SqlAlchemyBench, AsyncSqlAlchemyBench, AsyncpgSqlAlchemyBench],
    ids=lambda driver: driver.label,
    indirect=True,
)


def with_sessions(bench: Any, **options: Any) -> Any:
    """The driver on a session maker of the user's own over the bench's engine; *options* are that maker's."""
    if isinstance(bench, SqlAlchemyBench):
        maker = sessionmaker(bench.engine, **options)
        bench.driver = ThreadDriver(SqlAlchemyLender(maker, settings=Settings()))
    else:
        async_maker = async_sessionmaker(bench.engine, **options)
        bench.driver = LoopDriver(SqlAlchemyLender(async_maker, settings=Settings()))
    return bench


def sync_session(session: Any) -> Session:
    """The session behind one of either kind."""
    found: Session = getattr(session, "sync_session", session)
    return found


def test_each_event_has_a_fresh_session(bench: Any, effects: psycopg.Connection[Any]) -> None:
    """What a failed event left pending, dirty or loaded is not there for the next one, on the same connection."""
    seen: list[Any] = []

    def script(tx: Any, event: Any) -> Steps:
        assert not [*sync_session(tx.session)]
        assert not sync_session(tx.session).new
        assert all(tx.session is not other for other in seen)
        assert tx.session is tx.session
        seen.append(tx.session)
        tx.session.add(Once(n=len(seen)))
        yield tx.session.flush()
        tx.session.add(Once(n=100 + len(seen)))
        if len(seen) == 1:
            raise ValueError

    with pytest.raises(HandlerFailedError):
        bench.run(lambda: record_one(item(bench.handler(script)), recording()))
    for event_id in ("evt_2", "evt_3"):
        bench.run(partial(record_one, item(bench.handler(script), event_id=event_id), recording()))
    assert effects.execute("SELECT n FROM once ORDER BY n").fetchall() == [(2,), (3,), (102,), (103,)]


def test_a_session_is_of_the_users_own_making(bench: Any, effects: psycopg.Connection[Any]) -> None:
    """Class, info and autoflush are the session maker's; what it says of other engines and of two phases is not."""

    class OwnSession(Session):
        """The user's."""

    class OwnAsyncSession(AsyncSession):
        """The user's."""

    elsewhere = create_engine("postgresql+psycopg://nowhere.invalid/nothing")
    sync = isinstance(bench, SqlAlchemyBench)
    options: dict[str, Any] = {"info": {"tenant": 7}, "autoflush": False}
    options |= {"binds": {Base: elsewhere}, "twophase": True} if sync else {}
    with_sessions(bench, class_=OwnSession if sync else OwnAsyncSession, **options)

    def script(tx: Any, event: Any) -> Steps:
        assert isinstance(tx.session, OwnSession | OwnAsyncSession)
        assert (tx.session.info["tenant"], tx.session.autoflush) == (7, False)
        tx.session.add(Once(n=1))
        yield say(tx.conn, "SELECT 1")

    result = bench.run(lambda: record_one(item(bench.handler(script)), recording()))
    assert result.outcome is Outcome.PROCESSED
    assert effects.execute("SELECT n FROM once").fetchall() == [(1,)]


def test_a_session_that_goes_elsewhere_fails_by_name(
    bench: Any, database: str, effects: psycopg.Connection[Any]
) -> None:
    """P-ONCE: a ``get_bind()`` of the user's own would write where nobody commits; the event is not processed."""
    sync = isinstance(bench, SqlAlchemyBench)
    elsewhere: Any = (
        create_engine(url_of(database, "psycopg")) if sync else create_async_engine(bench.engine.url)
    )

    class Straying(Session):
        """The user's, with a mind of its own."""

        def get_bind(self, mapper: Any = None, **given: Any) -> Any:
            return (
                super().get_bind(mapper, **given)
                if mapper is None
                else getattr(elsewhere, "sync_engine", elsewhere)
            )

    options = {"class_": Straying} if isinstance(bench, SqlAlchemyBench) else {"sync_session_class": Straying}
    with_sessions(bench, **options)

    def script(tx: Any, event: Any) -> Steps:
        tx.session.add(Once(n=1))
        yield say(tx.conn, "SELECT 1")

    with pytest.raises(HandlerFailedError, match="another connection"):
        bench.run(lambda: record_one(item(bench.handler(script)), recording()))
    assert committed(effects) == {"effect": 0, "inbox": 0, "bodies": 0}
    assert effects.execute("SELECT count(*) FROM once").fetchone() == (0,)
    serves_on(bench, effects)
    elsewhere.dispose() if sync else bench.loop.run(elsewhere.dispose())


def test_a_session_that_is_kept_can_write_nothing_afterwards(
    bench: Any, effects: psycopg.Connection[Any]
) -> None:
    """A reference that outlives the event is bound to a connection that is closed for it."""
    kept: list[Any] = []

    def script(tx: Any, event: Any) -> Steps:
        kept.append(tx.session)
        yield tx.session.execute(text("SELECT 1"))

    bench.run(lambda: record_one(item(bench.handler(script)), recording()))

    def use() -> Any:
        return kept[0].execute(text("INSERT INTO effect VALUES (1)"))

    with pytest.raises(ResourceClosedError):
        use() if bench.kind == "sync" else bench.loop.run(use())
    assert committed(effects)["effect"] == 0


def test_an_engine_gets_its_connections_back_as_they_were(
    open_bench: OpenBench, database: str, effects: psycopg.Connection[Any]
) -> None:
    """A plan runs in READ COMMITTED whatever the engine's isolation level is, and the engine's own code in that."""
    shown = statement("SELECT current_setting('transaction_isolation')")
    own = text("SELECT current_setting('transaction_isolation')")

    def plan() -> Plan[str]:
        row = yield Begin(shown)
        yield Commit()
        return str(row[0])

    for level, expected in (("SERIALIZABLE", "serializable"), ("AUTOCOMMIT", "read committed")):
        bench: Any = open_bench(database, connections_max=1)
        engine = bench.engine.execution_options(isolation_level=level)
        lender = SqlAlchemyLender(engine, settings=Settings())
        bench.driver = ThreadDriver(lender) if bench.kind == "sync" else LoopDriver(lender)

        async def ask(engine: Any = engine) -> Any:
            async with engine.connect() as conn:
                return (await conn.execute(own)).scalar()

        for _ in range(2):
            assert bench.run(plan) == "read committed"
            if bench.kind == "sync":
                with engine.connect() as conn:
                    found = conn.execute(own).scalar()
            else:
                found = bench.loop.run(ask())
            assert found == expected


def test_what_may_be_shown_of_an_error_is_found_behind_sqlalchemys(
    bench: Any, effects: psycopg.Connection[Any]
) -> None:
    """P-QUIET: the SQLSTATE and the constraint of the driver's error stand in the history, the row does not."""

    def script(tx: Any, event: Any) -> Steps:
        yield say(tx.conn, "INSERT INTO once VALUES (471100)")
        tx.session.add(Once(n=471100))

    with pytest.raises(HandlerFailedError) as caught:
        bench.run(lambda: record_one(item(bench.handler(script)), recording()))
    assert isinstance(caught.value.__cause__, IntegrityError)
    shown = describe(caught.value)
    assert (shown.type, shown.sqlstate, shown.constraint) == (
        "sqlalchemy.exc.IntegrityError",
        "23505",
        "once_pkey",
    )
    assert "471100" not in str(shown)
