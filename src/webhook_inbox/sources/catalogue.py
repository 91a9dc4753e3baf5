"""
List every source that can be used by name, and describe one from its class alone.

``docs/reference/sources.md`` and ``webhook-inbox sources`` are made from this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from webhook_inbox.sources.source import Source

# The file of each class in this room, by the class's public name.
HOMES: Mapping[str, str] = MappingProxyType(
    {
        "Adyen": "adyen",
        "Bitbucket": "bitbucket",
        "Calendly": "calendly",
        "Discord": "discord",
        "DocuSign": "docusign",
        "GitHub": "github",
        "GitLab": "gitlab",
        "Hmac": "generic",
        "HubSpot": "hubspot",
        "Intercom": "intercom",
        "Jira": "jira",
        "LemonSqueezy": "lemonsqueezy",
        "Linear": "linear",
        "Mailgun": "mailgun",
        "Meta": "meta",
        "Mollie": "mollie",
        "Paddle": "paddle",
        "PayPal": "paypal",
        "Plaid": "plaid",
        "Postmark": "postmark",
        "SendGrid": "sendgrid",
        "Shopify": "shopify",
        "Slack": "slack",
        "Sns": "sns",
        "Square": "square",
        "StandardWebhooks": "standard_webhooks",
        "Stripe": "stripe",
        "Telegram": "telegram",
        "Twilio": "twilio",
        "Typeform": "typeform",
        "WooCommerce": "woocommerce",
        "Xero": "xero",
        "Zendesk": "zendesk",
        "Zoom": "zoom",
    }
)


def source_class(name: str) -> type[Source]:
    """
    Give the class of this public *name*; its file is imported only now: a program uses two of them, not all.

    Raises:
        KeyError: There is none.
    """
    found: type[Source] = getattr(import_module(f"webhook_inbox.sources.{HOMES[name]}"), name)
    return found


def providers() -> tuple[type[Source], ...]:
    """Give the class of every provider that is known by name, in the order of their names in lower case."""
    classes = [source_class(name) for name in sorted(HOMES, key=str.lower)]
    return tuple(each for each in classes if each.facts is not None)


def describe(source: type[Source]) -> dict[str, Any]:
    """
    Give all that a provider's class says about it, ready for JSON.

    Args:
        source: One of ``providers``.

    Returns:
        ``name`` (of the class), ``provider``, what ``Source`` documents as attributes, and the members of ``Facts``;
        each fact is ``text``, ``source`` and ``seconds``, its text empty where it is not confirmed.
    """
    facts = asdict(source.facts) if source.facts else {}
    return {
        "name": source.__name__,
        "provider": source.provider,
        "redelivers": source.redelivers,
        "signed_id": source.signed_id,
        "reconciles": source.reconciles,
        "body_bytes_max": source.body_bytes_max,
        "success_status": source.success_status,
        **facts,
    }
