"""
Say which class a vector's provider is configured as, and what each of them asks for beside secrets.

A provider that is missing here is counted as missing by ``test_source_vectors.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from webhook_inbox import sources
from webhook_inbox.sources import Source

SNS_TOPIC = "arn:aws:sns:us-east-1:123456789012:Fake"
Make: TypeAlias = Callable[[list[str]], Source]

# The vectors' name of a provider (what stands before the slash in their ids), and the class.
CLASSES: Mapping[str, Make] = {
    "adyen": sources.Adyen,
    "bitbucket": sources.Bitbucket,
    "calendly": sources.Calendly,
    "discord": sources.Discord,
    "docusign": sources.DocuSign,
    "github": sources.GitHub,
    "gitlab": sources.GitLab,
    "hubspot": sources.HubSpot,
    "intercom": sources.Intercom,
    "jira": sources.Jira,
    "lemonsqueezy": sources.LemonSqueezy,
    "linear": sources.Linear,
    "mailgun": sources.Mailgun,
    "meta": sources.Meta,
    "mollie": sources.Mollie,
    "openai": sources.StandardWebhooks,
    "paddle": sources.Paddle,
    "postmark": sources.Postmark,
    "sendgrid": sources.SendGrid,
    "shopify": sources.Shopify,
    "slack": sources.Slack,
    "square": sources.Square,
    "standardwebhooks": sources.StandardWebhooks,
    "stripe": sources.Stripe,
    "telegram": sources.Telegram,
    "twilio": sources.Twilio,
    "typeform": sources.Typeform,
    "woocommerce": sources.WooCommerce,
    "xero": sources.Xero,
    "zendesk": sources.Zendesk,
    "zoom": sources.Zoom,
}

# The same where the signature is checked with what the provider publishes; it stands here as if it had been fetched.
PUBLISHED: Mapping[str, Callable[[list[str], str], Source]] = {
    "paypal": lambda webhook_ids, certificate: sources.PayPal(webhook_ids, certificates=certificate),
    "plaid": lambda _, key: sources.Plaid(keys=key),
    "sns": lambda _, certificate: sources.Sns(SNS_TOPIC, certificates=certificate),
}

# By scheme: what counts only where the source is told so.
TOLD: Mapping[str, Make] = {
    "hubspot-v1": lambda secrets: sources.HubSpot(secrets, version="v1"),
    "hubspot-v2": lambda secrets: sources.HubSpot(secrets, version="v2"),
}

# Where the provider's protocol asks for another status than 400.
REFUSED_WITH: Mapping[str, int] = {"discord": 401, "postmark": 401, "xero": 401}

# What we say where the vectors leave it open; docs/explanation/signatures.md tells users.
EITHER = {
    "github/valid-legacy-sha1": False,  # unless the source is told to read SHA-1: see below
    "mollie/no-prefix": False,
    "openai/bare-base64-without-v1": False,
    "paddle/unknown-key-h2": True,
    "standardwebhooks/malformed-signature-double-space": True,
}
# Where the provider's own library says otherwise of the same request, and why ours does not follow it.
UNLIKE_OFFICIAL = {
    "adyen/second-item-forged": "the library looks at the first item alone",
    "github/valid-legacy-sha1": "SHA-1 counts only where the source is told to read it",
    "hubspot/v3-future-1h": "the library bounds the past alone",
    "hubspot/v3-valid-encoded-query": "the page says which escapes are decoded, the library decodes none",
    "mollie/no-prefix": "the header has one form: sha256= and the digest",
    "openai/bare-base64-without-v1": "an entry without its version is no entry of the specification",
    "paddle/unknown-key-h2": "the library raises ValueError; another version beside h1 is passed over",
    "shopify/missing-topic": "authentic, so it is believed, and quarantined for want of a type",
    "standardwebhooks/float-timestamp": "a time is whole digits: the text that was signed, not a number near it",
    "standardwebhooks/malformed-signature-double-space": "the library raises ValueError; between blanks is no entry",
    "stripe/future-1h": "the library bounds the past alone",
    "stripe/non-utf8-body": "the library raises UnicodeDecodeError; the bytes were signed, so they are kept",
}
