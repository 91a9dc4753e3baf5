"""
Ask Stripe for its events, 30 days back, newest first; of connected accounts one by one.

    snapshot   ``GET /v1/events``        the account is named by the request, in ``Stripe-Account``
    thin       ``GET /v2/core/events``   in ``Stripe-Context``; it is the event's ``context``

What it lists is what it delivers, but for two things: an event of a connected account does not say whose it is where
the request has said it, and a snapshot is written in the version of the API that the account had, not the endpoint.

Source: docs.stripe.com/api/events/list, docs.stripe.com/api/pagination, docs.stripe.com/api/connected-accounts;
docs.stripe.com/api/v2/core/events/list, and the parameters, ``next_page_url`` and version of stripe 16.1.0 for it.
"""

from __future__ import annotations

import json
from urllib.parse import quote, urlencode

import msgspec

from webhook_inbox.sources.listing import (
    SECONDS_A_DAY,
    Accounts,
    ApiKey,
    Asked,
    Listed,
    Misread,
    Page,
    Request,
    Response,
    decoded,
)
from webhook_inbox.sources.listing_events import EventListing, Identify, after_the_last, query_of, written

PAGE_EVENTS = 100
_THIN_VERSION = "2026-10-28.endive"


class _List(msgspec.Struct):
    data: list[msgspec.Raw]
    has_more: bool = False


class _ThinList(msgspec.Struct):
    data: list[msgspec.Raw]
    next_page_url: str | None = None


_LIST = msgspec.json.Decoder(_List)
_THIN_LIST = msgspec.json.Decoder(_ThinList)


class StripeListing(EventListing):
    """
    Ask for the events of the key's own account, or of connected ones.

    Args:
        api_key, api_base: As for ``Listing``; a restricted key that may read events will do.
        accounts: Connected accounts (``acct_...``) whose events the endpoint gets; or a callable that gives them,
            given the endpoint's name. None: the key's own.
        identify: The source's.
    """

    window_seconds = 30 * SECONDS_A_DAY
    _account_header = "stripe-account"
    _account_member = "account"

    def __init__(
        self, api_key: ApiKey, *, api_base: str, accounts: Accounts | None, identify: Identify
    ) -> None:
        super().__init__(api_key, api_base=api_base, setting="Stripe", identify=identify)
        self.accounts = ("",) if accounts is None else accounts

    def page(self, asked: Asked, cursor: str) -> Request:
        """Ask for the newest events, or for those that come after the event *cursor*."""
        query = {"limit": PAGE_EVENTS, "created[gte]": int(asked.since.timestamp())}
        after = f"&starting_after={quote(cursor, safe='')}" if cursor else ""
        return self._request(asked, f"/v1/events?{urlencode(query)}{after}")

    def read(self, asked: Asked, response: Response) -> Page | Misread:
        """Take the events as they are, byte for byte, but for the account."""
        found = decoded(_LIST, response.body, what="list of events")
        if isinstance(found, Misread):
            return found
        listed = self._all(found.data, asked)
        return after_the_last(listed) if found.has_more else Page(listed=listed)

    def _request(self, asked: Asked, rest: str, *more: tuple[str, str]) -> Request:
        account = ((self._account_header, asked.account),) if asked.account else ()
        return Request(
            url=self.base + rest, headers=(("authorization", f"Bearer {asked.key}"), *account, *more)
        )

    def _all(self, events: list[msgspec.Raw], asked: Asked) -> tuple[Listed, ...]:
        member, account = self._account_member, asked.account
        return tuple(self.listed(_named(bytes(each), member, account)) for each in events)


class ThinStripeListing(StripeListing):
    """Ask for the thin events; the arguments are those of ``StripeListing``."""

    _account_header = "stripe-context"
    _account_member = "context"

    def page(self, asked: Asked, cursor: str) -> Request:
        """Ask for the newest events, or by the query that the page before has given for the next one."""
        query = cursor or urlencode({"limit": PAGE_EVENTS, "created[gte]": written(asked.since)})
        return self._request(asked, f"/v2/core/events?{query}", ("stripe-version", _THIN_VERSION))

    def read(self, asked: Asked, response: Response) -> Page | Misread:
        """Take the events as they are, byte for byte, but for the context."""
        found = decoded(_THIN_LIST, response.body, what="list of events")
        if isinstance(found, Misread):
            return found
        following = query_of(found.next_page_url or "")
        if isinstance(following, Misread):
            return following
        return Page(listed=self._all(found.data, asked), following=following)


def _named(event: bytes, member: str, account: str) -> bytes:
    """Write *account* into an event that does not say whose it is, as the delivery does."""
    if not account:
        return event
    try:
        members = json.loads(event)
    except (ValueError, RecursionError):
        return event  # it is read as unreadable next
    if not isinstance(members, dict) or members.get(member) is not None:
        return event
    return json.dumps({**members, member: account}, ensure_ascii=False).encode("utf-8", "replace")
