"""What a worker asks for: as much as there are places for, and not past what was settled long ago every time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.fixtures.arrivals import key
from webhook_inbox.model.claim import Claim, Token, WorkerId
from webhook_inbox.model.event import Event
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.settings import Settings
from webhook_inbox.model.states import Origin
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.runtime.appetite import EVERYTHING_SECONDS, Appetite
from webhook_inbox.runtime.pace import FAST_PLACES, FAST_SECONDS, SHARED_SECONDS, Pace
from webhook_inbox.runtime.places import Places
from webhook_inbox.sources import Stripe

PLACES = 8
SETTINGS = Settings(batch_events_max=20)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that the appetite sees; its only element may be changed."""
    now = [100.0]
    monkeypatch.setattr("webhook_inbox.runtime.appetite.time.monotonic", lambda: now[0])
    return now


def endpoint(name: str = "billing", **given: Any) -> EndpointPlan:
    """An endpoint with a queue."""
    return EndpointPlan(
        name=name, source=Stripe(secrets="whsec_not_a_secret"), mode="queued", settings=SETTINGS, **given
    )


def room(connections_max: int) -> tuple[Places, Pace]:
    """Places for that many connections, where nothing is known of any endpoint."""
    pace = Pace()
    return Places(connections_max, pace), pace


def claim(due_at: int, of: str = "billing") -> Claim:
    """A claim of an event that was due at that time."""
    event_key = key(endpoint=of)
    event = Event(
        provider=event_key.provider,
        endpoint=of,
        id=event_key.event_id,
        type="invoice.paid",
        account="",
        environment="test",
        body=b"{}",
        headers=Headers(),
        created_at=None,
        received_at=None,
        attempt=1,
        origin=Origin.DELIVERY,
    )
    return Claim(
        id=1,
        token=Token(1),
        worker_id=WorkerId(1),
        event=event,
        crashes=0,
        solitary=False,
        order_key=None,
        due_at=due_at,
    )


def test_an_endpoint_that_gave_something_is_asked_for_as_much_as_there_are_places_for() -> None:
    """The first time, and after nothing came, for one transaction's worth."""
    appetite, plan = Appetite(*room(PLACES + 2)), endpoint()
    assert [each.limit for each in appetite.wanted([plan])] == [20]
    appetite.took([plan], [claim(5)])
    assert [each.limit for each in appetite.wanted([plan])] == [20 * PLACES]
    appetite.took([plan], [])
    assert [each.limit for each in appetite.wanted([plan])] == [20]


def test_fast_events_share_transactions_that_last_a_while() -> None:
    """As many as take that long together, within what the endpoint allows; few at once, asked for ahead."""
    places, pace = room(PLACES + 2)
    appetite, plan = Appetite(places, pace), endpoint()
    pace.ran(plan, 1, SHARED_SECONDS / 5.5)
    assert (pace.fast(plan), pace.events(plan), pace.places(plan)) == (True, 5, FAST_PLACES)
    appetite.took([plan], [claim(5)])
    for _ in range(FAST_PLACES):
        places.occupy(plan)
    assert [each.limit for each in appetite.wanted([plan])] == [5 * FAST_PLACES]
    pace.ran(plan, 1, 0.0)
    pace.ran(plan, 1_000_000, 0.0)
    for _ in range(100):
        pace.ran(plan, 10, 1e-9)
    assert pace.events(plan) == SETTINGS.batch_events_max


def test_an_endpoint_is_contended_while_much_of_it_is_left_for_locks() -> None:
    """A few that are left do not count; where most are, all wait for their turn, and later it is tried again."""
    _, pace = room(PLACES + 2)
    plan = endpoint()
    assert not pace.contended(plan)
    for _ in range(100):
        pace.ran(plan, 20, 0.01, busy=1)
    assert not pace.contended(plan)
    for _ in range(3):
        pace.ran(plan, 20, 0.01, busy=20)
    assert pace.contended(plan)
    for _ in range(10):
        pace.ran(plan, 20, 0.01)
    assert not pace.contended(plan)


def test_slow_events_run_alone_and_side_by_side() -> None:
    """Nothing is asked for before its place is free: it would wait here for long, and another worker could run it."""
    places, pace = room(PLACES + 2)
    appetite, plan = Appetite(places, pace), endpoint()
    pace.ran(plan, 1, SHARED_SECONDS)
    assert SHARED_SECONDS > FAST_SECONDS
    assert (pace.fast(plan), pace.events(plan), pace.places(plan)) == (False, 1, SETTINGS.concurrency_max)
    appetite.took([plan], [claim(5)])
    places.occupy(plan)
    assert [each.limit for each in appetite.wanted([plan])] == [PLACES - 1]


def test_a_backlog_is_walked_from_where_the_last_claim_ended(clock: list[float]) -> None:
    """And from its beginning once a second."""
    appetite, plan = Appetite(*room(PLACES)), endpoint()
    looks = [([each.due_since for each in appetite.wanted([plan])], appetite.asked_all)]
    appetite.took([plan], [claim(7), claim(9), claim(8)])
    looks.append(([each.due_since for each in appetite.wanted([plan])], appetite.asked_all))
    assert looks == [([None], True), ([9], False)]
    clock[0] += EVERYTHING_SECONDS
    assert [each.due_since for each in appetite.wanted([plan])] == [None]


def test_where_nothing_is_found_everything_is_asked_for_at_once(clock: list[float]) -> None:
    """So that a worker is idle, or ends, only after it has looked everywhere."""
    appetite, plan = Appetite(*room(PLACES)), endpoint()
    appetite.wanted([plan])
    appetite.took([plan], [claim(7)])
    narrow = appetite.wanted([plan])
    assert appetite.everything(narrow) == [replace(narrow[0], due_since=None)]
    assert appetite.asked_all
    assert appetite.everything([replace(narrow[0], due_since=None)]) == []
    assert clock == [100.0]


def test_an_endpoint_that_keeps_an_order_is_always_asked_for_everything(clock: list[float]) -> None:
    """An event that waited for its turn lies behind those of other keys."""
    appetite, plan = Appetite(*room(PLACES)), endpoint(order_by="data.object.id")
    appetite.wanted([plan])
    appetite.took([plan], [claim(7)])
    assert [each.due_since for each in appetite.wanted([plan])] == [None]
    assert clock == [100.0]


def test_each_endpoint_has_a_walk_of_its_own(clock: list[float]) -> None:
    """One's backlog says nothing about the other's."""
    appetite, plans = Appetite(*room(PLACES)), [endpoint(), endpoint("other")]
    appetite.wanted(plans)
    appetite.took(plans, [claim(7), claim(3, of="other")])
    assert {each.endpoint: each.due_since for each in appetite.wanted(plans)} == {"billing": 7, "other": 3}
    assert clock == [100.0]
