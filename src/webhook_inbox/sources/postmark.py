"""
Recognise Postmark by the HTTP Basic credentials in the URL that it was given; nothing is signed.

A bounce has an id of its own, and a mail that comes in is the event itself. Every other kind names only the mail it is
about, so its bytes are the id.
"""

from __future__ import annotations

from collections.abc import Sequence

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.secret import Secret
from webhook_inbox.sources.facts import Fact, Facts
from webhook_inbox.sources.identity import Places, name_event
from webhook_inbox.sources.place import BodyPlace, DigestPlace, Fields
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.signature import refused_with
from webhook_inbox.sources.source import Reading, Unreadable, Verdict
from webhook_inbox.sources.token import verify_basic

_OVERVIEW = "https://postmarkapp.com/developer/webhooks/webhooks-overview"
_ANYMAIL = "django-anymail's source code"
_FIELDS = Fields(
    (
        BodyPlace(("RecordType",)),
        BodyPlace(("ID",)),
        BodyPlace(("FromFull",)),
        BodyPlace(("MessageID",)),
        DigestPlace(),
    )
)
_BOUNCE = Places(event_id="$.ID", event_type="$.RecordType")
_INBOUND = Places(event_id="$.MessageID")
_OTHER = Places(event_id="digest", event_type="$.RecordType")


class Postmark(Provider):
    """
    Believe what comes with one of *secrets*.

    Args:
        secrets: ``user:password``, as in the URL that Postmark posts to; several while they are being changed; or a
            callable asked per request.

    Raises:
        ConfigurationError: A secret without a colon.
    """

    provider = "postmark"
    signed_id = False
    facts = Facts(
        title="Postmark",
        signature=Fact(
            "none; HTTP Basic credentials in the URL, headers of your own, or a list of addresses", _OVERVIEW
        ),
        secret=Fact("`user:password`, chosen by you", _OVERVIEW),
        event_id=Fact(
            "a bounce's `ID`; an inbound mail's `MessageID`; the others have only that of the mail they are about: "
            "their bytes are the id",
            _ANYMAIL,
        ),
        event_type=Fact("the body's `RecordType`; an inbound mail has none: `Inbound`", _ANYMAIL),
        answer=Fact(
            "200; 403 stops the retries, so this source never sends it",
            "Postmark, support article of November 2025",
        ),
        retries=Fact(
            "inbound: 10 times over about 10.5 h; the other kinds are not confirmed",
            "Postmark, support article of November 2025",
            37_800,
        ),
        weaknesses=(
            "Nothing is signed: whoever sees one delivery can make others.",
            "Two events whose bodies are the same to the byte are one event.",
            "An inbound mail with attachments passes 1 MiB easily: raise body_bytes_max.",
        ),
    )

    def check_secret(self, secret: Secret) -> None:
        """Refuse what is no user and password."""
        user, colon, password = secret.reveal().partition(":")
        if not (user and colon and password):
            raise ConfigurationError(f"postmark: {secret.label} is not of the form user:password")

    def verify(self, delivery: Delivery, secrets: Sequence[Secret]) -> Verdict:
        """Compare user and password with each secret; wrong ones hear 401, after which Postmark sends again."""
        return refused_with(401, verify_basic(delivery.headers, secrets))

    def identify(self, delivery: Delivery) -> tuple[Reading, ...]:
        """Name the one event of the body."""
        values = _FIELDS.read(delivery.headers, delivery.body)
        if isinstance(values, Unreadable):
            return (values,)
        kind, bounce_id, sender, message_id, digest = values
        if kind == "Bounce":
            return (name_event(_BOUNCE, event_id=bounce_id, event_type=kind),)
        if kind is None and sender is not None:
            return (name_event(_INBOUND, event_id=message_id, event_type="Inbound"),)
        return (name_event(_OTHER, event_id=digest, event_type=kind),)
