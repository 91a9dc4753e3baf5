"""Hold the invariant of every drain: an effect that is missing, doubled or there in part makes its run no result."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeAlias

import psycopg
import pytest

from benchmarks.harness.errors import InvariantError
from benchmarks.harness.events import event_body
from benchmarks.harness.server import Database
from benchmarks.process.business import PERCENT, PERCENT_SET, TABLES, Booking, set_params
from benchmarks.process.drain import checked_rate

EVENTS = 5
Session: TypeAlias = psycopg.Connection[tuple[Any, ...]]
BOOKINGS = [Booking.of(json.loads(event_body(number))) for number in range(EVENTS)]


@pytest.fixture
def business(empty_database: str) -> Iterator[Session]:
    """Give a session in autocommit on a database that has the business's tables, and effects of all events but one."""
    with psycopg.connect(empty_database, autocommit=True) as session:
        session.execute(TABLES.encode())
        for booking in BOOKINGS[1:]:
            have_effect(session, booking)
        yield session


def have_effect(session: Session, booking: Booking) -> None:
    """Run the three statements as every handler does."""
    for statement, params in zip(PERCENT, booking.params, strict=True):
        session.execute(statement.encode(), params)


def test_each_effect_once_gives_a_rate(business: Session, empty_database: str) -> None:
    """Every event has its effect: the rate is that between the first and the last."""
    have_effect(business, BOOKINGS[0])
    row = business.execute("SELECT extract(epoch FROM max(at) - min(at))::float8 FROM ledger").fetchone()
    assert row is not None
    assert checked_rate(Database(empty_database), EVENTS) == pytest.approx((EVENTS - 1) / row[0])


def test_a_missing_effect_is_no_result(business: Session, empty_database: str) -> None:
    """One event has no effect."""
    with pytest.raises(InvariantError, match="5 events, 4 effects of 4 of them"):
        checked_rate(Database(empty_database), EVENTS)


def test_a_doubled_effect_is_no_result(business: Session, empty_database: str) -> None:
    """One event has none, another has two: the count alone would not tell."""
    have_effect(business, BOOKINGS[1])
    with pytest.raises(InvariantError, match="5 events, 5 effects of 4 of them"):
        checked_rate(Database(empty_database), EVENTS)


def test_an_effect_in_part_is_no_result(business: Session, empty_database: str) -> None:
    """A ledger entry without its message, as if the transaction had been torn."""
    for statement, params in list(zip(PERCENT, BOOKINGS[0].params, strict=True))[:2]:
        business.execute(statement.encode(), params)
    with pytest.raises(InvariantError, match="in part"):
        checked_rate(Database(empty_database), EVENTS)


def test_a_set_has_the_effects_of_its_events(business: Session, empty_database: str) -> None:
    """The set-based statements do for many events what the single ones do for each."""
    single = business.execute("SELECT * FROM accounts WHERE balance <> 0 ORDER BY id").fetchall()
    business.execute("UPDATE accounts SET balance = 0")
    business.execute("TRUNCATE ledger, messages")
    for statement, params in zip(PERCENT_SET, set_params(BOOKINGS[1:]), strict=True):
        business.execute(statement.encode(), params)
    assert business.execute("SELECT * FROM accounts WHERE balance <> 0 ORDER BY id").fetchall() == single
    assert checked_rate(Database(empty_database), EVENTS - 1) > 0
