"""
Give one delivery of every provider, in its exact shape, for the conformance suite and whatever else wants one of each.

The bodies are our own; the headers are made by ``webhook_inbox.testing.signers``, which share no code with the sources.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from tests.deliveries import STANDARD_SECRET, STRIPE_SECRET
from webhook_inbox import sources
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.headers import Headers
from webhook_inbox.sources import Source
from webhook_inbox.testing.key_pairs import (
    certificate_pair,
    ec_pair,
    ed25519_pair,
    jwk_pair,
    webhook_pair,
)
from webhook_inbox.testing.signers import SIGNERS, Draft
from webhook_inbox.testing.source_conformance import SENT_AT, Example

URL = "https://receiver.example.test/hooks/one"
JSON = ("content-type", "application/json")
FORM = ("content-type", "application/x-www-form-urlencoded")
GITLAB_SECRET = "whsec_ZmFrZS1naXRsYWItc2lnbmluZy10b2tlbi0zMmJ5dGU="
ADYEN_KEY = "FA4E" * 16
DISCORD_KEYS, DISCORD_OTHER_KEYS = ed25519_pair(1), ed25519_pair(2)
SENDGRID_KEYS, SENDGRID_OTHER_KEYS = ec_pair(1), ec_pair(2)
PAYPAL_KEYS = webhook_pair("FAKEWEBHOOK1", "paypal.fake.test")
PAYPAL_OTHER_KEYS = webhook_pair("FAKEWEBHOOK1", "other.fake.test")
PLAID_KEYS, PLAID_OTHER_KEYS = jwk_pair(1), jwk_pair(2)
SNS_TOPIC = "arn:aws:sns:us-east-1:123456789012:Fake"
SNS_KEYS, SNS_OTHER_KEYS = certificate_pair("sns.fake.test"), certificate_pair("other.fake.test")


def written(payload: object) -> bytes:
    """Write JSON as compactly as providers do."""
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()


def digest(event: bytes) -> str:
    """Give the id of an event that has none."""
    return f"sha256:{sha256(event).hexdigest()}"


def signed(
    name: str,
    body: bytes,
    secret: str,
    *,
    event_id: str = "evt_1",
    event_type: str = "",
    content_type: tuple[str, str] | None = JSON,
    url: str = URL,
) -> Callable[[int], Delivery]:
    """Give what makes the delivery as it is sent at a time."""

    def request(sent_at: int) -> Delivery:
        draft = Draft(
            body=body, secret=secret, event_id=event_id, event_type=event_type, timestamp=sent_at, url=url
        )
        made = SIGNERS[name](draft)
        return Delivery(
            method="POST",
            url=url,
            headers=Headers([*([content_type] if content_type else []), *made.headers]),
            body=made.body,
            received_at=sent_at,
        )

    return request


def example(
    make: Callable[[Sequence[str]], Source],
    name: str,
    body: bytes,
    events: Mapping[str, str] | Sequence[tuple[str, str]],
    *headers: str,
    secret: str = "fake-secret-1",
    other_secret: str = "fake-secret-2",
    signs_with: str = "",
    sent: Mapping[str, Any] | None = None,
    **more: Any,
) -> Example:
    """
    Describe one delivery of the provider *name*; *events* are the ids and types in it.

    A provider with a private key *signs_with* that, and *secret* is the public one.
    """
    pairs = list(events.items()) if isinstance(events, Mapping) else events
    return Example(
        make=make,
        secret=secret,
        other_secret=other_secret,
        request=signed(name, body, signs_with or secret, **(sent or {})),
        event_ids=tuple(event_id for event_id, _ in pairs),
        event_types=tuple(event_type for _, event_type in pairs),
        signature_headers=headers,
        **more,
    )


STRIPE = written(
    {"id": "evt_1", "object": "event", "type": "invoice.paid", "created": 1_767_225_600, "livemode": False}
)
PLAIN = written({"type": "user.created", "data": {"id": "u_1"}})
GITHUB = written({"action": "opened", "issue": {"number": 1}})
GITHUB_FORM = b"payload=%7B%22action%22%3A%22opened%22%2C%22zen%22%3A%22a+b%2Bc%22%7D"
GITLAB = written({"object_kind": "push", "ref": "refs/heads/main"})
SHOPIFY = written({"id": 820982911946154508, "email": "buyer@example.test"})
SLACK = written(
    {
        "type": "event_callback",
        "event_id": "Ev1",
        "team_id": "T1",
        "event_time": 1_767_225_600,
        "event": {"type": "message"},
    }
)
SLACK_COMMAND = b"team_id=T1&command=%2Fpay&text=1&trigger_id=1.2.abc"
SLACK_ACTION = b"payload=%7B%22type%22%3A%22block_actions%22%2C%22team%22%3A%7B%22id%22%3A%22T1%22%7D%7D"
MAILGUN = written({"event-data": {"event": "failed", "severity": "permanent", "timestamp": 1_767_225_600.5}})
MAILGUN_ID = sha256(b"evt_1").hexdigest()[:50]
POSTMARK = written({"RecordType": "Bounce", "ID": 42, "MessageID": "m-1"})
POSTMARK_OPEN = written({"RecordType": "Open", "MessageID": "m-1", "ReceivedAt": "2026-01-01T00:00:00Z"})
PADDLE = written(
    {"event_id": "evt_1", "event_type": "transaction.completed", "occurred_at": "2026-01-01T00:00:00Z"}
)
LEMON = written({"meta": {"event_name": "order_created", "test_mode": True}, "data": {"id": "1"}})
ADYEN = written(
    {
        "live": "false",
        "notificationItems": [
            {
                "NotificationRequestItem": {
                    "pspReference": f"PSP{n}",
                    "eventCode": code,
                    "success": "true",
                    "merchantAccountCode": "Fake",
                    "merchantReference": "o:1",
                    "amount": {"value": 1130, "currency": "EUR"},
                }
            }
            for n, code in ((1, "AUTHORISATION"), (2, "CAPTURE"))
        ],
    }
)
ADYEN_PLATFORM = written(
    {"type": "balancePlatform.transfer.created", "environment": "test", "data": {"id": "T1"}}
)
MOLLIE = written({"resource": "event", "id": "event_1", "type": "payment-link.paid"})
ZOOM = written({"event": "meeting.started", "event_ts": 1_767_225_600_000, "payload": {}})
LINEAR = written({"action": "create", "type": "Issue", "webhookTimestamp": 0, "data": {"id": "i"}})
INTERCOM = written(
    {"type": "notification_event", "id": "notif_1", "topic": "conversation.user.created", "app_id": "a"}
)
TYPEFORM = written({"event_id": "tf_1", "event_type": "form_response", "form_response": {}})
CALENDLY = written({"event": "invitee.created", "created_at": "2026-01-01T00:00:00Z", "payload": {}})
ZENDESK = written({"type": "zen:event-type:ticket.created", "id": "z_1", "time": "2026-01-01T00:00:00Z"})
JIRA = written({"timestamp": 1_767_225_600_000, "webhookEvent": "jira:issue_created"})
META_MESSAGES = [
    {"id": f"wamid.{n}", "timestamp": "1767225600", "text": {"body": "h\u00e9llo"}} for n in (1, 2)
]
META = written(
    {
        "object": "whatsapp_business_account",
        "entry": [
            {
                "id": "102",
                "changes": [
                    {
                        "field": "messages",
                        "value": {"metadata": {"phone_number_id": "9"}, "messages": META_MESSAGES},
                    },
                    {"field": "messages", "value": {"statuses": [{"id": "wamid.3", "status": "read"}]}},
                ],
            }
        ],
    }
)
TELEGRAM = written({"update_id": 10_000, "message": {"message_id": 1, "text": "\u2713"}})
XERO_EVENTS = [
    {
        "resourceId": r,
        "eventDateUtc": "2026-01-01T00:00:00",
        "eventType": "UPDATE",
        "eventCategory": c,
        "tenantId": "t",
    }
    for r, c in (("r1", "CONTACT"), ("r2", "INVOICE"))
]
XERO = written({"events": XERO_EVENTS, "firstEventSequence": 1, "lastEventSequence": 2, "entropy": "E"})
DISCORD = written(
    {
        "version": 1,
        "application_id": "1",
        "type": 1,
        "event": {"type": "APPLICATION_AUTHORIZED", "timestamp": "2026-01-01T00:00:00.000000"},
    }
)
DISCORD_COMMAND = written(
    {"id": "2", "application_id": "1", "type": 2, "token": "t", "data": {"name": "pay"}}
)
SENDGRID = (
    b'[{"email":"a@example.test","event":"delivered","sg_event_id":"sg1","timestamp":1767225600},\r\n'
    b'{"email":"b@example.test","event":"bounce","sg_event_id":"sg2","timestamp":1767225600}]\r\n'
)
DOCUSIGN = written(
    {
        "event": "envelope-completed",
        "generatedDateTime": "2026-01-01T00:00:00.0Z",
        "data": {"envelopeId": "e"},
    }
)
HUBSPOT = written(
    [
        {
            "eventId": event_id,
            "subscriptionId": 12,
            "portalId": 6,
            "occurredAt": 1_767_225_600_000,
            "subscriptionType": kind,
        }
        for event_id, kind in ((1, "contact.creation"), (2, "contact.deletion"))
    ]
)
SNS = written(
    {"Type": "Notification", "MessageId": "m-1", "TopicArn": SNS_TOPIC, "Message": "a\nb", "Subject": "s"}
)
PAYPAL = written(
    {
        "id": "WH-1",
        "event_type": "PAYMENT.CAPTURE.COMPLETED",
        "create_time": "2026-01-01T00:00:00.000Z",
        "resource": {"id": "C1"},
    }
)
PLAID = written({"webhook_type": "TRANSACTIONS", "webhook_code": "SYNC_UPDATES_AVAILABLE", "item_id": "i"})
SQUARE = written({"merchant_id": "M1", "type": "payment.updated", "event_id": "sq_1", "data": {"id": "p"}})
TWILIO = (
    b"MessageSid=SM1&From=%2B15550001111&MessageStatus=delivered&Body=h%C3%A9llo+you&Empty=&Tag=b&Tag=a&Tag=a"
)
TWILIO_SINK = written([{"id": "EV1", "type": "com.twilio.messaging.message.sent"}])
TWILIO_URL = f"{URL}?tenant=7&bodySHA256={sha256(TWILIO_SINK).hexdigest()}"
WOO = written({"id": 727, "status": "processing"})

EXAMPLES: Mapping[str, Example] = {
    "adyen": example(
        sources.Adyen,
        "adyen",
        ADYEN,
        {"PSP1|AUTHORISATION|true": "AUTHORISATION", "PSP2|CAPTURE|true": "CAPTURE"},
        secret=ADYEN_KEY,
        other_secret="AB" * 32,
        covers_body=False,
    ),
    "adyen, platform": example(
        sources.Adyen,
        "adyen",
        ADYEN_PLATFORM,
        {digest(ADYEN_PLATFORM): "balancePlatform.transfer.created"},
        "hmacsignature",
        secret=ADYEN_KEY,
        other_secret="AB" * 32,
    ),
    "bitbucket": example(
        sources.Bitbucket,
        "bitbucket",
        PLAIN,
        {"evt_1": "repo:push"},
        "x-hub-signature",
        sent={"event_type": "repo:push"},
    ),
    "calendly": example(
        sources.Calendly,
        "calendly",
        CALENDLY,
        {digest(CALENDLY): "invitee.created"},
        "calendly-webhook-signature",
        tolerance_seconds=180,
    ),
    "discord": example(
        sources.Discord,
        "discord",
        DISCORD,
        {digest(DISCORD): "APPLICATION_AUTHORIZED"},
        "x-signature-ed25519",
        "x-signature-timestamp",
        secret=DISCORD_KEYS.public,
        other_secret=DISCORD_OTHER_KEYS.public,
        signs_with=DISCORD_KEYS.private,
        tolerance_seconds=3_600,
    ),
    "discord, interaction": example(
        sources.Discord,
        "discord",
        DISCORD_COMMAND,
        {"2": "APPLICATION_COMMAND"},
        "x-signature-ed25519",
        "x-signature-timestamp",
        secret=DISCORD_KEYS.public,
        other_secret=DISCORD_OTHER_KEYS.public,
        signs_with=DISCORD_KEYS.private,
        tolerance_seconds=3_600,
    ),
    "docusign": example(
        sources.DocuSign,
        "docusign",
        DOCUSIGN,
        {"e|envelope-completed|2026-01-01T00:00:00.0Z": "envelope-completed"},
        "x-docusign-signature-1",
        repeats_headers=True,
    ),
    "github": example(
        sources.GitHub,
        "github",
        GITHUB,
        {"evt_1": "issues.opened"},
        "x-hub-signature-256",
        sent={"event_type": "issues.opened"},
    ),
    "github, form": example(
        sources.GitHub,
        "github",
        GITHUB_FORM,
        {"evt_1": "issues.opened"},
        "x-hub-signature-256",
        sent={"event_type": "issues.opened", "content_type": FORM},
    ),
    "gitlab": example(
        sources.GitLab,
        "gitlab",
        GITLAB,
        {"evt_1": "push"},
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
        secret=GITLAB_SECRET,
        other_secret=STANDARD_SECRET,
        tolerance_seconds=300,
    ),
    "gitlab, token": example(
        sources.GitLab, "gitlab", GITLAB, {"evt_1": "push"}, "x-gitlab-token", covers_body=False
    ),
    "hubspot": example(
        sources.HubSpot,
        "hubspot",
        HUBSPOT,
        [("12|1|1767225600000", "contact.creation"), ("12|2|1767225600000", "contact.deletion")],
        "x-hubspot-signature-v3",
        "x-hubspot-request-timestamp",
        sent={"url": f"{URL}?src=hs%3Aapp%2Fv3&x=%28a%29"},
        tolerance_seconds=299,
    ),
    "intercom": example(
        sources.Intercom, "intercom", INTERCOM, {"notif_1": "conversation.user.created"}, "x-hub-signature"
    ),
    "jira": example(
        sources.Jira,
        "jira",
        JIRA,
        {"evt_1": "jira:issue_created"},
        "x-hub-signature",
        names_algorithm=True,
    ),
    "lemonsqueezy": example(
        sources.LemonSqueezy, "lemonsqueezy", LEMON, {digest(LEMON): "order_created"}, "x-signature"
    ),
    "linear": example(
        sources.Linear, "linear", LINEAR, {"evt_1": "Issue.create"}, "linear-signature", tolerance_seconds=60
    ),
    "mailgun": example(
        sources.Mailgun,
        "mailgun",
        MAILGUN,
        {MAILGUN_ID: "failed.permanent"},
        covers_body=False,
        tolerance_seconds=86_400,
    ),
    "meta": example(
        sources.Meta,
        "meta",
        META,
        [("wamid.1", "messages"), ("wamid.2", "messages"), ("wamid.3|read", "statuses")],
        "x-hub-signature-256",
    ),
    "mollie": example(
        sources.Mollie,
        "mollie",
        MOLLIE,
        {"event_1": "payment-link.paid"},
        "x-mollie-signature",
        repeats_headers=True,
    ),
    "paddle": example(
        sources.Paddle,
        "paddle",
        PADDLE,
        {"evt_1": "transaction.completed"},
        "paddle-signature",
        tolerance_seconds=5,
    ),
    "paypal": example(
        lambda certificates: sources.PayPal("FAKEWEBHOOK1", certificates=certificates),
        "paypal",
        PAYPAL,
        {"WH-1": "PAYMENT.CAPTURE.COMPLETED"},
        "paypal-transmission-sig",
        "paypal-transmission-id",
        "paypal-transmission-time",
        "paypal-auth-algo",
        secret=PAYPAL_KEYS.public,
        other_secret=PAYPAL_OTHER_KEYS.public,
        signs_with=PAYPAL_KEYS.private,
        tolerance_seconds=4 * 86_400,
    ),
    "plaid": example(
        lambda keys: sources.Plaid(keys=keys),
        "plaid",
        PLAID,
        {f"{digest(PLAID)}|{SENT_AT}": "TRANSACTIONS.SYNC_UPDATES_AVAILABLE"},
        "plaid-verification",
        secret=PLAID_KEYS.public,
        other_secret=PLAID_OTHER_KEYS.public,
        signs_with=PLAID_KEYS.private,
        tolerance_seconds=300,
        same_ids_again=False,
    ),
    "postmark": example(
        sources.Postmark,
        "postmark",
        POSTMARK,
        {"42": "Bounce"},
        "authorization",
        secret="fake-user:fake-password",
        other_secret="fake-user:fake-other",
        covers_body=False,
    ),
    "postmark, open": example(
        sources.Postmark,
        "postmark",
        POSTMARK_OPEN,
        {digest(POSTMARK_OPEN): "Open"},
        "authorization",
        secret="fake-user:fake-password",
        other_secret="fake-user:fake-other",
        covers_body=False,
    ),
    "sendgrid": example(
        sources.SendGrid,
        "sendgrid",
        SENDGRID,
        {"sg1": "delivered", "sg2": "bounce"},
        "x-twilio-email-event-webhook-signature",
        "x-twilio-email-event-webhook-timestamp",
        secret=SENDGRID_KEYS.public,
        other_secret=SENDGRID_OTHER_KEYS.public,
        signs_with=SENDGRID_KEYS.private,
        tolerance_seconds=86_400,
    ),
    "shopify": example(
        sources.Shopify,
        "shopify",
        SHOPIFY,
        {"evt_1|orders/create": "orders/create"},
        "x-shopify-hmac-sha256",
        sent={"event_type": "orders/create"},
    ),
    "slack": example(
        sources.Slack,
        "slack",
        SLACK,
        {"Ev1": "message"},
        "x-slack-signature",
        "x-slack-request-timestamp",
        tolerance_seconds=300,
    ),
    "slack, command": example(
        sources.Slack,
        "slack",
        SLACK_COMMAND,
        {digest(SLACK_COMMAND): "slash_command"},
        "x-slack-signature",
        "x-slack-request-timestamp",
        sent={"content_type": FORM},
        tolerance_seconds=300,
    ),
    "slack, interactivity": example(
        sources.Slack,
        "slack",
        SLACK_ACTION,
        {digest(SLACK_ACTION): "block_actions"},
        "x-slack-signature",
        "x-slack-request-timestamp",
        sent={"content_type": FORM},
        tolerance_seconds=300,
    ),
    "sns": example(
        lambda certificates: sources.Sns(SNS_TOPIC, certificates=certificates),
        "sns",
        SNS,
        {"m-1": "Notification"},
        secret=SNS_KEYS.public,
        other_secret=SNS_OTHER_KEYS.public,
        signs_with=SNS_KEYS.private,
        covers_body=False,
        tolerance_seconds=7_200,
    ),
    "square": example(
        sources.Square, "square", SQUARE, {"sq_1": "payment.updated"}, "x-square-hmacsha256-signature"
    ),
    "standard-webhooks": example(
        sources.StandardWebhooks,
        "standard-webhooks",
        PLAIN,
        {"evt_1": "user.created"},
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
        secret=STANDARD_SECRET,
        other_secret=GITLAB_SECRET,
        tolerance_seconds=300,
    ),
    "standard-webhooks, svix": example(
        sources.StandardWebhooks,
        "svix",
        PLAIN,
        {"evt_1": "user.created"},
        "svix-id",
        "svix-timestamp",
        "svix-signature",
        secret=STANDARD_SECRET,
        other_secret=GITLAB_SECRET,
        tolerance_seconds=300,
    ),
    "stripe": example(
        sources.Stripe,
        "stripe",
        STRIPE,
        {"evt_1": "invoice.paid"},
        "stripe-signature",
        secret=STRIPE_SECRET,
        other_secret="whsec_fake_other",
        tolerance_seconds=300,
    ),
    "telegram": example(
        sources.Telegram,
        "telegram",
        TELEGRAM,
        {"10000": "message"},
        "x-telegram-bot-api-secret-token",
        covers_body=False,
    ),
    "twilio": example(
        sources.Twilio,
        "twilio",
        TWILIO,
        {"evt_1": "message.delivered"},
        "x-twilio-signature",
        sent={"content_type": None},
        covers_body=False,
    ),
    "twilio, sink": example(
        sources.Twilio,
        "twilio",
        TWILIO_SINK,
        {"EV1": "com.twilio.messaging.message.sent"},
        "x-twilio-signature",
        sent={"url": TWILIO_URL},
    ),
    "typeform": example(
        sources.Typeform, "typeform", TYPEFORM, {"tf_1": "form_response"}, "typeform-signature"
    ),
    "woocommerce": example(
        sources.WooCommerce,
        "woocommerce",
        WOO,
        {f"evt_1|{digest(WOO)}": "order.updated"},
        "x-wc-webhook-signature",
        sent={"event_type": "order.updated"},
    ),
    "xero": example(
        sources.Xero,
        "xero",
        XERO,
        [
            (digest(written(XERO_EVENTS[0])), "CONTACT.UPDATE"),
            (digest(written(XERO_EVENTS[1])), "INVOICE.UPDATE"),
        ],
        "x-xero-signature",
    ),
    "zendesk": example(
        sources.Zendesk,
        "zendesk",
        ZENDESK,
        {"z_1": "zen:event-type:ticket.created"},
        "x-zendesk-webhook-signature",
        "x-zendesk-webhook-signature-timestamp",
        tolerance_seconds=3_600,
    ),
    "zoom": example(
        sources.Zoom,
        "zoom",
        ZOOM,
        {digest(ZOOM): "meeting.started"},
        "x-zm-signature",
        "x-zm-request-timestamp",
        tolerance_seconds=7_200,
    ),
}
