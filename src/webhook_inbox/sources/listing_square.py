"""
Ask Square for its events: ``POST /v2/events``, a search that only reads, 28 days back, newest first.

It lists the events of every merchant that had authorized the application when they happened, once ``PUT
/v2/events/enable`` has been called; what happened before is not listed.

Source: developer.squareup.com/reference/square/events-api/search-events,
developer.squareup.com/docs/events-api/overview; the filter and the order as in squareup 46.0.0.
"""

from __future__ import annotations

import json

import msgspec

from webhook_inbox.sources.listing import SECONDS_A_DAY, Asked, Misread, Page, Request, Response, decoded
from webhook_inbox.sources.listing_events import EventListing, written

PAGE_EVENTS = 100


class _List(msgspec.Struct):
    events: list[msgspec.Raw] = []
    cursor: str = ""


_LIST = msgspec.json.Decoder(_List)


class SquareListing(EventListing):
    """Ask for the events of the application whose token it is; the arguments are those of ``EventListing``."""

    window_seconds = 28 * SECONDS_A_DAY

    def page(self, asked: Asked, cursor: str) -> Request:
        """Ask for the newest events, or with the same query for those at Square's own *cursor*."""
        created = {"start_at": written(asked.since), "end_at": written(asked.until)}
        sort = {"field": "DEFAULT", "order": "DESC"}
        wanted = {"limit": PAGE_EVENTS, "query": {"filter": {"created_at": created}, "sort": sort}}
        return Request(
            url=f"{self.base}/v2/events",
            headers=(("authorization", f"Bearer {asked.key}"), ("content-type", "application/json")),
            body=json.dumps(wanted | ({"cursor": cursor} if cursor else {})).encode(),
        )

    def read(self, asked: Asked, response: Response) -> Page | Misread:  # noqa: ARG002 - the query has said it
        """Take the events as they are."""
        found = decoded(_LIST, response.body, what="list of events")
        if isinstance(found, Misread):
            return found
        return Page(listed=tuple(self.listed(bytes(each)) for each in found.events), following=found.cursor)
