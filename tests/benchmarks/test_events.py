"""The events that the benchmarks send are Stripe's in shape and signature, and each is an event of its own."""

from __future__ import annotations

import json
import time

import pytest
import stripe

from benchmarks.harness.events import SECRET, event_body, event_id, signature, sized_body

# The digits of some are those of another number in the body.
NUMBERS = [0, 7, 100_000, 899_999, 900_000, 1_000_000_000, 2_000_000_000, 10**23]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_body_carries_its_own_number_and_amount(number: int) -> None:
    """Whatever digits a number has, they change nothing else in the body."""
    event = json.loads(event_body(number))
    charge = event["data"]["object"]
    assert event["id"] == event_id(number)
    assert charge["id"] == event_id(number).replace("evt_", "ch_")
    assert charge["amount"] == charge["amount_captured"] == 100_000 + number % 900_000


def test_all_bodies_have_one_length_and_no_two_one_id() -> None:
    """Requests can be read by position, and no receiver meets a duplicate."""
    assert len({len(event_body(number)) for number in NUMBERS}) == 1
    assert len({json.loads(event_body(number))["id"] for number in NUMBERS}) == len(NUMBERS)


@pytest.mark.parametrize("size", [500, 1_000, 32_000])
def test_a_sized_body_has_the_size_asked_for(size: int) -> None:
    """The length is exact, and the body still names its event."""
    body = sized_body(100_000, size)
    assert len(body) == size
    assert json.loads(body)["id"] == event_id(100_000)


def test_the_signature_is_what_stripes_own_library_accepts() -> None:
    """Peers that verify with Stripe's library and we ourselves are sent the same, and it is right."""
    body = event_body(3)
    event = stripe.Webhook.construct_event(body, signature(body, int(time.time())).decode(), SECRET)
    assert event.id == event_id(3)
