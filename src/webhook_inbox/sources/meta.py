"""
Recognise Meta's platforms, WhatsApp among them: HMAC-SHA256 of the body with the app's secret.

A body is a tree, and its leaves are the events:

    entry[].changes[].value.messages[]    WhatsApp: type ``messages``, the id is the message's
    entry[].changes[].value.statuses[]    WhatsApp: type ``statuses``, message id and status together are the id
    entry[].changes[]                     any other change: the type is its ``field``, its bytes are the id
    entry[].messaging[]                   Messenger, Instagram: type ``messaging``, its bytes are the id

An event's bytes are those of its leaf. Its account is the phone number's id, where the change names one (it is what a
message is answered from), else the entry's id.

Source: developers.facebook.com, "Webhooks: Getting started"; WhatsApp, "Webhooks overview".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.secret import SecretsGiven, SecretValue, secrets_of
from webhook_inbox.sources.batch import Span, item_spans
from webhook_inbox.sources.facts import DIRECTORY, Fact, Facts
from webhook_inbox.sources.identity import Places, Reader, name_event
from webhook_inbox.sources.naming import joined
from webhook_inbox.sources.place import BodyPlace
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.scheme import scheme_of
from webhook_inbox.sources.signature import any_equal, unix_time
from webhook_inbox.sources.source import Answer, Reading, Unreadable

_WHATSAPP = (
    "https://developers.facebook.com/documentation/business-messaging/whatsapp/webhooks/reference/messages"
)
_PARTNER = "third party: 360dialog"
_CHALLENGE_CHARS_MAX = 256
_ENTRIES = BodyPlace(("entry",))
_CHANGES = BodyPlace(("changes",))
_MESSAGING = BodyPlace(("messaging",))
_LISTS = tuple((name, BodyPlace(("value", name))) for name in ("messages", "statuses"))
_ENTRY = Reader(("id",))
_CHANGE = Reader(("field",), ("value", "metadata", "phone_number_id"))
_LEAF = Reader(("id",), ("status",), ("timestamp",))
_PLACES = Places(event_id="$.id", event_type="$.field", account="the entry's id")


class _Leaf(NamedTuple):
    """Hold one event of the tree: where it stands, what it is called, and whose it is."""

    span: Span
    kind: str
    event_type: object
    account: object


class Meta(Provider):
    """
    Believe what Meta signed with one of *secrets*, for WhatsApp, Messenger, Instagram and the other products.

    Args:
        secrets: The app's secret, one for all products; several while one is being rolled; or a callable asked per
            request.
        verify_token: What you typed into the app's webhook settings. With it, GET requests are taken and the handshake
            ``hub.challenge`` is answered; without it, there are none.

    Raises:
        ConfigurationError: No secret, or an empty verify token.
    """

    provider = "meta"
    key_parts = frozenset({"account"})
    scheme = scheme_of(header="X-Hub-Signature-256", prefix="sha256=")
    facts = Facts(
        title="Meta (WhatsApp, Messenger, Instagram)",
        signature=Fact("`X-Hub-Signature-256: sha256=HEX`, HMAC-SHA256 of the body", DIRECTORY),
        secret=Fact("the app's secret, one for all products", DIRECTORY),
        event_id=Fact(
            "WhatsApp: `messages[].id`; `statuses[].id` with `status`. Else none is confirmed: the bytes are the id",
            _WHATSAPP,
        ),
        event_type=Fact(
            "`changes[].field`; here the name of the list for WhatsApp's messages and statuses", _WHATSAPP
        ),
        window=Fact("no time is signed", DIRECTORY),
        handshake=Fact(
            "GET with `hub.mode`, `hub.verify_token`, `hub.challenge`: the challenge with 200, or 403",
            DIRECTORY,
        ),
        answer=Fact("200", DIRECTORY),
        retries=Fact(
            "WhatsApp: up to 7 days with growing pauses; the other products are not confirmed",
            _PARTNER,
            7 * 86_400,
        ),
        order=Fact("that of statuses is not guaranteed", "third party"),
        past_events=Fact("not confirmed"),
        weaknesses=(
            "No time is signed.",
            "An event's bytes are its leaf of the body: what stands around it, such as contacts, is not with it.",
            "Messenger's pages say that an escaped form of the text is signed; here it is the bytes as they came.",
        ),
    )

    def __init__(self, secrets: SecretsGiven, *, verify_token: SecretValue | None = None) -> None:
        super().__init__(secrets)
        self._verify_token = (
            () if verify_token is None else secrets_of(verify_token, setting=self.setting("verify_token"))
        )
        self.methods = frozenset({"GET"} if self._verify_token else ())

    def greet(self, delivery: Delivery) -> Answer | None:
        """Give the challenge of a GET back to whoever knows the verify token, and 403 to all others."""
        if delivery.method != "GET":
            return None
        query = _query(delivery.url)
        token, challenge = query.get("hub.verify_token", ""), query.get("hub.challenge", "")
        known = any(any_equal(each.reveal().encode(), (token.encode(),)) for each in self._verify_token)
        if (
            not known
            or query.get("hub.mode") != "subscribe"
            or not 0 < len(challenge) <= _CHALLENGE_CHARS_MAX
        ):
            return Answer(status=403)
        content_type = ("content-type", "text/plain; charset=utf-8")
        return Answer(headers=(content_type, ("x-content-type-options", "nosniff")), body=challenge.encode())

    def identify(self, delivery: Delivery) -> tuple[Reading, ...]:
        """Name every leaf of the body, in the body's order."""
        return tuple(
            each if isinstance(each, Unreadable) else _name(each, delivery.body[slice(*each.span)])
            for each in _leaves(delivery.body)
        )


