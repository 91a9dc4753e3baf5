"""Whatever the inbox was given as its database, an operator sees the same events there, and does the same with them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial

import pytest

from tests.fixtures.databases import GIVEN, Given
from tests.fixtures.recorded import Recorded
from webhook_inbox import Inbox
from webhook_inbox.model.event_filter import EventFilter
from webhook_inbox.model.states import State
from webhook_inbox.protocol.endpoints import list_endpoints
from webhook_inbox.protocol.look import count_events, find_events, list_events, show_event
from webhook_inbox.protocol.operate import RETRY, Operated, Operator, operate
from webhook_inbox.protocol.prune import Pruned, Retention, prune
from webhook_inbox.protocol.reviews import list_reviews, resolve_reviews

DAY = 86_400
ADA = Operator("ada", "mended")
BODY = b"\x00\xff{}"


@pytest.mark.parametrize("given", GIVEN, ids=lambda given: given.label)
def test_operators_plans_mean_the_same_on_every_driver(given: Given, database: str) -> None:
    """Filters, pages, bytes, actions, reviews and retention."""
    recorded = Recorded(database)
    row = recorded.add("evt_1", "dead", body=BODY, ago=60, last_error="KeyError")
    recorded.add("evt_old", ago=50 * DAY)
    recorded.rows(
        "INSERT INTO webhooks.reviews (inbox_id, endpoint, event_id, summary, details) "
        "VALUES (%s, 'shop', 'e', 's', '[]')",
        row,
    )

    async def story() -> None:
        async with given.open(database) as handle:
            inbox = Inbox(handle)
            async with inbox.running():
                meant = EventFilter(
                    rows=(row, 99),
                    states=(State.DEAD,),
                    endpoint="shop",
                    event_type="invoice.*",
                    event_id="evt_1",
                    error="key",
                    since=timedelta(hours=1),
                    until=timedelta(0),
                    kept=True,
                )
                (found,) = await inbox.perform(partial(list_events, meant, limit=5))
                assert (found.event_id, found.state) == ("evt_1", State.DEAD)
                assert await inbox.perform(partial(count_events, meant)) == {State.DEAD: 1}
                assert await inbox.perform(partial(find_events, str(row))) == (found,)
                details = await inbox.perform(partial(show_event, found))
                assert details.body == BODY
                assert await inbox.perform(partial(operate, RETRY, meant, ADA)) == Operated(changed=1)
                assert (await inbox.perform(partial(show_event, found))).audit[0].actor == "ada"
                assert [each.name for each in await inbox.perform(list_endpoints)] == ["shop"]
                (review,) = await inbox.perform(list_reviews)
                assert await inbox.perform(partial(resolve_reviews, (review.id,), ADA)) == {review.id}
                kept = (Retention("shop", 10.0, 20.0),)
                assert await inbox.perform(partial(prune, kept, dry_run=True)) == Pruned(bodies=1, events=1)
                assert await inbox.perform(partial(prune, kept)) == Pruned(bodies=1, events=1)

    asyncio.run(story())
    assert recorded.states() == {"evt_1": "retrying"}
