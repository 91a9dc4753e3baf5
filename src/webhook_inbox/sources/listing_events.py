"""Ask a provider whose list holds its events as it delivers them, in JSON: what most of them have in common."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from urllib.parse import urlsplit

from webhook_inbox.model.delivery import Delivery
from webhook_inbox.sources.listing import ApiKey, Listed, Listing, Misread, Page
from webhook_inbox.sources.source import Identity, Reading

Identify = Callable[[Delivery], tuple[Reading, ...]]
_JSON = (("content-type", "application/json"),)


class EventListing(Listing):
    """
    Take the events of a list as they are, byte for byte.

    Args:
        api_key, api_base, setting: As for ``Listing``.
        identify: The source's, so that the copy has the key of the delivery (P-DUP).
    """

    def __init__(self, api_key: ApiKey, *, api_base: str, setting: str, identify: Identify) -> None:
        super().__init__(api_key, api_base, setting=setting)
        self._identify = identify

    def listed(self, event: bytes, headers: tuple[tuple[str, str], ...] = ()) -> Listed:
        """Name *event*, with the headers that say more of it than its body does."""
        delivery = Delivery.now("POST", "", (*_JSON, *headers), event)
        (reading,) = self._identify(delivery)
        listed_at = reading.created_at if isinstance(reading, Identity) else None
        return Listed(reading=reading, listed_at=listed_at, delivery=delivery)


def after_the_last(listed: tuple[Listed, ...]) -> Page | Misread:
    """Give a page that another follows, where a list goes on after the id of an event."""
    last = listed[-1].reading if listed else None
    if not isinstance(last, Identity):
        return Misread("there is more, but the last event of the page has no id")
    return Page(listed=listed, following=last.event_id)


def query_of(address: str) -> str | Misread:
    """
    Give the query of the *address* of the next page, empty where that is.

    Where it points is not looked at: the key goes to the configured address alone (P-QUIET).
    """
    try:
        query = urlsplit(address).query
    except ValueError:
        return Misread("the next page has no address")
    fit = query.isascii() and query.isprintable() and " " not in query
    # An address without one would be the first page's, or the end of a list that goes on.
    return query if fit and bool(query) is bool(address) else Misread("the next page has no address")


def written(at: datetime) -> str:
    """Write an aware instant as these APIs take it: RFC 3339, UTC, whole seconds, rounded down."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
