"""
Say which class a vector's provider is configured as, and what each of them asks for beside secrets.

A provider that is missing here is counted as missing by ``test_source_vectors.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from webhook_inbox import sources
from webhook_inbox.sources import Source

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
    "sns": lambda secrets: sources.Sns("arn:aws:sns:us-east-1:123456789012:Fake", certificates=secrets),
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

# By scheme: what counts only where the source is told so.
TOLD: Mapping[str, Make] = {
    "hubspot-v1": lambda secrets: sources.HubSpot(secrets, version="v1"),
    "hubspot-v2": lambda secrets: sources.HubSpot(secrets, version="v2"),
}

# Where the provider's protocol asks for another status than 400.
REFUSED_WITH: Mapping[str, int] = {"discord": 401, "postmark": 401, "xero": 401}
