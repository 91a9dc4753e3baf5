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
        "Bitbucket": "bitbucket",
        "Hmac": "generic",
        "StandardWebhooks": "standard_webhooks",
        "Stripe": "stripe",
    }
)
