"""
Ask Paddle for its events: ``GET /events``, 90 days back, newest first by their ids, which have their times in them.

It lists what happened, whether or not a destination was told of it; an event has no ``notification_id`` there, since
that names a delivery.

Source: developer.paddle.com/api-reference/events/list-events, developer.paddle.com/api-reference/about/pagination,
developer.paddle.com/changelog/2024/event-notification-retention-changes.
"""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from webhook_inbox.sources.listing import (
    SECONDS_A_DAY,
    Asked,
    Misread,
    Page,
    Request,
    Response,
    decoded,
    reached,
)
from webhook_inbox.sources.listing_events import EventListing, after_the_last

PAGE_EVENTS = 200


class _Pagination(msgspec.Struct):
    has_more: bool


class _Meta(msgspec.Struct):
    pagination: _Pagination


class _List(msgspec.Struct):
    data: list[msgspec.Raw]
    meta: _Meta


_LIST = msgspec.json.Decoder(_List)


class PaddleListing(EventListing):
    """Ask for the events of the account whose key it is; the arguments are those of ``EventListing``."""

    window_seconds = 90 * SECONDS_A_DAY

    def page(self, asked: Asked, cursor: str) -> Request:
        """Ask for the newest events, or for those that come after the event *cursor*."""
        after = f"&after={quote(cursor, safe='')}" if cursor else ""
        headers = (("authorization", f"Bearer {asked.key}"), ("paddle-version", "1"))
        return Request(
            url=f"{self.base}/events?per_page={PAGE_EVENTS}&order_by=id%5BDESC%5D{after}", headers=headers
        )

    def read(self, asked: Asked, response: Response) -> Page | Misread:
        """Take the events as they are; go on as long as any of a page is of ``asked.since`` or later."""
        found = decoded(_LIST, response.body, what="list of events")
        if isinstance(found, Misread):
            return found
        listed = tuple(self.listed(bytes(each)) for each in found.data)
        if not found.meta.pagination.has_more or (listed and reached(listed, asked)):
            return Page(listed=listed)
        return after_the_last(listed)
