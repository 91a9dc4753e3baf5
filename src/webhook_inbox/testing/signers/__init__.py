"""
Make whole deliveries as each provider sends them: for users' tests, and for ``webhook-inbox send --source``.

As ``signing.py``, written from the providers' own texts and sharing no code with ``webhook_inbox.sources``. A provider
is a line in ``SIGNERS``, made of what is in the files beside it:

    by_header.py         the body as it is, signed in a header
    by_time.py           ... with the time of the attempt
    by_url.py            ... with the URL it is sent to
    in_body.py           inside the body, which is written anew
    by_private_key.py    by a key that the receiver does not have; ``key_pairs.py`` makes such keys
    described.py         as an ``Hmac`` source is described

A new provider is a line there, and one in ``key_pairs.PAIRS`` where it signs with a private key.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from webhook_inbox.testing.signers import by_header, by_private_key, by_time, by_url, in_body
from webhook_inbox.testing.signers.draft import Draft as Draft, Signed as Signed, Signer as Signer

# What these send of an event's type stands in a header: without one, a delivery of theirs names no event.
TYPE_IN_HEADER = frozenset({"bitbucket", "github", "shopify", "woocommerce"})

# What ``webhook-inbox send --source`` offers, by the sources' own names; ``svix`` is Standard Webhooks' other headers.
SIGNERS: Mapping[str, Signer] = MappingProxyType(
    {
        "adyen": in_body.adyen,
        "bitbucket": by_header.named("x-hub-signature", "x-request-uuid", "x-event-key", prefix="sha256="),
        "calendly": by_time.calendly,
        "discord": by_private_key.discord,
        "docusign": by_header.plain("x-docusign-signature-1", encoding="base64"),
        "github": by_header.github,
        "gitlab": by_time.gitlab,
        "hubspot": by_url.hubspot,
        "intercom": by_header.plain("x-hub-signature", prefix="sha1=", algorithm="sha1"),
        "jira": by_header.named("x-hub-signature", "x-atlassian-webhook-identifier", prefix="sha256="),
        "lemonsqueezy": by_header.plain("x-signature"),
        "linear": in_body.linear,
        "mailgun": in_body.mailgun,
        "meta": by_header.plain("x-hub-signature-256", prefix="sha256="),
        "mollie": by_header.plain("x-mollie-signature", prefix="sha256="),
        "paddle": by_time.paddle,
        "paypal": by_private_key.paypal,
        "plaid": by_private_key.plaid,
        "postmark": by_header.postmark,
        "sendgrid": by_private_key.sendgrid,
        "shopify": by_header.named(
            "x-shopify-hmac-sha256", "x-shopify-event-id", "x-shopify-topic", encoding="base64"
        ),
        "slack": by_time.slack,
        "sns": by_private_key.sns,
        "square": by_url.square,
        "standard-webhooks": by_time.standard_webhooks,
        "stripe": by_time.stripe,
        "svix": by_time.svix,
        "telegram": by_header.telegram,
        "twilio": by_url.twilio,
        "typeform": by_header.plain("typeform-signature", prefix="sha256=", encoding="base64"),
        "woocommerce": by_header.named(
            "x-wc-webhook-signature", "x-wc-webhook-delivery-id", "x-wc-webhook-topic", encoding="base64"
        ),
        "xero": by_header.plain("x-xero-signature", encoding="base64"),
        "zendesk": by_time.zendesk,
        "zoom": by_time.zoom,
    }
)
