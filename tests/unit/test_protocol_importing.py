"""An import takes what its source could name, and remembers nothing of what is committed."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from webhook_inbox.model.processed_before import ProcessedBefore
from webhook_inbox.model.settings import Settings
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.importing import BATCH_EVENTS, Imported, import_events, unfit
from webhook_inbox.protocol.operate import Operator
from webhook_inbox.protocol.steps import All, One, Plan, parts
from webhook_inbox.sources import Adyen, GitHub, Hmac, Slack, Source, StandardWebhooks, Stripe
from webhook_inbox.sql.migrations import migrations

GITHUB = GitHub("fake")
GUID = "72d3162e-cc78-11e3-81ab-4c9367dc0958"
STANDARD = StandardWebhooks("whsec_ZmFrZWZha2VmYWtlZmFrZWZha2VmYWtl")
OWN = Hmac("own", secrets="fake", header="x-own")
STRIPE = Stripe("whsec_fake")
BATCHES = 40
ANSWERS: dict[str, Any] = {
    "migrations_exist": (True,),
    "migrations_applied": [(step.version, step.name, step.serves_from) for step in migrations("webhooks")],
    "import_events": (BATCH_EVENTS,),
    "find_known": [("?", "processed")] * BATCH_EVENTS,
}


@pytest.mark.parametrize(
    ("source", "event_id", "given", "reason"),
    [
        (GITHUB, GUID, {"account": "acme"}, "an account, which no event's key at github has"),
        (GITHUB, GUID, {"environment": "live"}, "an environment, which no event's key at github has"),
        (STANDARD, "msg_1", {"account": "a"}, "an account, which no event's key at standard-webhooks has"),
        (OWN, "1", {"account": "a"}, "an account, which no event's key at own has"),
        (Slack("0" * 32), "Ev1", {"account": "T1"}, ""),
        (STRIPE, "evt_1", {"environment": "test"}, ""),
        (STRIPE, "evt_1", {"environment": "test", "account": "acct_1"}, ""),
        (Adyen("00" * 32), "1|AUTHORISATION|true", {"account": "Fake"}, ""),
        (Adyen("00" * 32), "sha256:0", {"environment": "live"}, ""),
    ],
)
def test_a_part_that_no_key_has_is_refused(
    source: Source, event_id: str, given: dict[str, Any], reason: str
) -> None:
    """Nothing would ever be a duplicate of such an event, and nobody would hear of it."""
    assert unfit(ProcessedBefore(event_id=event_id, **given), source) == reason


def driven(plan: Plan[Imported]) -> Iterator[int]:
    """Answer *plan* as a database does; the bytes in memory at each batch."""
    step = next(plan)
    while True:
        (part,) = parts(step)
        name = part.statement.name if isinstance(part, One | All) else ""
        if name == "find_known":
            yield tracemalloc.get_traced_memory()[0]
        try:
            step = plan.send(ANSWERS.get(name))
        except StopIteration:
            return


def test_an_import_takes_as_much_memory_for_many_as_for_few() -> None:
    """P-CALM: a file of any length may come through a pipe."""
    events = (
        ProcessedBefore(event_id=f"evt_{number}", environment="test")
        for number in range(BATCHES * BATCH_EVENTS)
    )
    shop = EndpointPlan(name="shop", source=STRIPE, mode="queued", settings=Settings())
    tracemalloc.start()
    try:
        sizes = list(driven(import_events(events, shop, Operator("ada"), "webhooks")))
    finally:
        tracemalloc.stop()
    assert len(sizes) == BATCHES
    assert max(sizes[5:]) - sizes[5] < 500_000