def _query(url: str) -> dict[str, str]:
    """Give the members of the query; empty where it cannot be read or repeats a name."""
    try:
        query = urlsplit(url).query
        query.encode()  # an embedding app may hand on what no URL holds
        pairs = parse_qsl(query, keep_blank_values=True, errors="strict")
    except ValueError:
        return {}
    return dict(pairs) if len(dict(pairs)) == len(pairs) else {}


def _leaves(body: bytes) -> Iterator[_Leaf | Unreadable]:
    entries = item_spans(body, _ENTRIES)
    if isinstance(entries, Unreadable):
        yield entries
        return
    for entry in entries:
        account = _first(_ENTRY, body, entry)
        changes, messaging = _inside(body, entry, _CHANGES), _inside(body, entry, _MESSAGING)
        if not changes and not messaging:
            yield Unreadable(reason="an entry without changes and without messaging", span=entry)
        for change in changes:
            yield from _of_change(body, change, account)
        for item in messaging:
            yield _Leaf(item, "digest", "messaging", account)


def _of_change(body: bytes, change: Span, entry_id: object) -> Iterator[_Leaf]:
    values = _CHANGE.read(body[slice(*change)])
    field, phone_number_id = (None, None) if isinstance(values, Unreadable) else values
    account = phone_number_id or entry_id
    leaves = [
        _Leaf(span, name, name, account) for name, place in _LISTS for span in _inside(body, change, place)
    ]
    yield from sorted(leaves) or [_Leaf(change, "digest", field, account)]


def _inside(body: bytes, outer: Span, place: BodyPlace) -> list[Span]:
    """Give the spans, within *body*, of the items of the array at *place* of what stands at *outer*."""
    at, end = outer
    spans = item_spans(body[at:end], place)
    return [] if isinstance(spans, Unreadable) else [(at + start, at + stop) for start, stop in spans]


def _first(reader: Reader, body: bytes, span: Span) -> object:
    values = reader.read(body[slice(*span)])
    return None if isinstance(values, Unreadable) else values[0]


def _name(leaf: _Leaf, body: bytes) -> Reading:
    values = _LEAF.read(body)
    if isinstance(values, Unreadable):
        return replace(values, span=leaf.span)
    message_id, status, timestamp = values
    event_id: object = message_id
    if leaf.kind == "statuses":
        event_id = joined([message_id, status])
    elif leaf.kind == "digest":
        event_id = f"sha256:{sha256(body).hexdigest()}"
    created = unix_time(timestamp) if isinstance(timestamp, str) else timestamp
    reading = name_event(
        _PLACES, event_id=event_id, event_type=leaf.event_type, account=leaf.account, created=created
    )
    return replace(reading, span=leaf.span)
