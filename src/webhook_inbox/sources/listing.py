"""
Say how a provider is asked for what it has sent: which requests to make, and what their answers hold.

    sign_in   which request gives a token for the key?          Request | None
    token     which one does the answer give?                   str | Misread
    page      which request shows a page of the list?           Request
    read      which events are in the answer, and what next?    Page | Misread
    copy      what does the answer to ``Listed.request`` hold?  Delivery | None

Pure functions, like those of a source: any bytes in, a value out. Nothing here waits, and no answer names where the
next request goes: that is made of the configured address alone, so that the key goes nowhere else (P-QUIET).
"""

from __future__ import annotations

import ipaddress
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias, TypeVar
from urllib.parse import urlsplit

import msgspec

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.secret import SecretValue, secrets_of
from webhook_inbox.sources.source import Reading

SECONDS_A_DAY = 86_400.0
ApiKey: TypeAlias = SecretValue | Callable[..., object]
Accounts: TypeAlias = Iterable[str] | Callable[..., object]
Decoded = TypeVar("Decoded")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """
    Describe one request, a GET where it has no body, else a POST; either only reads, so that it may be made again.

    Attributes:
        url: With its query.
        headers: The key is in them, so nothing prints them (P-QUIET).
        body: What is posted; None: nothing is.
    """

    url: str
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """
    Say what a list is asked for.

    Attributes:
        key: What the provider is shown: the key, or the token that it gave for it.
        account: Whose list; empty: the key's own.
        since, until: When the events happened that are asked for (aware); a list may give others, too.
    """

    key: str = field(repr=False)
    account: str
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """Hold what the provider's API answered."""

    status: int
    headers: Headers
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """
    Name one event of the list.

    Attributes:
        reading: As the source itself reads a delivery of it.
        listed_at: By what the list is ordered and how far it reaches back (aware); None: not said.
        delivery: The event as it would have been delivered, but for the signature; None: the provider has not kept it.
        request: What gives the rest of it, where the list does not.
    """

    reading: Reading
    listed_at: datetime | None
    delivery: Delivery | None = None
    request: Request | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """
    Hold one page of the list.

    Attributes:
        listed: Its events, in the provider's order.
        following: What ``Listing.page`` takes for the next one; empty: this is the last that is needed.
    """

    listed: tuple[Listed, ...]
    following: str = ""


@dataclass(frozen=True, slots=True)
class Misread:
    """Say why an answer is none of the provider's, a phrase that quotes nothing of it."""

    reason: str


class Listing(ABC):
    """
    Ask one provider.

    Args:
        api_key: May read the list, and nothing else if the provider has such keys; or a callable that is given the
            endpoint's name at the beginning of each run.
        api_base: Where the API is; https, but for an address of this host.
        setting: What to call the source in an error, for instance ``Stripe``.

    Attributes:
        window_seconds: How far back the list reaches.
        overlap_seconds: How far behind the last run the next one begins: as long as an event may become visible late,
            or its delivery may still be tried.
        accounts: Those to ask for, one list each; ``("",)``: the key's own.

    Raises:
        ConfigurationError: A key that is none, or a base to which no key should be sent.
    """

    window_seconds: float
    overlap_seconds: float = 3 * SECONDS_A_DAY
    accounts: Accounts = ("",)

    def __init__(self, api_key: ApiKey, api_base: str, *, setting: str) -> None:
        self._setting = setting
        self.api_key = api_key if callable(api_key) else self.checked_key(api_key)
        self.base = _checked_base(api_base, setting=f"{setting}(api_base=...)")

    def checked_key(self, given: object) -> str:
        """
        Give the key that was configured or answered.

        Raises:
            ConfigurationError: It is none; the value is never shown (P-QUIET).
        """
        setting = f"{self._setting}(api_key=...)"
        (key, *more) = secrets_of(given, setting=setting)
        value = key.reveal()
        if more or not value.isascii() or not value.isprintable():
            raise ConfigurationError(f"{setting} must be one key, as the provider shows it")
        return value

    def sign_in(self, key: str) -> Request | None:  # noqa: ARG002 - for providers that want it
        """Give the request for the token that is shown instead of *key*; None: the key itself is shown."""
        return None

    def token(self, response: Response) -> str | Misread:  # noqa: ARG002 - as above
        """Read the answer to ``sign_in``, whose status was 200."""
        return Misread("no token was asked for")

    @abstractmethod
    def page(self, asked: Asked, cursor: str) -> Request:
        """Give the request for a page; *cursor* is what the page before said of it, or empty for the first."""

    @abstractmethod
    def read(self, asked: Asked, response: Response) -> Page | Misread:
        """Read the answer to ``page``, whose status was 200."""

    def copy(self, listed: Listed, response: Response) -> Delivery | None:  # noqa: ARG002 - for lists without contents
        """Read the answer to ``listed.request``, whose status was 200; None: the provider has not kept it."""
        return listed.delivery


def decoded(decoder: msgspec.json.Decoder[Decoded], body: bytes, *, what: str) -> Decoded | Misread:
    """Give what *body* says, or that it is no *what*."""
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return Misread(f"the answer is no {what}")


def reached(listed: Sequence[Listed], asked: Asked) -> bool:
    """Say whether a list that goes back in time is behind what was asked for: all of its page is older."""
    return all(each.listed_at is not None and each.listed_at < asked.since for each in listed)


def _checked_base(base: str, *, setting: str) -> str:
    with suppress(ValueError):  # no port is above 65535, and no host has one bracket
        parts = urlsplit(base)
        host, port = parts.hostname or "", parts.port
        safe = parts.scheme == "https" or (parts.scheme == "http" and _is_here(host))
        plain = not parts.query and not parts.fragment and "@" not in parts.netloc
        if safe and host and plain and port != 0:
            return base.rstrip("/")
    raise ConfigurationError(f"{setting} must be an https address without user, query and fragment")


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
