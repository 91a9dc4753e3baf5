"""The fixtures that users get: a database for each test, and a tester of their inbox; nothing where nobody asks."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.fixtures.postgres import PostgresServer
from webhook_inbox.testing.plugin import DSN_VARIABLE

pytest_plugins = ["pytester"]

CONFTEST = """
from __future__ import annotations
import pytest
from webhook_inbox import Inbox
from webhook_inbox.sources import Stripe

@pytest.fixture(scope="session")
def webhook_inbox_tables():
    return "CREATE TABLE effects (event_id text PRIMARY KEY)"

@pytest.fixture
def inbox(webhook_inbox_database):
    inbox = Inbox(webhook_inbox_database)
    billing = inbox.endpoint("billing", Stripe(secrets="whsec_fake_plugin"), mode="inline")

    @billing.on("invoice.paid")
    def book(tx, event):
        tx.conn.execute("INSERT INTO effects VALUES (%s)", [event.id])

    return inbox
"""
TESTS = """
import psycopg, pytest
PAID = {"id": "evt_1", "type": "invoice.paid"}

@pytest.mark.parametrize("n", range(3))
def test_each_has_its_own(inbox_tester, webhook_inbox_database, n):
    assert inbox_tester.deliver("billing", PAID).outcome == "processed"
    with psycopg.connect(webhook_inbox_database) as connection:
        assert connection.execute("SELECT * FROM effects").fetchall() == [("evt_1",)]
"""


@pytest.fixture
def run(
    pytester: pytest.Pytester, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., pytest.RunResult]:
    """Run a suite of a user's, in a process of its own, on the run's server."""
    monkeypatch.setenv(DSN_VARIABLE, postgres.dsn)
    return lambda *arguments: pytester.runpytest_subprocess(
        "-p", "no:randomly", "-p", "no:cacheprovider", *arguments, timeout=60
    )


def databases(postgres: PostgresServer) -> set[str]:
    """The names of the databases that are there."""
    return {name for (name,) in postgres.admin.execute("SELECT datname FROM pg_database").fetchall()}


def test_misuse_shows_the_tests_own_line_alone(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult]
) -> None:
    """None of the kit's frames, and none of the event loop's: the sentence stands under the line that is wrong."""
    pytester.makeconftest(CONFTEST)
    file = pytester.makepyfile(
        """
        def test_endpoint(inbox_tester):
            inbox_tester.deliver("biling", {"id": "evt_1"})

        def test_event(inbox_tester):
            inbox_tester.event("evt_1")
        """
    )
    done = run()
    done.assert_outcomes(failed=2)
    done.stdout.fnmatch_lines(
        ["E * the inbox has no endpoint 'biling'; there is billing", "E * 0 events 'evt_1' *"]
    )
    places = [line for line in done.outlines if re.match(r"\S+\.py:\d+: ", line)]
    assert [place.split(":")[0] for place in places] == [file.name] * 2


def test_each_test_has_a_database_of_its_own_and_leaves_none(
    pytester: pytest.Pytester, postgres: PostgresServer, run: Callable[..., pytest.RunResult]
) -> None:
    """With our schema and the user's tables in it; dropped at the end, the template too."""
    before = databases(postgres)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    run().assert_outcomes(passed=3)
    assert databases(postgres) == before


def test_tables_may_be_made_by_a_function_in_a_schema_of_another_name(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult]
) -> None:
    """For whoever has Alembic, or an inbox elsewhere."""
    conftest = CONFTEST.replace(
        'return "CREATE TABLE effects (event_id text PRIMARY KEY)"', "return make_tables"
    ).replace("Inbox(webhook_inbox_database)", 'Inbox(webhook_inbox_database, schema="elsewhere")')
    pytester.makeconftest(
        conftest
        + """
def make_tables(dsn):
    import psycopg
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE effects (event_id text PRIMARY KEY)")

@pytest.fixture(scope="session")
def webhook_inbox_schema():
    return "elsewhere"
"""
    )
    pytester.makepyfile(TESTS)
    run().assert_outcomes(passed=3)


def test_what_a_handler_raised_is_shown_where_the_test_fails(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult]
) -> None:
    """The receipt says only that it failed: a sender learns nothing of the exception, the developer all of it."""
    pytester.makeconftest(CONFTEST.replace("INSERT INTO effects", "INSERT INTO ledger"))
    pytester.makepyfile(TESTS.replace("range(3)", "range(1)"))
    result = run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(['*relation "ledger" does not exist*'])


def test_whoever_has_no_inbox_is_told_to_give_one(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult]
) -> None:
    """The fixture that is missing is the user's."""
    pytester.makepyfile("def test_it(inbox_tester): pass")
    result = run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*fixture named inbox gives: define one*"])


def test_a_suite_that_asks_for_nothing_pays_for_nothing(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plugin is loaded in every run of everybody's pytest: no driver, no server, no source."""
    monkeypatch.setenv(DSN_VARIABLE, "postgresql://nobody@127.0.0.1:1/nowhere")
    pytester.makepyfile(
        """
import sys

def test_it(pytestconfig):
    assert pytestconfig.pluginmanager.hasplugin("webhook_inbox")
    ours = {name for name in sys.modules if name.startswith("webhook_inbox")}
    assert ours == {
        "webhook_inbox", "webhook_inbox._version", "webhook_inbox.testing", "webhook_inbox.testing.plugin"
    }
    assert "psycopg" not in sys.modules
"""
    )
    run().assert_outcomes(passed=1)


def test_a_server_is_brought_where_none_is_named(
    pytester: pytest.Pytester,
    run: Callable[..., pytest.RunResult],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A newcomer needs no PostgreSQL, and sets nothing."""
    monkeypatch.delenv(DSN_VARIABLE)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    run().assert_outcomes(passed=3)
