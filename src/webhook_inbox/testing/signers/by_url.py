"""Sign the URL that the delivery is sent to."""

from __future__ import annotations

from urllib.parse import parse_qs

from webhook_inbox.testing.signers.draft import Draft, Signed
from webhook_inbox.testing.signing import HeaderPairs, sign_hmac


def square(draft: Draft) -> Signed:
    """Sign as Square."""
    header, url = "x-square-hmacsha256-signature", draft.url.encode("utf-8")
    return Signed(sign_hmac(draft.body, draft.secret, header, encoding="base64", before=url), draft.body)


def hubspot(draft: Draft) -> Signed:
    """Sign as HubSpot's version 3, which decodes some escapes of the URL."""
    url, sent_at = draft.url, f"{draft.timestamp}000"
    for character in ":/?@!$'()*,;":
        url = url.replace(f"%{ord(character):02X}", character)
    signature = sign_hmac(
        draft.body,
        draft.secret,
        "x-hubspot-signature-v3",
        encoding="base64",
        before=f"POST{url}".encode(),
        after=sent_at.encode("ascii"),
    )
    return Signed((("x-hubspot-request-timestamp", sent_at), *signature), draft.body)


def twilio(draft: Draft) -> Signed:
    """Sign as Twilio: a form with its URL; of JSON the URL alone, which must hold the hash of the body."""
    if draft.body.lstrip().startswith((b"{", b"[")):
        return Signed(_twilio_signature(draft, ""), draft.body)
    form = parse_qs(draft.body.decode("ascii"), keep_blank_values=True)
    members = "".join(f"{name}{value}" for name in sorted(form) for value in sorted(set(form[name])))
    named = (
        ("content-type", "application/x-www-form-urlencoded"),
        ("i-twilio-idempotency-token", draft.event_id),
    )
    return Signed((*named, *_twilio_signature(draft, members)), draft.body)


def _twilio_signature(draft: Draft, members: str) -> HeaderPairs:
    content = f"{draft.url}{members}".encode()
    return sign_hmac(content, draft.secret, "x-twilio-signature", algorithm="sha1", encoding="base64")
