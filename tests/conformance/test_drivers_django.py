"""Django's own account of a transaction holds: its hooks, its blocks, its connections, its TestCase."""

from __future__ import annotations

import io
import logging
import threading
import unittest
from collections.abc import Generator, Iterator
from functools import partial
from typing import Any, TypeAlias

import psycopg
import pytest
from django.db import connections, models, transaction
from django.test import TestCase

from tests.conformance.conftest import OpenBench
from tests.conformance.test_drivers_commit import committed, serves_on
from tests.fixtures.arrivals import item, recording
from tests.fixtures.benches import DjangoBench, DjangoThreadsBench, django_alias, forget_alias, set_django_up
from tests.fixtures.drivers import Script, statement
from tests.fixtures.worlds import say
from webhook_inbox import Django
from webhook_inbox.drivers.django_world import DjangoLender
from webhook_inbox.drivers.lending import ThreadDriver
from webhook_inbox.errors import ConfigurationError, HandlerFailedError
from webhook_inbox.model.failure import describe
from webhook_inbox.model.settings import Settings
from webhook_inbox.model.states import Outcome
from webhook_inbox.protocol.record import record_batch, record_one
from webhook_inbox.protocol.steps import Begin, Commit, Plan

Steps: TypeAlias = Generator[Any, Any, None]
ON_DJANGO = pytest.mark.parametrize(
    "open_bench", [DjangoBench, DjangoThreadsBench], ids=lambda driver: driver.label, indirect=True
)
ON_THREADS = pytest.mark.parametrize(
    "open_bench", [DjangoThreadsBench], ids=["django-threads"], indirect=True
)


set_django_up()


class Once(models.Model):  # type: ignore[misc]  # noqa: DJ008 - nobody prints it
    """A row of ``once``."""

    n = models.IntegerField(primary_key=True)

    class Meta:
        """Where it is."""

        app_label = "tests"
        db_table = "once"
        managed = False


@ON_DJANGO
def test_the_orm_writes_in_the_events_transaction(bench: Any, effects: psycopg.Connection[Any]) -> None:
    """P-ONCE: objects, queries and blocks of Django's commit with the event; what fails is shown by its constraint."""

    def script(tx: Any, event: Any) -> Steps:
        assert tx.conn is connections[bench.alias]
        yield Once.objects.using(bench.alias).create(n=471100)
        with transaction.atomic(using=bench.alias):
            Once.objects.using(bench.alias).create(n=2)
        assert Once.objects.using(bench.alias).count() == 2

    bench.run(lambda: record_one(item(bench.handler(script)), recording()))
    assert effects.execute("SELECT count(*) FROM once").fetchone() == (2,)
    with pytest.raises(HandlerFailedError) as caught:
        bench.run(lambda: record_one(item(bench.handler(script), event_id="evt_2"), recording()))
    shown = describe(caught.value)
    assert (shown.type, shown.sqlstate, shown.constraint) == (
        "django.db.utils.IntegrityError",
        "23505",
        "once_pkey",
    )
    assert "471100" not in str(shown)
    assert committed(effects)["inbox"] == 1


def hooking(told: list[Any], name: str, *, fails: bool = False) -> Script:
    """A handler that gives Django a hook; *fails*: and raises."""

    def script(tx: Any, event: Any) -> Steps:
        yield say(tx.conn, "INSERT INTO effect VALUES (1)")
        alias = tx.conn.alias
        transaction.on_commit(lambda: told.append((name, connections[alias].in_atomic_block)), using=alias)
        if fails:
            raise ValueError

    return script


@ON_DJANGO
def test_a_hook_runs_once_after_the_commit_of_its_own_event(
    bench: Any, effects: psycopg.Connection[Any]
) -> None:
    """P-FLOW: in autocommit, as Django promises; never that of an event that failed, even where its mates commit."""
    told: list[Any] = []
    good = item(bench.handler(hooking(told, "good")))
    bad = item(bench.handler(hooking(told, "bad", fails=True)), event_id="evt_2")
    also = item(bench.handler(hooking(told, "also")), event_id="evt_3")
    with pytest.raises(HandlerFailedError):
        bench.run(lambda: record_one(bad, recording()))
    assert told == []
    results = bench.run(lambda: record_batch([good, bad, also], recording()))
    assert [result.outcome for result in results] == [Outcome.PROCESSED, Outcome.QUEUED, Outcome.PROCESSED]
    assert told == [("good", False), ("also", False)]
    serves_on(bench, effects)
    assert len(told) == 2


