"""
Sign deliveries as the providers do: for users' tests, for ``webhook-inbox send`` and for the demo.

Written from the providers' own texts and sharing no code with ``webhook_inbox.sources``: a mistake made in one of the
two shows as a delivery that is refused, not as two mistakes that agree.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TypeAlias

HeaderPairs: TypeAlias = tuple[tuple[str, str], ...]


def sign_stripe(body: bytes, secret: str, timestamp: int) -> HeaderPairs:
    """
    Sign *body* as Stripe does.

    Args:
        secret: The endpoint's signing secret, ``whsec_`` included.
        timestamp: Unix seconds of the sending.

    Source: docs.stripe.com/webhooks, "Verify webhook signatures manually".
    """
    payload = str(timestamp).encode("ascii") + b"." + body
    digest = hmac.new(secret.encode("utf-8"), payload, hashlib.sha256).hexdigest()
    return (("stripe-signature", f"t={timestamp},v1={digest}"),)
