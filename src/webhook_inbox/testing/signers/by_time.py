"""Sign the time of the attempt with the body."""

from __future__ import annotations

from datetime import UTC, datetime

from webhook_inbox.testing.signers.draft import Draft, Signed
from webhook_inbox.testing.signing import HeaderPairs, sign_hmac, sign_standard_webhooks, sign_stripe


def stripe(draft: Draft) -> Signed:
    """Sign as Stripe."""
    return Signed(sign_stripe(draft.body, draft.secret, draft.timestamp), draft.body)


def standard_webhooks(draft: Draft) -> Signed:
    """Sign as Standard Webhooks says, under its own headers."""
    headers = sign_standard_webhooks(draft.body, draft.secret, draft.event_id, draft.timestamp)
    return Signed(headers, draft.body)


def svix(draft: Draft) -> Signed:
    """Sign as Standard Webhooks says, under Svix's headers."""
    headers = sign_standard_webhooks(draft.body, draft.secret, draft.event_id, draft.timestamp, family="svix")
    return Signed(headers, draft.body)


def gitlab(draft: Draft) -> Signed:
    """Sign with a signing token; send any other secret along."""
    named: HeaderPairs = (("idempotency-key", draft.event_id),)
    if draft.event_type:
        named += (("x-gitlab-event", draft.event_type),)
    if draft.secret.startswith("whsec_"):
        return Signed((*named, *standard_webhooks(draft).headers), draft.body)
    return Signed((*named, ("x-gitlab-token", draft.secret)), draft.body)


def slack(draft: Draft) -> Signed:
    """Sign as Slack."""
    before = f"v0:{draft.timestamp}:".encode("ascii")
    signature = sign_hmac(draft.body, draft.secret, "x-slack-signature", prefix="v0=", before=before)
    return Signed((("x-slack-request-timestamp", str(draft.timestamp)), *signature), draft.body)


def zoom(draft: Draft) -> Signed:
    """Sign as Zoom."""
    before = f"v0:{draft.timestamp}:".encode("ascii")
    signature = sign_hmac(draft.body, draft.secret, "x-zm-signature", prefix="v0=", before=before)
    return Signed((("x-zm-request-timestamp", str(draft.timestamp)), *signature), draft.body)


def paddle(draft: Draft) -> Signed:
    """Sign as Paddle."""
    prefix, before = f"ts={draft.timestamp};h1=", f"{draft.timestamp}:".encode("ascii")
    return Signed(
        sign_hmac(draft.body, draft.secret, "paddle-signature", prefix=prefix, before=before), draft.body
    )


def calendly(draft: Draft) -> Signed:
    """Sign as Calendly."""
    prefix, before = f"t={draft.timestamp},v1=", f"{draft.timestamp}.".encode("ascii")
    header = "calendly-webhook-signature"
    return Signed(sign_hmac(draft.body, draft.secret, header, prefix=prefix, before=before), draft.body)


def zendesk(draft: Draft) -> Signed:
    """Sign as Zendesk."""
    sent_at = datetime.fromtimestamp(draft.timestamp, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    signature = sign_hmac(
        draft.body,
        draft.secret,
        "x-zendesk-webhook-signature",
        encoding="base64",
        before=sent_at.encode("ascii"),
    )
    named = (
        ("x-zendesk-webhook-invocation-id", draft.event_id),
        ("x-zendesk-webhook-signature-timestamp", sent_at),
    )
    return Signed((*named, *signature), draft.body)
