"""
Recognise every sender that follows Standard Webhooks: Svix and its customers, Clerk, Resend, OpenAI, GitLab, ...

The kind of key decides the algorithm, never the header: a ``whsec_`` secret checks only ``v1`` entries (HMAC-SHA256), a
``whpk_`` public key only ``v1a`` entries (Ed25519).

Source: Standard Webhooks specification 1.0.0, "Signature scheme" and "Webhook headers"; Svix sends the same under its
own header names. Stricter than the official library on purpose: a time is whole digits, base64 has one spelling, and
nothing raises.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.secret import Secret, SecretsGiven
from webhook_inbox.sources.facts import Fact, Facts
from webhook_inbox.sources.identity import Places, name_event
from webhook_inbox.sources.keys import check_tolerance, settle_secrets
from webhook_inbox.sources.listing import ApiKey
from webhook_inbox.sources.listing_svix import SvixListing
from webhook_inbox.sources.place import Fields, HeaderPlace, member_or_header_of
from webhook_inbox.sources.signature import digests, mismatch, only_header, outside_tolerance, unix_time
from webhook_inbox.sources.source import Reading, Rejected, Source, Unreadable, Verdict, Verified
from webhook_inbox.sources.standard_keys import key_of

_SPECIFICATION = "https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md"
_SVIX = "https://docs.svix.com/retries"
# Whose names the three headers have; a delivery's are never mixed.
_Family: TypeAlias = Literal["webhook", "svix"]
# An id that ends like an id and a time could be cut in two places: "a.1.{...}" signed for id "a" would also verify for
# id "a.1" where the body lets it. The specification warns senders of it; receivers can refuse it.
_AMBIGUOUS_ID = re.compile(r"\.[0-9]{1,15}(?:\.|\Z)")


@dataclass(frozen=True, slots=True)
class _Signed:
    """Hold what the three headers say."""

    header: str
    prefix: bytes
    signed_at: int
    entries: dict[str, list[str]]


class StandardWebhooks(Source):
    """
    Believe what was signed by Standard Webhooks with one of *secrets*.

    Args:
        secrets: ``whsec_...`` (base64 of the shared secret; the prefix may be missing) or ``whpk_...`` (base64 of the
            sender's Ed25519 public key); several while one is being rolled; or a callable asked per request.
        tolerance_seconds: How far the signed time may lie from this host's clock, in the past and in the future.
        event_type: Where the type stands; the specification only recommends a member ``type``.
        created: Where the time of the event stands; the specification recommends ``timestamp``.
        api_key: A key of Svix's, where the sender uses that and you may have it, to find by ``reconcile`` what never
            arrived; or a callable.
        hook: Which endpoint of Svix's to ask for: ``app/APP_ID/endpoint/ENDPOINT_ID``.
        api_base: Where that API is: of the sender's region, or of its own Svix.

    The event id is the ``webhook-id`` (or ``svix-id``) header: the signature covers it, and redeliveries repeat it.

    Raises:
        ConfigurationError: A secret of a wrong form, a tolerance that bounds nothing, a place that cannot be read, or a
            hook that is none.
    """

    provider = "standard-webhooks"
    optional_key_parts = frozenset[str]()
    reconciles = True
    facts = Facts(
        title="Standard Webhooks (Svix, Clerk, Resend, OpenAI and others)",
        signature=Fact(
            "`webhook-signature: v1,BASE64` (HMAC-SHA256) or `v1a,BASE64` (Ed25519) of `id.timestamp.body`, several "
            "with blanks between; Svix: `svix-signature`",
            _SPECIFICATION,
        ),
        secret=Fact(
            "`whsec_` and base64 of 24 to 64 bytes, or `whpk_` and base64 of a public key", _SPECIFICATION
        ),
        event_id=Fact("header `webhook-id` or `svix-id`, signed, the same on every attempt", _SPECIFICATION),
        event_type=Fact("the body's `type`, by recommendation only", _SPECIFICATION),
        window=Fact(
            "no number in the specification; 300 s both ways in its library", "standardwebhooks 1.1.0", 300
        ),
        answer=Fact("2xx; Svix: within 15 s; 410 says stop", f"{_SPECIFICATION}; {_SVIX}", 15),
        retries=Fact(
            "the sender's own; Svix: after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 10 h; OpenAI: up to 72 h",
            f"{_SVIX}; OpenAI: third parties",
            72 * 3_600,
        ),
        order=Fact("best effort (Svix)", "third party"),
        past_events=Fact(
            "only through the sender or its portal; with a key of the sender's, Svix lists the messages of an "
            "endpoint, 90 days back",
            "svix 1.86.0",
        ),
        weaknesses=(
            "The specification leaves the type and its place in the body to the sender: see event_type.",
            "What is retried, and for how long, differs between senders.",
        ),
    )

    def __init__(
        self,
        secrets: SecretsGiven,
        *,
        tolerance_seconds: float = 300,
        event_type: str = "$.type",
        created: str = "$.timestamp",
        api_key: ApiKey | None = None,
        hook: str = "",
        api_base: str = "https://api.svix.com",
    ) -> None:
        self.secrets = settle_secrets(self, secrets, setting="StandardWebhooks(secrets=...)")
        self.tolerance_seconds = check_tolerance(
            tolerance_seconds, setting="StandardWebhooks(tolerance_seconds=...)"
        )
        type_place = member_or_header_of(event_type, setting="StandardWebhooks(event_type=...)")
        created_place = member_or_header_of(created, setting="StandardWebhooks(created=...)")
        self._fields = Fields((type_place, created_place))
        self._places = {
            family: Places(event_id=f"header:{family}-id", event_type=str(type_place))
            for family in ("webhook", "svix")
        }
        if bool(hook) is (api_key is None):
            raise ConfigurationError("StandardWebhooks(api_key=..., hook=...): give both, or none")
        if api_key is not None:
            self.listing = SvixListing(
                api_key,
                api_base=api_base,
                hook=hook,
                identify=self.identify,
                type_header=type_place.name if isinstance(type_place, HeaderPlace) else "",
            )

    def check_secret(self, secret: Secret) -> None:
        """Refuse what is neither a shared secret nor a public key in the form of the specification."""
        key = key_of(secret.reveal())
        if isinstance(key, str):
            raise ConfigurationError(f"standard-webhooks: {secret.label} {key}")

    def verify(self, delivery: Delivery, secrets: Sequence[Secret]) -> Verdict:
        """Compare every entry of a key's own version with the signature of ``id.timestamp.body`` (P-RAW)."""
        family = _family(delivery.headers)
        return verify_standard_webhooks(delivery, secrets, self.tolerance_seconds, family=family)

    def identify(self, delivery: Delivery) -> tuple[Reading, ...]:
        """Name the one event of the body by the signed id."""
        values = self._fields.read(delivery.headers, delivery.body)
        if isinstance(values, Unreadable):
            return (values,)
        event_type, created = values
        family = _family(delivery.headers)
        event_id = delivery.headers.get(f"{family}-id")
        return (name_event(self._places[family], event_id=event_id, event_type=event_type, created=created),)


def verify_standard_webhooks(
    delivery: Delivery, secrets: Sequence[Secret], tolerance_seconds: float, *, family: _Family
) -> Verdict:
    """
    Decide whether one of *secrets* signed ``id.timestamp.body``; for providers that use this scheme among others.

    Only the headers of *family* are looked at, so that the id they name is the one the signature covers.
    """
    signed = _signed(delivery.headers, family)
    if isinstance(signed, Rejected):
        return signed
    content = signed.prefix + delivery.body
    refusal: Rejected | None = None
    for secret in secrets:
        key = key_of(secret.reveal())
        if isinstance(key, str):
            continue
        candidates = digests(
            signed.entries.get(key.version, []),
            encoding="base64",
            size=key.signature_bytes,
            header=signed.header,
        )
        if isinstance(candidates, Rejected):
            refusal = refusal or candidates
        elif key.signed(content, candidates):
            late = outside_tolerance(signed.signed_at, delivery.received_at, tolerance_seconds)
            return late or Verified(secret.label)
        else:
            refusal = mismatch(delivery.body)
    return refusal or mismatch(delivery.body)


def _family(headers: Headers) -> _Family:
    """Say whose header names the delivery uses."""
    return "svix" if "svix-signature" in headers and "webhook-signature" not in headers else "webhook"


def _signed(headers: Headers, family: _Family) -> _Signed | Rejected:
    header = f"{family}-signature"
    signatures = only_header(headers, header)
    if isinstance(signatures, Rejected):
        return signatures
    event_id = only_header(headers, f"{family}-id", part="id")
    if isinstance(event_id, Rejected):
        return event_id
    if _AMBIGUOUS_ID.search(event_id):
        return Rejected(
            "id_malformed", f"{family}-id header malformed: holds what could pass for the signed time"
        )
    time_text = only_header(headers, f"{family}-timestamp", part="timestamp")
    if isinstance(time_text, Rejected):
        return time_text
    signed_at = unix_time(time_text)
    if signed_at is None:
        return Rejected("timestamp_malformed", f"{family}-timestamp header malformed: no unix time")
    entries: dict[str, list[str]] = {}
    for entry in signatures.split(" "):
        version, comma, signature = entry.partition(",")
        if entry and not comma:
            return Rejected("signature_malformed", f"{header} header malformed: an entry without a version")
        entries.setdefault(version, []).append(signature)
    return _Signed(header, f"{event_id}.{time_text}.".encode("latin-1"), signed_at, entries)