@ON_DJANGO
def test_a_hook_that_fails_is_told_of_and_changes_nothing(
    bench: Any, effects: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """P-ACK, P-QUIET: what is committed is acknowledged; the other hooks run; the exception's text is not logged."""
    told: list[Any] = []

    def fails() -> None:
        raise ValueError("not for the log")

    def script(tx: Any, event: Any) -> Steps:
        transaction.on_commit(fails, using=tx.conn.alias)
        yield from hooking(told, "after")(tx, event)

    with caplog.at_level(logging.ERROR, "webhook_inbox"):
        result = bench.run(lambda: record_one(item(bench.handler(script)), recording()))
    assert (result.outcome, told) == (Outcome.PROCESSED, [("after", False)])
    (record,) = [record for record in caplog.records if record.name == "webhook_inbox"]
    assert getattr(record, "event", None) == "commit_hook_failed"
    assert "not for the log" not in caplog.text
    assert "fails" in record.getMessage()


@ON_DJANGO
def test_within_a_transaction_of_djangos_own_it_refuses(bench: Any, effects: psycopg.Connection[Any]) -> None:
    """P-ONCE: under ATOMIC_REQUESTS nothing that is committed here would be; the error says how to exempt the view."""
    with (
        transaction.atomic(using=bench.alias),
        pytest.raises(ConfigurationError, match="non_atomic_requests"),
    ):
        bench.run(lambda: record_one(item(), recording()))
    serves_on(bench, effects)


@ON_THREADS
def test_autocommit_off_is_refused(open_bench: OpenBench, database: str) -> None:
    """A project that switches Django's autocommit off has a transaction open whenever it likes."""
    bench: Any = open_bench(database)
    connections.databases[bench.alias]["AUTOCOMMIT"] = False
    with pytest.raises(ConfigurationError, match="AUTOCOMMIT"):
        bench.run(lambda: record_one(item(), recording()))


@ON_THREADS
def test_a_plan_runs_in_read_committed_whatever_djangos_level_is(
    open_bench: OpenBench, database: str
) -> None:
    """The connection is Django's again afterwards: its level, and autocommit."""
    level = psycopg.IsolationLevel.SERIALIZABLE
    bench: Any = open_bench(database, pool={"isolation_level": level})
    shown = "SELECT current_setting('transaction_isolation')"

    def plan() -> Plan[str]:
        row = yield Begin(statement(shown))
        yield Commit()
        return str(row[0])

    connection = connections[bench.alias]
    connection.ensure_connection()
    for _ in range(2):
        assert bench.run(plan) == "read committed"
        assert connection.get_autocommit()
        with transaction.atomic(using=bench.alias), connection.cursor() as cursor:
            cursor.execute(shown)
            assert cursor.fetchone() == ("serializable",)


@ON_THREADS
@pytest.mark.parametrize(("age", "stays"), [(0, False), (None, True), (60, True)])
def test_a_connection_lives_as_long_as_conn_max_age_says(
    open_bench: OpenBench, database: str, effects: psycopg.Connection[Any], age: int | None, stays: bool
) -> None:
    """On a thread of our own nobody ends a request; where Django had a connection open before, it still is."""
    bench: Any = open_bench(database)
    connections.databases[bench.alias]["CONN_MAX_AGE"] = age
    found: list[Any] = []

    def run() -> None:
        bench.run(lambda: record_one(item(bench.handler(hooking([], "none"))), recording()))
        found.append(connections[bench.alias].connection is not None)
        connections[bench.alias].close_at = 0.0  # its time has come
        bench.run(lambda: record_one(item(), recording()))
        found.append(connections[bench.alias].connection is not None)
        connections[bench.alias].ensure_connection()
        connections[bench.alias].close_at = 0.0
        bench.run(lambda: record_one(item(), recording()))
        found.append(connections[bench.alias].connection is not None)
        connections[bench.alias].close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    assert found == [stays, False, True]


@pytest.fixture
def within_testcase(database: str, effects: psycopg.Connection[Any]) -> Iterator[Any]:
    """Runs a function as the test of a ``django.test.TestCase``, and gives its result."""
    alias = django_alias(database)

    def run(test: Any) -> unittest.TestResult:
        case = type("Case", (TestCase,), {"databases": {alias}, "test": lambda self: test()})
        suite = unittest.defaultTestLoader.loadTestsFromTestCase(case)
        return unittest.TextTestRunner(io.StringIO()).run(suite)

    driver = ThreadDriver(DjangoLender(Django(alias, testcase=True), settings=Settings()))
    yield run, driver, alias
    forget_alias(alias)


def test_in_a_testcase_events_are_savepoints_of_its_transaction(
    within_testcase: Any, effects: psycopg.Connection[Any]
) -> None:
    """Processed, duplicate and failed as ever, seen by the test alone; nothing is left when it ends."""
    run, driver, alias = within_testcase
    told: list[Any] = []

    def test() -> None:
        handler = partial(_handler, hooking(told, "hook"))
        with TestCase.captureOnCommitCallbacks(using=alias, execute=True):
            assert driver.run(lambda: record_one(item(handler()), recording())).outcome is Outcome.PROCESSED
            assert told == []
        assert len(told) == 1
        assert driver.run(lambda: record_one(item(handler()), recording())).outcome is Outcome.DUPLICATE
        bad = item(_handler(hooking(told, "bad", fails=True)), event_id="evt_2")
        with pytest.raises(HandlerFailedError):
            driver.run(lambda: record_one(bad, recording()))
        good = item(handler(), event_id="evt_3")
        results = driver.run(lambda: record_batch([bad, good], recording()))
        assert [result.outcome for result in results] == [Outcome.QUEUED, Outcome.PROCESSED]
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT (SELECT count(*) FROM effect), (SELECT count(*) FROM webhooks.inbox)")
            assert cursor.fetchone() == (2, 3)
        assert committed(effects) == {"effect": 0, "inbox": 0, "bodies": 0}

    result = run(test)
    assert result.wasSuccessful(), [*result.errors, *result.failures]
    assert committed(effects) == {"effect": 0, "inbox": 0, "bodies": 0}


def _handler(script: Script) -> Any:
    return DjangoThreadsBench.handler(DjangoThreadsBench.__new__(DjangoThreadsBench), script)


def test_the_mode_for_a_testcase_refuses_to_run_outside_of_one(
    within_testcase: Any, effects: psycopg.Connection[Any]
) -> None:
    """What is left switched on in production commits nothing and says so."""
    _, driver, _ = within_testcase
    with pytest.raises(ConfigurationError, match="testcase=True"):
        driver.run(lambda: record_one(item(), recording()))
    assert committed(effects) == {"effect": 0, "inbox": 0, "bodies": 0}
