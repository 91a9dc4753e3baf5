"""Name the event of one JSON object, from a description of where its id, type, account and time stand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.headers import Headers
from webhook_inbox.sources.batch import Span, item_spans
from webhook_inbox.sources.identity import Places, name_event
from webhook_inbox.sources.place import (
    BodyPlace,
    Fields,
    HeaderPlace,
    id_place_of,
    member_of,
    member_or_header_of,
    place_of,
)
from webhook_inbox.sources.source import Reading, Unreadable


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """
    Hold what was described, ready to use.

    Attributes:
        fields: Read event type, action, account, environment, created, and the parts of the event id, in this order.
        places: The same for the reasons that an operator reads.
        items: The array whose items are the events; None where the body is one event.
        id_in_body: Whether the whole event id stands in the body, and so under any signature.
        environment: Gives ``live``, ``test`` or an empty text for what stands at the environment's place.
        key_parts: As in ``Source``.
    """

    fields: Fields
    places: Places
    items: BodyPlace | None
    id_in_body: bool
    environment: Callable[[object], str]
    key_parts: frozenset[str]

    def identify(self, delivery: Delivery) -> tuple[Reading, ...]:
        """Name the event of the body, or every item of a batched one, in the body's order."""
        if self.items is None:
            return (self.name(delivery.headers, delivery.body),)
        spans = item_spans(delivery.body, self.items)
        if isinstance(spans, Unreadable):
            return (spans,)
        return tuple(self.name_item(delivery, span) for span in spans)

    def name_item(self, delivery: Delivery, span: Span) -> Reading:
        """Name the one event that stands at *span* of the body."""
        return replace(self.name(delivery.headers, delivery.body[slice(*span)]), span=span)

    def name(self, headers: Headers, body: bytes) -> Reading:
        """Name the one event of *body*."""
        values = self.fields.read(headers, body)
        if isinstance(values, Unreadable):
            return values
        event_type, action, account, environment, created, *ids = values
        event_id = ids[0] if len(ids) == 1 else joined(ids)
        return name_event(
            self.places,
            event_id=event_id,
            event_type=_with_action(event_type, action),
            account=account,
            environment=self.environment(environment),
            created=created,
        )


def naming_of(
    *,
    event_id: str | tuple[str, ...] = "$.id",
    event_type: str = "$.type",
    action: str = "",
    account: str = "",
    environment: str = "",
    environments: Callable[[object], str] | None = None,
    created: str = "",
    items: str = "",
) -> Naming:
    """
    Read a description; the arguments are those of ``Hmac``, and for providers beside them:

    Args:
        event_id: Several places where only all of them together are an id; they are joined by ``|``.
        action: A member that says more than the type does; where it is there, the type is ``type.action``.
        environments: Gives ``live``, ``test`` or an empty text for the value of *environment*.

    Raises:
        ConfigurationError: A place that cannot be read, or one that the signature could not cover.
    """
    ids = (event_id,) if isinstance(event_id, str) else event_id
    id_places = [id_place_of(each, setting="Hmac(event_id=...)") for each in ids]
    type_place = member_or_header_of(event_type, setting="Hmac(event_type=...)")
    account_place = member_of(account, setting="Hmac(account=...)") if account else None
    id_in_body = not any(isinstance(place, HeaderPlace) for place in id_places)
    fields = Fields(
        (
            type_place,
            member_of(action, setting="action") if action else None,
            account_place,
            member_of(environment, setting="Hmac(environment=...)") if environment else None,
            member_or_header_of(created, setting="Hmac(created=...)") if created else None,
            *id_places,
        )
    )
    return Naming(
        fields=fields,
        places=Places(
            event_id=" | ".join(map(str, id_places)),
            event_type=str(type_place),
            account=str(account_place or ""),
        ),
        items=_array_of(items, id_in_body=id_in_body) if items else None,
        id_in_body=id_in_body,
        environment=environments or environment_of,
        key_parts=frozenset(
            name for name, place in (("account", account), ("environment", environment)) if place
        ),
    )


def _array_of(items: str, *, id_in_body: bool) -> BodyPlace:
    array = place_of(items, setting="Hmac(items=...)")
    if not isinstance(array, BodyPlace):
        raise ConfigurationError("Hmac(items=...) must name an array of the body: '$' or '$.events'")
    if not id_in_body:
        raise ConfigurationError(
            "Hmac(event_id=...) must be a member of the item: all items share the headers"
        )
    return array


def joined(parts: Sequence[object]) -> str | None:
    """Give the parts of an id as one text, never the same for two lists of parts; None where one is missing."""
    texts = [_text(part) for part in parts]
    if not all(texts):
        return None
    return "|".join(text.replace("%", "%25").replace("|", "%7C") for text in texts)


def _text(part: object) -> str:
    if isinstance(part, bool):
        return "true" if part else "false"
    return str(part) if isinstance(part, str | int) and not str(part).isspace() else ""


def _with_action(event_type: object, action: object) -> object:
    return (
        f"{event_type}.{action}"
        if isinstance(event_type, str) and action and isinstance(action, str)
        else event_type
    )


def environment_of(value: object) -> str:
    """Give ``live`` or ``test`` where *value* says which of the two it is, else an empty text."""
    match value:
        case True | "live" | "production":
            return "live"
        case False | "test" | "sandbox":
            return "test"
        case _:
            return ""
