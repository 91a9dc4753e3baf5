"""The providers' own clients walk our stand-ins for their lists: what we ask of, they would be asked for too."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import stripe
from square import Square

from tests.fixtures.provider_apis import API_KEY, served
from tests.fixtures.provider_lists import SquareApi, ThinStripeApi


def test_stripe_s_client_pages_through_the_thin_events() -> None:
    """It asks with the version that we ask with, and goes on at the address that stands in the page."""
    with served(api := ThinStripeApi()):
        api.page_max = 3
        ids = {api.add(f"evt_{number}", ago=60 + number)["id"] for number in range(8)}
        client = stripe.StripeClient(API_KEY, base_addresses={"api": api.url})
        since = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        page = client.v2.core.events.list(params={"limit": 100, "created": {"gte": since}})
        assert [each.id for each in page.auto_paging_iter()] == sorted(ids)
        assert len(api.asked) == 3


def test_square_s_client_pages_through_its_events() -> None:
    """With the filter, the order and the cursor that we give."""
    with served(api := SquareApi()):
        api.page_max = 3
        ids = [api.add(f"evt_{number}", ago=60 + number)["event_id"] for number in range(5)]
        client = Square(token=API_KEY, base_url=api.url)
        now = datetime.now(UTC)
        span = {"start_at": (now - timedelta(hours=1)).isoformat(), "end_at": now.isoformat()}
        asked: Any = {"filter": {"created_at": span}, "sort": {"field": "DEFAULT", "order": "DESC"}}
        found: list[Any] = []
        cursor: str | None = None
        while cursor is not None or not found:
            page = client.events.search_events(cursor=cursor, limit=100, query=asked)
            found += [each.event_id for each in page.events or ()]
            cursor = page.cursor
        assert found == ids
