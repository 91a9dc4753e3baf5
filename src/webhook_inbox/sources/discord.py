"""
Recognise Discord: Ed25519 over time and body, by the application's public key; webhook events and interactions.

    webhook events      ``event.type``; no id is sent, so the bytes are the id
    interactions        ``id``; the type is Discord's name of the number in ``type``: ``APPLICATION_COMMAND``
    PING                of either kind, answered as each wants once its signature is good

Discord sends bad signatures on purpose, at any time, and removes a URL that answers them with anything but 401.

Source: docs.discord.com, "Webhook Events" and "Interactions overview"; discord-interactions 0.4.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.secret import Secret, SecretsGiven
from webhook_inbox.sources.facts import DIRECTORY, Fact, Facts
from webhook_inbox.sources.identity import Places, name_event
from webhook_inbox.sources.place import BodyPlace, DigestPlace, Fields, HeaderPlace
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.public_key import Check, KeyScheme
from webhook_inbox.sources.signature import lower_hex, refused_with
from webhook_inbox.sources.signed_time import SignedTime
from webhook_inbox.sources.source import Answer, Reading, Unreadable, Verdict

_EVENTS = "https://docs.discord.com/developers/events/webhook-events"
_SDK = "discord-interactions 0.4.0"
_INTERACTIONS = MappingProxyType(
    {
        2: "APPLICATION_COMMAND",
        3: "MESSAGE_COMPONENT",
        4: "APPLICATION_COMMAND_AUTOCOMPLETE",
        5: "MODAL_SUBMIT",
    }
)
_JSON = (("content-type", "application/json"),)
_FIELDS = Fields(
    (
        BodyPlace(("type",)),
        BodyPlace(("id",)),
        BodyPlace(("event",)),
        BodyPlace(("event", "type")),
        BodyPlace(("event", "timestamp")),
        DigestPlace(),
    )
)
_EVENT = Places(event_id="digest", event_type="$.event.type")
_INTERACTION = Places()


def _key_of(secret: str) -> Check | str:
    key = lower_hex(secret.lower(), 32)
    if key is None:
        return "is no public key: 64 characters of hex, as shown on the application's page"
    return Ed25519PublicKey.from_public_bytes(key).verify


_SCHEME = KeyScheme(
    header="x-signature-ed25519",
    spelled="64 bytes in lower-case hex",
    read=lambda text: lower_hex(text, 64),
    key_of=_key_of,
    time=SignedTime(HeaderPlace("x-signature-timestamp"), "s", 3_600, None, bare=True),
)


class Discord(Provider):
    """
    Believe what Discord signed for the application with one of these public keys.

    Both kinds of PING are answered, once their signature is good.

    Args:
        secrets: The application's public key, in hex; several, for several applications; or a callable asked per
            request.
        tolerance_seconds: How far the signed time may lie from this host's clock, in the past and in the future.
            Discord states none; an hour takes its retries, which go on for 10 minutes.

    Raises:
        ConfigurationError: No key, one that is none, or a tolerance that bounds nothing.
    """

    provider = "discord"
    redelivers = False
    success_status = 204
    empty_answers = True
    facts = Facts(
        title="Discord",
        signature=Fact("`X-Signature-Ed25519: HEX`, Ed25519 of time and body, nothing between", _SDK),
        secret=Fact("the application's public key, 32 bytes in hex", _SDK),
        event_id=Fact("webhook events: none, their bytes are the id; interactions: the body's `id`", _EVENTS),
        event_type=Fact(
            "webhook events: `event.type`; interactions: the name of the number in `type`", _EVENTS
        ),
        window=Fact("none is stated, `X-Signature-Timestamp`", _EVENTS),
        handshake=Fact(
            'PING: 204 without a body (webhook events), 200 and `{"type":1}` (interactions); 401 to bad signatures',
            f"{_EVENTS}; {_SDK}",
        ),
        answer=Fact("204 without a body, within 3 s", _EVENTS, 3),
        retries=Fact(
            "webhook events: for up to 10 min, then sending may stop; interactions: none", _EVENTS, 600
        ),
        order=Fact("none", _EVENTS),
        past_events=Fact("none", DIRECTORY),
        list_api=False,
        weaknesses=(
            "A webhook event has no id: two of them whose bytes are the same are one.",
            "An interaction wants an answer of its own within 3 s: here it only hears 204.",
            "Interactions are not sent again, events for 10 minutes only: use queued or hybrid mode.",
        ),
    )

    def __init__(self, secrets: SecretsGiven, *, tolerance_seconds: float = 3_600) -> None:
        super().__init__(secrets)
        self._scheme = _SCHEME.within(tolerance_seconds, setting=self.setting("tolerance_seconds"))

    def check_secret(self, secret: Secret) -> None:
        """Refuse what is no public key."""
        key = _key_of(secret.reveal())
        if isinstance(key, str):
            raise ConfigurationError(f"discord: {secret.label} {key}")

    def verify(self, delivery: Delivery, secrets: Sequence[Secret]) -> Verdict:
        """Check the signature of time and body by each key; a bad one hears 401 (P-RAW)."""
        return refused_with(401, self._scheme.verify(delivery, secrets))

    def answer(self, delivery: Delivery, secrets: Sequence[Secret]) -> Answer | None:  # noqa: ARG002 - as Source
        """Answer a PING as its kind wants."""
        values = _FIELDS.read(delivery.headers, delivery.body)
        if isinstance(values, Unreadable) or isinstance(values[0], bool) or values[2] is not None:
            return None
        match values[0]:
            case 0:
                return Answer(status=204, headers=_JSON)
            case 1:
                return Answer(headers=_JSON, body=b'{"type":1}')
            case _:
                return None

    def identify(self, delivery: Delivery) -> tuple[Reading, ...]:
        """Name the one event of the body."""
        values = _FIELDS.read(delivery.headers, delivery.body)
        if isinstance(values, Unreadable):
            return (values,)
        kind, interaction_id, event, event_type, created, digest = values
        if event is not None:
            return (name_event(_EVENT, event_id=digest, event_type=event_type, created=created),)
        named = _INTERACTIONS.get(kind, kind) if isinstance(kind, int) else kind
        return (name_event(_INTERACTION, event_id=interaction_id, event_type=named),)
