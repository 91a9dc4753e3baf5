"""
Ask PayPal for its events: ``GET /v1/notifications/webhooks-events``, with a token that it gives for the app's secret.

How far back it reaches is not confirmed, and a week is asked for: more than twice as long as a delivery is tried. Of
the next page PayPal gives the address, of which the query alone is used.

Source: docs.paypal.ai/reference/api/rest/webhooks-events/list-event-notifications;
developer.paypal.com/api/rest/authentication.
"""

from __future__ import annotations

import base64
from urllib.parse import urlencode

import msgspec

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.sources.listing import SECONDS_A_DAY, Asked, Misread, Page, Request, Response, decoded
from webhook_inbox.sources.listing_events import EventListing, query_of, written

PAGE_EVENTS = 100


class _Token(msgspec.Struct):
    access_token: str


class _Link(msgspec.Struct):
    href: str = ""
    rel: str = ""


class _List(msgspec.Struct):
    events: list[msgspec.Raw] = []
    links: list[_Link] = []


_TOKEN = msgspec.json.Decoder(_Token)
_LIST = msgspec.json.Decoder(_List)


class PayPalListing(EventListing):
    """
    Ask for the events of one app.

    Args:
        api_key, api_base, setting, identify: As for ``EventListing``; the key is ``CLIENT_ID:SECRET``.

    Raises:
        ConfigurationError: As ``Listing``, or the key is not two parts.
    """

    window_seconds = 7 * SECONDS_A_DAY

    def checked_key(self, given: object) -> str:
        """Refuse what is not both parts of the app's credentials."""
        key = super().checked_key(given)
        if not all(key.partition(":")):
            raise ConfigurationError(f"{self._setting}(api_key=...) must be CLIENT_ID:SECRET of the app")
        return key

    def sign_in(self, key: str) -> Request:
        """Ask for a token with the app's credentials."""
        basic = base64.b64encode(key.encode()).decode()
        form = ("content-type", "application/x-www-form-urlencoded")
        return Request(
            url=f"{self.base}/v1/oauth2/token",
            headers=(("authorization", f"Basic {basic}"), form),
            body=b"grant_type=client_credentials",
        )

    def token(self, response: Response) -> str | Misread:
        """Take the token, if it is one that a header can carry."""
        found = decoded(_TOKEN, response.body, what="token")
        if isinstance(found, Misread):
            return found
        token = found.access_token
        return (
            token if token.isascii() and token.isprintable() and token else Misread("the answer is no token")
        )

    def page(self, asked: Asked, cursor: str) -> Request:
        """Ask for the newest events, or by the query that the page before has given for the next one."""
        span = {"start_time": written(asked.since), "end_time": written(asked.until)}
        query = cursor or urlencode({"page_size": PAGE_EVENTS, **span})
        headers = (("authorization", f"Bearer {asked.key}"), ("content-type", "application/json"))
        return Request(url=f"{self.base}/v1/notifications/webhooks-events?{query}", headers=headers)

    def read(self, asked: Asked, response: Response) -> Page | Misread:  # noqa: ARG002 - the query has said it
        """Take the events as they are."""
        found = decoded(_LIST, response.body, what="list of events")
        if isinstance(found, Misread):
            return found
        listed = tuple(self.listed(bytes(each)) for each in found.events)
        following = query_of(next((link.href for link in found.links if link.rel == "next"), ""))
        return following if isinstance(following, Misread) else Page(listed=listed, following=following)
