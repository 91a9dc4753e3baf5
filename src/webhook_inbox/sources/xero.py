"""
Recognise Xero: HMAC-SHA256 of the body in base64. A body holds several events, and the bytes of each are its id.

Before it uses an endpoint, and at any time after, Xero sends bodies without events under good and bad signatures: the
good must hear 200, the bad 401, both without a body.
"""

from __future__ import annotations

from collections.abc import Sequence

from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.secret import Secret
from webhook_inbox.sources.facts import DIRECTORY, HOOKDECK, Fact, Facts
from webhook_inbox.sources.identity import Reader
from webhook_inbox.sources.naming import naming_of
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.scheme import scheme_of
from webhook_inbox.sources.signature import refused_with
from webhook_inbox.sources.source import Answer, Unreadable, Verdict

_EVENTS = Reader(("events",))


class Xero(Provider):
    """
    Believe what Xero signed with one of *secrets*.

    The type is category and type: ``CONTACT.UPDATE``. The account is the tenant.

    Args:
        secrets: The app's webhook signing key, as shown: it looks like base64 and is used as text; several while one is
            being rolled; or a callable asked per request.

    Raises:
        ConfigurationError: No secret.
    """

    provider = "xero"
    redelivers = False
    empty_answers = True
    scheme = scheme_of(header="x-xero-signature", encoding="base64")
    naming = naming_of(
        items="$.events",
        event_id="digest",
        event_type="$.eventCategory",
        action="$.eventType",
        account="$.tenantId",
        created="$.eventDateUtc",
    )
    facts = Facts(
        title="Xero",
        signature=Fact("`x-xero-signature: BASE64`, HMAC-SHA256 of the body", DIRECTORY),
        secret=Fact("text that looks like base64, used as text", DIRECTORY),
        event_id=Fact("none. The bytes of each item of `events` are its id", DIRECTORY),
        event_type=Fact("the item's `eventCategory` and `eventType`", DIRECTORY),
        window=Fact("no time is signed", DIRECTORY),
        handshake=Fact(
            "intent to receive: bodies without events, 200 for a good signature, 401 for a bad one, both empty",
            HOOKDECK,
        ),
        answer=Fact("200 without a body, within 5 s", "third party", 5),
        retries=Fact("not confirmed"),
        weaknesses=(
            "No time is signed, and no id is sent: two events of one resource, type and moment are one.",
            "Whether and for how long it sends again is not confirmed: use queued or hybrid mode.",
        ),
    )

    def verify(self, delivery: Delivery, secrets: Sequence[Secret]) -> Verdict:
        """Hold the signature against the HMAC of the body under each secret; a bad one hears 401 (P-RAW)."""
        return refused_with(401, super().verify(delivery, secrets))

    def answer(self, delivery: Delivery, secrets: Sequence[Secret]) -> Answer | None:  # noqa: ARG002 - as Source
        """Give an empty 200 to a body without events."""
        values = _EVENTS.read(delivery.body)
        return Answer() if not isinstance(values, Unreadable) and values[0] == [] else None
