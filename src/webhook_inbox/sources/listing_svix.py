"""
Ask Svix, as the sender who uses it, for the messages that one endpoint is to get: 90 days back, newest first.

``GET /api/v1/app/{app_id}/endpoint/{endpoint_id}/msg``. Svix keeps the key of it for the sender: a receiver has one
only where sender and receiver are of one house, or where Svix is run by the receiver's own people.

Source: api.svix.com/docs, "List Attempted Messages"; its parameters and answer as in svix 1.86.0.
"""

from __future__ import annotations

import re
from dataclasses import replace
from urllib.parse import urlencode

import msgspec

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.sources.identity import Places, name_event, time_of
from webhook_inbox.sources.listing import (
    SECONDS_A_DAY,
    ApiKey,
    Asked,
    Listed,
    Misread,
    Page,
    Request,
    Response,
    decoded,
)
from webhook_inbox.sources.listing_events import EventListing, Identify, written

PAGE_MESSAGES = 250
_HOOK = re.compile(r"app/([\w.-]+)/endpoint/([\w.-]+)", re.ASCII)
# What stands in place of a payload that is kept no more: in svix-webhooks, ``MessageOut::from_msg_and_payload``.
_EXPIRED = b'{"expired":true}'
_BLANKS = b" \t\r\n"


class _Message(msgspec.Struct):
    id: str
    timestamp: str
    eventType: str  # noqa: N815 - as Svix writes it
    payload: msgspec.Raw


class _List(msgspec.Struct):
    data: list[_Message]
    done: bool
    iterator: str | None = None


_LIST = msgspec.json.Decoder(_List)
_PLACES = Places(event_type="eventType")


class SvixListing(EventListing):
    """
    Ask for the messages of one endpoint.

    Args:
        api_key, api_base, identify: As for ``EventListing``; the base is that of the sender's region.
        hook: ``app/APP_ID/endpoint/ENDPOINT_ID``.
        type_header: In which header of a delivery the source finds the type; empty: it is in the payload.

    Raises:
        ConfigurationError: As ``Listing``, or the hook is none.
    """

    window_seconds = 90 * SECONDS_A_DAY

    def __init__(
        self, api_key: ApiKey, *, api_base: str, hook: str, identify: Identify, type_header: str = ""
    ) -> None:
        super().__init__(api_key, api_base=api_base, setting="StandardWebhooks", identify=identify)
        if not _HOOK.fullmatch(hook):
            raise ConfigurationError("StandardWebhooks(hook=...) must be app/APP_ID/endpoint/ENDPOINT_ID")
        self._messages = f"{self.base}/api/v1/{hook}/msg"
        self._type_header = type_header

    def page(self, asked: Asked, cursor: str) -> Request:
        """Ask for the newest messages, or for those at Svix's own iterator *cursor*."""
        query = {"limit": PAGE_MESSAGES, "with_content": "true", "after": written(asked.since)}
        if cursor:
            query["iterator"] = cursor
        headers = (("accept", "application/json"), ("authorization", f"Bearer {asked.key}"))
        return Request(url=f"{self._messages}?{urlencode(query)}", headers=headers)

    def read(self, asked: Asked, response: Response) -> Page | Misread:  # noqa: ARG002 - the query has said it
        """Take the payloads as they are, under the id that is the header ``webhook-id`` of each delivery."""
        found = decoded(_LIST, response.body, what="list of messages")
        if isinstance(found, Misread):
            return found
        following = "" if found.done else found.iterator
        if following is None:
            return Misread("there is more, but nothing says where")
        return Page(listed=tuple(map(self._message, found.data)), following=following)

    def _message(self, message: _Message) -> Listed:
        payload = bytes(message.payload)
        listed_at = time_of(message.timestamp)
        if payload.translate(None, _BLANKS) == _EXPIRED:
            reading = name_event(_PLACES, event_id=message.id, event_type=message.eventType)
            return Listed(reading=reading, listed_at=listed_at)
        named = ((self._type_header, message.eventType),) if self._type_header else ()
        return replace(self.listed(payload, (("webhook-id", message.id), *named)), listed_at=listed_at)
