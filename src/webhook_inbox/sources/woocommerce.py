"""
Recognise WooCommerce: HMAC-SHA256 of the body in base64; the body is the resource, so id and topic stand in headers.

The delivery id is made of the webhook's id and the current second: two deliveries within a second share it. So the
event id is the delivery id together with the bytes of the body. WooCommerce never sends twice, so nothing that it sends
can be taken for a copy of something else, and what a proxy sends twice is one event.

Source: WooCommerce's source code, ``includes/class-wc-webhook.php``.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Literal

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.form import is_form
from webhook_inbox.model.secret import SecretsGiven
from webhook_inbox.sources.facts import Fact, Facts
from webhook_inbox.sources.naming import naming_of
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.scheme import scheme_of
from webhook_inbox.sources.source import Answer

_CODE = "WooCommerce's source code, includes/class-wc-webhook.php"
_HEADER = "X-WC-Webhook-Signature"
_PING = re.compile(rb"webhook_id=[1-9][0-9]{0,18}")
_SCHEMES = MappingProxyType(
    {
        "sha256": scheme_of(header=_HEADER, encoding="base64"),
        "sha512": scheme_of(header=_HEADER, encoding="base64", algorithm="sha512"),
    }
)


class WooCommerce(Provider):
    """
    Believe what a WooCommerce shop signed with one of *secrets*.

    The ping that a shop sends when a webhook is made carries no signature; it is answered 200 and nothing comes of it.

    Args:
        secrets: The webhook's secret; several while one is being rolled; or a callable asked per request.
        algorithm: ``sha512`` where the shop's filter ``woocommerce_webhook_hash_algorithm`` says so.

    Raises:
        ConfigurationError: No secret, or another algorithm.
    """

    provider = "woocommerce"
    redelivers = False
    signed_id = False
    naming = naming_of(
        event_id=("header:X-WC-Webhook-Delivery-ID", "digest"), event_type="header:X-WC-Webhook-Topic"
    )
    facts = Facts(
        title="WooCommerce",
        signature=Fact(
            "`X-WC-Webhook-Signature: BASE64`, HMAC-SHA256 of the body; a filter of the shop can change the hash",
            _CODE,
        ),
        secret=Fact("text, one for each webhook", _CODE),
        event_id=Fact(
            "none is safe: header `X-WC-Webhook-Delivery-ID` repeats within a second. With the bytes it is the id",
            _CODE,
        ),
        event_type=Fact("header `X-WC-Webhook-Topic`", _CODE),
        window=Fact("no time is signed", _CODE),
        handshake=Fact("an unsigned form `webhook_id=N` when a webhook is made; exactly 200", _CODE),
        answer=Fact("2xx, 301 or 302 within 60 s", _CODE, 60),
        retries=Fact("none; more than 5 failures in a row disable the webhook", _CODE, 0),
        past_events=Fact("none in the code read; compare with the shop's own API", _CODE),
        list_api=False,
        weaknesses=(
            "Neither time nor topic nor id are signed: whoever holds one signed body can send it under others.",
            "Nothing is sent again after a failure: use queued or hybrid mode.",
            "A deleted resource comes as `{id}` alone.",
        ),
    )

    def __init__(self, secrets: SecretsGiven, *, algorithm: Literal["sha256", "sha512"] = "sha256") -> None:
        if algorithm not in _SCHEMES:
            raise ConfigurationError("WooCommerce(algorithm=...) must be 'sha256' or 'sha512'")
        self.scheme = _SCHEMES[algorithm]
        super().__init__(secrets)

    def greet(self, delivery: Delivery) -> Answer | None:
        """Give 200 to the ping, which is a form, unsigned and of this one shape."""
        unsigned = _HEADER.lower() not in delivery.headers
        if unsigned and is_form(delivery.headers) and _PING.fullmatch(delivery.body):
            return Answer()
        return None
