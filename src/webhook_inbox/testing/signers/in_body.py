"""Sign inside the body, a JSON object, which is written anew with the signature or the time of this attempt."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

from webhook_inbox.testing.signers.draft import Draft, Signed, json_object, written
from webhook_inbox.testing.signing import sign_hmac


def linear(draft: Draft) -> Signed:
    """Sign as Linear, whose body holds the time of sending."""
    payload = json_object(draft.body, "linear")
    body = written(payload | {"webhookTimestamp": draft.timestamp * 1000})
    return Signed(
        (("linear-delivery", draft.event_id), *sign_hmac(body, draft.secret, "linear-signature")), body
    )


def mailgun(draft: Draft) -> Signed:
    """Sign as Mailgun: a time and a token in the body; the token is one for each event id."""
    payload = json_object(draft.body, "mailgun")
    token = hashlib.sha256(draft.event_id.encode("utf-8")).hexdigest()[:50]
    content = f"{draft.timestamp}{token}".encode("ascii")
    signature = hmac.new(draft.secret.encode("utf-8"), content, hashlib.sha256).hexdigest()
    signed = {"timestamp": str(draft.timestamp), "token": token, "signature": signature}
    return Signed((), written(payload | {"signature": signed}))


def adyen(draft: Draft) -> Signed:
    """Sign as Adyen: each item of a payment webhook by itself, any other body as a whole."""
    key = bytes.fromhex(draft.secret)
    payload = json_object(draft.body, "adyen")
    if "notificationItems" not in payload:
        return Signed(sign_hmac(draft.body, key, "hmacsignature", encoding="base64"), draft.body)
    for item in payload["notificationItems"]:
        fields = item["NotificationRequestItem"]
        digest = hmac.new(key, _adyen_content(fields).encode("utf-8"), hashlib.sha256).digest()
        signature = base64.b64encode(digest).decode("ascii")
        fields["additionalData"] = fields.get("additionalData", {}) | {"hmacSignature": signature}
    return Signed((), written(payload))


def _adyen_content(fields: Mapping[str, Any]) -> str:
    amount = fields.get("amount", {})
    values = (
        fields.get("pspReference"),
        fields.get("originalReference"),
        fields.get("merchantAccountCode"),
        fields.get("merchantReference"),
        amount.get("value"),
        amount.get("currency"),
        fields.get("eventCode"),
        fields.get("success"),
    )
    return ":".join(map(_adyen_text, values))


def _adyen_text(value: object) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
