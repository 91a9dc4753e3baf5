"""
Ask GitHub for the deliveries of one hook, three days back, newest first, and for the payload of those that are missing.

Every try is listed, the successful and the failed, each with the id that its event keeps on redelivery. The payload is
taken from the list itself rather than sent again: that works while nothing of ours can be reached from outside.

Source: docs.github.com/rest/repos/webhooks, "List deliveries for a repository webhook" and "Get a delivery for a
repository webhook" (the organizations' and the apps' are alike); docs.github.com/rest/using-the-rest-api, "Using
pagination in the REST API".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from urllib.parse import parse_qs, quote

import msgspec

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.headers import Headers
from webhook_inbox.sources.identity import time_of
from webhook_inbox.sources.listing import (
    SECONDS_A_DAY,
    ApiKey,
    Asked,
    Listed,
    Listing,
    Misread,
    Page,
    Request,
    Response,
    decoded,
    reached,
)
from webhook_inbox.sources.listing_events import query_of
from webhook_inbox.sources.source import Reading

PAGE_DELIVERIES = 100
_HOOK = re.compile(r"(?:repos/[\w.-]+/[\w.-]+/hooks/\d+|orgs/[\w.-]+/hooks/\d+|app/hook)", re.ASCII)
_NEXT = re.compile(r'<([^<>]*)>\s*;\s*rel="next"')
_VERSION = "2022-11-28"
_EVENT, _GUID = "x-github-event", "x-github-delivery"


class _Try(msgspec.Struct):
    id: int
    guid: str
    delivered_at: str
    event: str
    action: str | None = None


class _Sent(msgspec.Struct):
    headers: dict[str, object] | None = None
    payload: msgspec.Raw = msgspec.Raw(b"null")


class _Detail(msgspec.Struct):
    request: _Sent


_TRIES = msgspec.json.Decoder(list[_Try])
_DETAIL = msgspec.json.Decoder(_Detail)


class GitHubListing(Listing):
    """
    Ask for the deliveries of one hook.

    Args:
        api_key, api_base: As for ``Listing``; a fine-grained token that may read webhooks, or, for ``app/hook``, a
            callable that makes the app's JWT.
        hook: ``repos/OWNER/REPO/hooks/ID``, ``orgs/ORG/hooks/ID`` or ``app/hook``.
        identify: The source's.

    Raises:
        ConfigurationError: As ``Listing``, or the hook is none of these.
    """

    window_seconds = 3 * SECONDS_A_DAY

    def __init__(
        self,
        api_key: ApiKey,
        *,
        api_base: str,
        hook: str,
        identify: Callable[[Delivery], tuple[Reading, ...]],
    ) -> None:
        super().__init__(api_key, api_base, setting="GitHub")
        if not _HOOK.fullmatch(hook):
            raise ConfigurationError(
                "GitHub(hook=...) must be repos/OWNER/REPO/hooks/ID, orgs/ORG/hooks/ID or app/hook"
            )
        self._deliveries = f"{self.base}/{hook}/deliveries"
        self._identify = identify

    def page(self, asked: Asked, cursor: str) -> Request:
        """Ask for the newest deliveries, or for those at GitHub's own *cursor*."""
        after = f"&cursor={quote(cursor, safe='')}" if cursor else ""
        return self._request(f"?per_page={PAGE_DELIVERIES}{after}", asked.key)

    def read(self, asked: Asked, response: Response) -> Page | Misread:
        """Name the events; go on as long as any of a page is of ``asked.since`` or later."""
        tries = decoded(_TRIES, response.body, what="list of deliveries")
        if isinstance(tries, Misread):
            return tries
        listed = tuple(self._listed(each, asked.key) for each in tries)
        following = "" if reached(listed, asked) else _following(response.headers)
        return following if isinstance(following, Misread) else Page(listed=listed, following=following)

    def copy(self, listed: Listed, response: Response) -> Delivery | None:
        """Take the payload as JSON, whatever the hook's content type, with the headers that name the event."""
        detail = decoded(_DETAIL, response.body, what="delivery")
        if isinstance(detail, Misread):
            return None
        sent = detail.request
        body = bytes(sent.payload)
        if listed.delivery is None or body == b"null":
            return None
        named = listed.delivery.headers.pairs
        kept = [
            (name, value)
            for name, value in (sent.headers or {}).items()
            if isinstance(value, str) and name.lower().startswith("x-github-hook-")
        ]
        return Delivery.now("POST", "", [*named, *kept], body)

    def _listed(self, each: _Try, key: str) -> Listed:
        """Read the event's name as that of a delivery; of its content the list has the action alone."""
        headers = [("content-type", "application/json"), (_EVENT, each.event), (_GUID, each.guid)]
        named = Delivery.now("POST", "", headers, json.dumps({"action": each.action}).encode())
        (reading,) = self._identify(named)
        return Listed(
            reading=reading,
            listed_at=time_of(each.delivered_at),
            delivery=named,
            request=self._request(f"/{each.id}", key),
        )

    def _request(self, rest: str, key: str) -> Request:
        headers = (
            ("accept", "application/vnd.github+json"),
            ("authorization", f"Bearer {key}"),
            ("x-github-api-version", _VERSION),
        )
        return Request(url=self._deliveries + rest, headers=headers)


def _following(headers: Headers) -> str | Misread:
    """Give the cursor of the next page, empty where there is none; the address with it is not followed (P-QUIET)."""
    for link in headers.all("link"):
        if found := _NEXT.search(link):
            query = query_of(found[1])
            cursors = [] if isinstance(query, Misread) else parse_qs(query).get("cursor", [])
            return cursors[0] if cursors else Misread("the next page has no address")
    return ""
