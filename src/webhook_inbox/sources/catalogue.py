"""
List every source that can be used by name, and describe one from its class alone.

``docs/reference/sources.md`` and ``webhook-inbox sources`` are made from this.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# The file of each class in this room, by the class's public name.
HOMES: Mapping[str, str] = MappingProxyType(
    {
        "Adyen": "adyen",
        "Bitbucket": "bitbucket",
        "Calendly": "calendly",
        "DocuSign": "docusign",
        "GitHub": "github",
        "GitLab": "gitlab",
        "Hmac": "generic",
        "Intercom": "intercom",
        "Jira": "jira",
        "LemonSqueezy": "lemonsqueezy",
        "Linear": "linear",
        "Mailgun": "mailgun",
        "Meta": "meta",
        "Mollie": "mollie",
        "Paddle": "paddle",
        "Postmark": "postmark",
        "Shopify": "shopify",
        "Slack": "slack",
        "StandardWebhooks": "standard_webhooks",
        "Stripe": "stripe",
        "Telegram": "telegram",
        "Typeform": "typeform",
        "WooCommerce": "woocommerce",
        "Xero": "xero",
        "Zendesk": "zendesk",
        "Zoom": "zoom",
    }
)
