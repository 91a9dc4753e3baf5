"""Name the event of one JSON object, from a description of where its id, type, account and time stand."""

from __future__ import annotations

from dataclasses import dataclass, replace

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.headers import Headers
from webhook_inbox.sources.batch import item_spans
from webhook_inbox.sources.identity import Places, name_event
from webhook_inbox.sources.place import BodyPlace, Fields, member_of, member_or_header_of, place_of
from webhook_inbox.sources.source import Reading, Unreadable


@dataclass(frozen=True, slots=True)
class Naming:
    """
    Hold what was described, ready to use.

    Attributes:
        fields: Read event id, event type, account, environment and created, in this order.
        places: The same for the reasons that an operator reads.
        items: The array whose items are the events; None where the body is one event.
        id_in_body: Whether the event id stands in the body, and so under any signature.
    """

    fields: Fields
    places: Places
    items: BodyPlace | None
    id_in_body: bool

    def identify(self, delivery: Delivery) -> tuple[Reading, ...]:
        """Name the event of the body, or every item of a batched one, in the body's order."""
        if self.items is None:
            return (self._name(delivery.headers, delivery.body),)
        spans = item_spans(delivery.body, self.items)
        if isinstance(spans, Unreadable):
            return (spans,)
        return tuple(
            replace(self._name(delivery.headers, delivery.body[start:end]), span=(start, end))
            for start, end in spans
        )

    def _name(self, headers: Headers, body: bytes) -> Reading:
        values = self.fields.read(headers, body)
        if isinstance(values, Unreadable):
            return values
        event_id, event_type, account, environment, created = values
        return name_event(
            self.places,
            event_id=event_id,
            event_type=event_type,
            account=account,
            environment=environment_of(environment),
            created=created,
        )


def naming_of(
    *, event_id: str, event_type: str, account: str, environment: str, created: str, items: str
) -> Naming:
    """
    Read a description; the arguments are those of ``Hmac``.

    Raises:
        ConfigurationError: A place that cannot be read, or one that the signature could not cover.
    """
    id_place = member_or_header_of(event_id, setting="Hmac(event_id=...)")
    type_place = member_or_header_of(event_type, setting="Hmac(event_type=...)")
    account_place = member_of(account, setting="Hmac(account=...)") if account else None
    array = place_of(items, setting="Hmac(items=...)") if items else None
    if array is not None and not isinstance(array, BodyPlace):
        raise ConfigurationError("Hmac(items=...) must name an array of the body: '$' or '$.events'")
    if array is not None and not isinstance(id_place, BodyPlace):
        raise ConfigurationError(
            "Hmac(event_id=...) must be a member of the item: all items share the headers"
        )
    fields = Fields(
        (
            id_place,
            type_place,
            account_place,
            member_of(environment, setting="Hmac(environment=...)") if environment else None,
            member_or_header_of(created, setting="Hmac(created=...)") if created else None,
        )
    )
    places = Places(event_id=str(id_place), event_type=str(type_place), account=str(account_place or ""))
    return Naming(fields, places, array, isinstance(id_place, BodyPlace))


def environment_of(value: object) -> str:
    """Give ``live`` or ``test`` where *value* says which of the two it is, else an empty text."""
    match value:
        case True | "live" | "production":
            return "live"
        case False | "test" | "sandbox":
            return "test"
        case _:
            return ""
