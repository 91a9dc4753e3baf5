"""A claim says what its row says; and the places of a worker are shared so that nobody is starved."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from webhook_inbox.model.claim import Claim, Token, WorkerId
from webhook_inbox.model.event import Event
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.states import Origin
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.runtime.pace import Pace
from webhook_inbox.runtime.places import Part, Places


def claim(number: int, endpoint: str = "a") -> Claim:
    """A claim of an event."""
    event = Event(
        provider="p",
        endpoint=endpoint,
        id=f"evt_{number}",
        type="t",
        account="",
        environment="",
        body=b"",
        headers=Headers(()),
        created_at=None,
        received_at=datetime.now(UTC),
        attempt=1,
        origin=Origin.DELIVERY,
    )
    return Claim(
        id=number,
        token=Token(1),
        worker_id=WorkerId(1),
        event=event,
        crashes=0,
        solitary=False,
        order_key=None,
    )


def endpoint(name: str, concurrency_max: int = 100, batch_events_max: int = 50) -> EndpointPlan:
    """What the places ask of an endpoint."""
    settings = SimpleNamespace(concurrency_max=concurrency_max, batch_events_max=batch_events_max)
    return cast("EndpointPlan", SimpleNamespace(name=name, settings=settings))


def test_the_fence_names_this_very_claim() -> None:
    """P-FENCE: row, token and incarnation, all three."""
    assert claim(7).fence == {"id": 7, "token": 1, "worker_id": 1}


@pytest.mark.parametrize("connections_max", [1, 2, 3, 5, 10, 40])
@pytest.mark.parametrize("endpoints", [1, 2, 5, 12])
def test_no_history_of_runs_overfills_or_starves(connections_max: int, endpoints: int) -> None:
    """
    P-FLOW: whatever begins and ends in whatever order: never more run than there are places, no endpoint takes more
    than its share while there are enough for all, and everything that waits begins in the end.
    """
    chance = random.Random(connections_max * 100 + endpoints)
    places = Places(connections_max, Pace())
    room = max(1, connections_max - 2)
    plans = [endpoint(f"e{number}") for number in range(endpoints)]
    running: list[EndpointPlan] = []
    begun = 0
    for number in range(600):
        places.add(plans[0 if number % 3 else chance.randrange(endpoints)], [[claim(number)]])
        while (taken := places.take(plans)) is not None:
            running.append(taken[0])
            begun += 1
        counts = Counter(each.name for each in running)
        assert len(running) <= room
        if room >= endpoints:
            assert all(count <= room - (endpoints - 1) for count in counts.values())
        while running and chance.random() < 0.5:
            places.leave(running.pop(chance.randrange(len(running))))
    while running or not places.empty:
        while (taken := places.take(plans)) is not None:
            running.append(taken[0])
            begun += 1
        places.leave(running.pop())
    assert begun == 600


def test_an_endpoint_with_a_long_line_leaves_the_next_place_to_another() -> None:
    """P-FLOW: one place, one endpoint with a thousand waiting: another's first event begins soon."""
    places = Places(1, Pace())
    one, other = endpoint("one"), endpoint("other")
    places.add(one, [[claim(number)] for number in range(1000)])
    assert places.take([one, other]) is not None
    places.add(other, [[claim(2000, "other")]])
    turns: list[EndpointPlan] = []
    for _ in range(2):
        places.leave(one if not turns else turns[-1])
        taken = places.take([one, other])
        assert taken is not None
        turns.append(taken[0])
    assert other in turns


def test_what_is_cleared_is_given_and_begins_no_more() -> None:
    """P-COUNT: at the end every claim that waits is handed over, each once."""
    places = Places(10, Pace())
    plan = endpoint("a")
    claims = [claim(number) for number in range(9)]
    places.add(plan, [claims[:4], claims[4:8], claims[8:]])
    taken: Any = places.take([plan])
    assert taken[1].claims == claims[:4]
    assert places.clear() == claims[4:]
    assert places.empty
    assert places.take([plan]) is None


def test_what_was_left_goes_first_and_no_part_outgrows_its_most() -> None:
    """P-FLOW: each once, in parts that are as large as they may be; how often it was left goes along with it."""
    places = Places(10, Pace())
    plan = endpoint("a", batch_events_max=4)
    claims = [claim(number) for number in range(10)]
    places.add(plan, [claims[2:5], claims[5:9], claims[9:]])
    places.put_back(plan, claims[:2], 3)
    parts: list[Any] = [places.take([plan]) for _ in range(3)]
    assert [(taken[1].claims, taken[1].left) for taken in parts] == [
        (claims[:4], 3),
        (claims[4:8], 0),
        (claims[8:], 0),
    ]
    places.put_back(plan, claims[:1], 1)
    alone: Any = places.take([plan])
    assert (alone[1].claims, alone[1].left, places.empty) == (claims[:1], 1, True)


def test_a_part_is_patient_once_it_has_been_left_often_enough() -> None:
    """P-FLOW: or where the endpoint is contended, at once."""
    pace = Pace()
    places, plan = Places(10, pace), endpoint("a")
    assert [places.patient(plan, Part([claim(1)], left)) for left in range(7)] == [False] * 5 + [True] * 2
    for _ in range(5):
        pace.ran(plan, 2, 0.01, busy=2)
    assert places.patient(plan, Part([claim(1)]))


def test_concurrency_max_bounds_the_places_of_an_endpoint() -> None:
    """P-FLOW: no more than it was given, though all others are idle."""
    places = Places(22, Pace())
    plan = endpoint("a", concurrency_max=3)
    places.add(plan, [[claim(number)] for number in range(9)])
    taken = [places.take([plan]) for _ in range(4)]
    assert [each is not None for each in taken] == [True, True, True, False]
