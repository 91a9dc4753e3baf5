"""
Recognise Adyen: payment webhooks, whose items each carry a signature over eight of their fields, and the webhooks of
banking and management, which sign the whole body in a header. Keys are hex.

Every item of a payment webhook must be signed; one that is not, or is forged, has the whole body refused.

Source: Adyen's Python library 16.0.0; docs.adyen.com, "Verify HMAC signatures".
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.secret import Secret
from webhook_inbox.sources.batch import item_spans
from webhook_inbox.sources.facts import DIRECTORY, Fact, Facts
from webhook_inbox.sources.identity import Reader
from webhook_inbox.sources.naming import naming_of
from webhook_inbox.sources.place import BodyPlace
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.scheme import scheme_of
from webhook_inbox.sources.signature import any_equal, digests, mismatch
from webhook_inbox.sources.source import Reading, Rejected, Unreadable, Verdict, Verified

_LIBRARY = "Adyen's Python library 16.0.0"
_WEBHOOKS = "https://docs.adyen.com/development-resources/webhooks"
_HEADER = "hmacsignature"
_ITEMS = BodyPlace(("notificationItems",))
_ITEM = "NotificationRequestItem"
_SIGNATURE = "additionalData.hmacSignature"
_SIGNED = (
    ("pspReference",),
    ("originalReference",),
    ("merchantAccountCode",),
    ("merchantReference",),
    ("amount", "value"),
    ("amount", "currency"),
    ("eventCode",),
    ("success",),
)
_MERCHANT_S_OWN = (
    "merchantReference",
)  # whatever the merchant wrote there, so the one that may hold a colon
_READER = Reader((_ITEM, "additionalData", "hmacSignature"), *((_ITEM, *path) for path in _SIGNED))
_PAYMENTS = naming_of(
    items=str(_ITEMS),
    event_id=(f"$.{_ITEM}.pspReference", f"$.{_ITEM}.eventCode", f"$.{_ITEM}.success"),
    event_type=f"$.{_ITEM}.eventCode",
    account=f"$.{_ITEM}.merchantAccountCode",
    created=f"$.{_ITEM}.eventDate",
)


class Adyen(Provider):
    """
    Believe what Adyen signed with one of *secrets*.

    A payment webhook's items are events of their own: the id is ``pspReference``, ``eventCode`` and ``success``
    together, the type ``eventCode``, the account the merchant account. Other webhooks are one event, with ``type``.

    Args:
        secrets: An HMAC key, hex, as the Customer Area shows it; several while a new one spreads; or a callable asked
            per request.

    Raises:
        ConfigurationError: A key that is not hex.
    """

    provider = "adyen"
    signed_id = False
    optional_key_parts = frozenset({"account", "environment"})  # payments have the one, the others the other
    scheme = scheme_of(header=_HEADER, encoding="base64", key="hex")
    naming = naming_of(event_id="digest", environment="$.environment", created="$.timestamp")
    facts = Facts(
        title="Adyen",
        signature=Fact(
            "payments: each item's `additionalData.hmacSignature`, base64 HMAC-SHA256 of eight fields joined with `:`; "
            "banking and management: `HmacSignature: BASE64`, HMAC-SHA256 of the body",
            _LIBRARY,
        ),
        secret=Fact("hex; keep the old key while a new one spreads", f"{_LIBRARY}; {DIRECTORY}"),
        event_id=Fact(
            "payments: `pspReference` with `eventCode`, and here `success`; others: the bytes of the body",
            DIRECTORY,
        ),
        event_type=Fact("payments: `eventCode`; others: the body's `type`", DIRECTORY),
        window=Fact("no time is signed", _LIBRARY),
        answer=Fact("2xx (200 or 202)", f"{_WEBHOOKS}/handle-webhook-events"),
        retries=Fact(
            "after 9, 18, 27 s, then 2, 5, 10, 15, 30 min, 1, 2, 4, 8 h and on, up to 30 days",
            f"{_WEBHOOKS}/troubleshoot",
            30 * 86_400,
        ),
        past_events=Fact("the Customer Area; an API is not confirmed"),
        weaknesses=(
            "Of a payment only eight fields are signed: live or test, its date and additionalData are not.",
            "No time is signed, and duplicates are by design.",
            "Whether a webhook wants a body of `[accepted]` is not confirmed: it hears 2xx.",
        ),
    )

    def verify(self, delivery: Delivery, secrets: Sequence[Secret]) -> Verdict:
        """Hold the header against the HMAC of the body, else every item's signature against its fields (P-RAW)."""
        if _HEADER in delivery.headers:
            return self.scheme.verify(delivery, secrets)
        spans = item_spans(delivery.body, _ITEMS)
        if isinstance(spans, Unreadable):
            return Rejected("signature_missing", f"no {_HEADER} header, and no items that are signed")
        verdict: Verdict = mismatch(delivery.body)
        for start, end in spans:
            verdict = self._verify_item(delivery.body[start:end], secrets)
            if isinstance(verdict, Rejected):
                return verdict
        return verdict

    def identify(self, delivery: Delivery) -> tuple[Reading, ...]:
        """Name every item of a payment webhook, or the one event of any other."""
        naming = self.naming if _HEADER in delivery.headers else _PAYMENTS
        return naming.identify(delivery)

    def _verify_item(self, item: bytes, secrets: Sequence[Secret]) -> Verdict:
        values = _READER.read(item)
        signature, *fields = (None,) if isinstance(values, Unreadable) else values
        if not isinstance(signature, str) or not signature:
            return Rejected("signature_missing", f"an item without {_SIGNATURE}")
        candidates = digests([signature], encoding="base64", size=32, header=_SIGNATURE)
        if isinstance(candidates, Rejected):
            return candidates
        content = _content(fields)
        if content is None:
            return Rejected("signature_malformed", "an item whose signature would fit other fields as well")
        for secret in secrets:
            key = self.scheme.key_of(secret.reveal())
            if isinstance(key, bytes) and any_equal(hmac.digest(key, content, "sha256"), candidates):
                return Verified(secret.label)
        return Rejected("signature_mismatch", "an item's signature does not match its fields")


def _content(fields: Sequence[object]) -> bytes | None:
    """Join *fields* as Adyen signs them; None where one signature would stand for other fields too."""
    texts = []
    for path, value in zip(_SIGNED, fields, strict=True):
        text = _text(value)
        if text is None or (":" in text and path != _MERCHANT_S_OWN):
            return None
        texts.append(text)
    return ":".join(texts).encode("utf-8", "surrogatepass")


def _text(value: object) -> str | None:
    """Write a field as Adyen signs it, absent as empty; None for what is no text, number or truth."""
    match value:
        case True:
            return "true"
        case False:
            return "false"
        case str() | int():
            return str(value)
        case None:
            return ""
        case _:
            return None
