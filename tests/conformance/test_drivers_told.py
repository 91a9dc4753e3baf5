"""What a handler did wrong is told with the user's own line and the remedy, on every driver, and never in its words."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeAlias

import psycopg
import pytest

from tests.fixtures.arrivals import item, recording
from tests.fixtures.drivers import Bench, Script
from tests.fixtures.worlds import DATABASE_ERRORS, say, scalar
from webhook_inbox.errors import HandlerError
from webhook_inbox.model.failure import Failure, describe
from webhook_inbox.protocol.record import record_one

Steps: TypeAlias = Generator[Any, Any, None]
EFFECT = "INSERT INTO effect VALUES (1)"
SECRET = "4242 4242 4242 4242"
#: Who plays the user here: the handler, what it calls, and who runs the plan.
USERS = {"test_drivers_told.py", "worlds.py", "drivers.py", "benches.py"}
REMEDY = "Leave COMMIT and ROLLBACK to webhook-inbox"


def commits(tx: Any, event: Any) -> Steps:
    """Commit, as most libraries' examples do."""
    yield say(tx.conn, EFFECT)
    yield say(tx.conn, "COMMIT")


def rolls_back(tx: Any, event: Any) -> Steps:
    """Roll back, and return."""
    yield say(tx.conn, "ROLLBACK")


def swallows(tx: Any, event: Any) -> Steps:
    """Leave the transaction aborted."""
    with suppress(*DATABASE_ERRORS):
        yield say(tx.conn, f"SELECT '{SECRET}'::integer")


def goes_on(tx: Any, event: Any) -> Steps:
    """Go on in an aborted transaction."""
    yield from swallows(tx, event)
    yield say(tx.conn, EFFECT)


def fails(tx: Any, event: Any) -> Steps:
    """Meet an error of the database's that quotes a value."""
    yield say(tx.conn, f"SELECT '{SECRET}'::integer")


def reads_later(tx: Any, event: Any) -> Steps:
    """Fail, and read something that is in order."""
    yield from fails(tx, event)
    yield scalar(tx.conn, "SELECT 1")


def told(bench: Bench, script: Script, *, pipeline: bool = False) -> Failure:
    """What is kept of the failure of the handler that does what *script* says."""
    handler = replace(bench.handler(script), pipeline=pipeline)
    with pytest.raises(HandlerError) as caught:
        bench.run(lambda: record_one(item(handler), recording()))
    return describe(caught.value)


@pytest.mark.parametrize("crime", [commits, rolls_back, swallows, goes_on])
def test_who_ends_the_transaction_is_told_what_to_do(
    bench: Bench, effects: psycopg.Connection[Any], crime: Script
) -> None:
    """P-QUIET: the sentence is ours and names handler and remedy; not one frame is, nor one word of the server's."""
    failure = told(bench, crime)
    assert failure.text.startswith("tests.handler ")
    assert REMEDY in failure.text
    assert failure.text in str(failure)
    assert SECRET not in str(failure)
    assert {frame.partition(":")[0] for frame in failure.frames} <= USERS


def test_the_place_is_the_line_that_committed(bench: Bench, effects: psycopg.Connection[Any]) -> None:
    """The last frame is the user's own, however deep in a library or in here the COMMIT was refused."""
    place, _, function = told(bench, commits).frames[-1].partition(" ")
    assert place.partition(":")[0] in USERS
    assert function in {"say", "_say_async", "commits", "run_script_async"}


def test_what_others_say_is_withheld(bench: Bench, effects: psycopg.Connection[Any]) -> None:
    """P-QUIET: an error of the database's is told by its type, SQLSTATE and line; its text quotes the value."""
    failure = told(bench, fails)
    assert (failure.sqlstate, failure.text) == ("22P02", "")
    assert SECRET not in repr(failure)


@pytest.mark.parametrize("script", [fails, reads_later])
def test_the_error_of_a_pipelined_handler_is_told_to_be_late(
    bench: Bench, effects: psycopg.Connection[Any], script: Script
) -> None:
    """It rises at a later statement, or once the function has returned; a driver that waits for each knows the line."""
    failure = told(bench, script, pipeline=True)
    assert failure.sqlstate == "22P02"
    assert SECRET not in repr(failure)
    assert ("run it with pipeline=False" in failure.text) is bench.label.startswith("psycopg")
