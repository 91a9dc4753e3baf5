"""
Read the signature vectors, and say which source each scheme is configured as.

Origin: made or checked with the official libraries named in each vector (``origin``, ``official_check``); those whose
id contains ``published`` repeat values printed in public documentation. All other secrets are made up.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.headers import Headers
from webhook_inbox.sources import Hmac, Source, StandardWebhooks, Stripe

Make: TypeAlias = Callable[[list[str]], Source]


@dataclass(frozen=True, slots=True)
class Vector:
    """
    Hold one request and what a verifier must say of it.

    Attributes:
        valid: True: believed; False: not; None: either is defensible.
        published: What the provider publishes to check its signatures with: a certificate, a JSON Web Key; or empty.
        official: Whether the provider's own library believed it; None where none was asked.
    """

    id: str
    scheme: str
    secrets: list[str]
    delivery: Delivery
    valid: bool | None
    code: str
    published: str
    official: bool | None


def _vector(given: dict[str, Any]) -> Vector:
    request = given["request"]
    return Vector(
        id=given["id"],
        scheme=given["scheme"],
        secrets=given["secrets"],
        published=published(given),
        delivery=Delivery(
            method=request["method"],
            url=request["url"],
            headers=Headers((name, value) for name, value in request["headers"]),
            body=base64.b64decode(request["body_b64"]),
            received_at=given["now"],
        ),
        valid=given["expect"]["valid"],
        code=given["expect"]["code"],
        official=given["official_check"]["verdict"].startswith("accept")
        if "official_check" in given
        else None,
    )


def published(given: dict[str, Any]) -> str:
    """Give the certificate or the key of a vector whose provider shares no secret."""
    material = given.get("public_material", {})
    return material.get("certificate_pem", "").strip() or json.dumps(material.get("jwk", ""))


def _load() -> dict[str, Vector]:
    text = (Path(__file__).parent / "data" / "signature-vectors.json").read_text()
    return {given["id"]: _vector(given) for given in json.loads(text)["vectors"]}


VECTORS: Mapping[str, Vector] = _load()


def _hmac(provider: str, header: str, **options: Any) -> Make:
    return lambda secrets: Hmac(provider, secrets=secrets, header=header, **options)


# One line for each scheme that these three sources express: provider and scheme, as the vectors name them.
SOURCES: Mapping[tuple[str, str], Make] = {
    ("stripe", "stripe-v1"): Stripe,
    ("standardwebhooks", "standard-webhooks-v1"): StandardWebhooks,
    ("openai", "standard-webhooks-v1"): StandardWebhooks,
    ("gitlab", "standard-webhooks-v1"): partial(StandardWebhooks, event_type="header:X-Gitlab-Event"),
    ("github", "hub-sha256"): _hmac("github", "X-Hub-Signature-256", prefix="sha256="),
    ("github", "hub-sha1"): _hmac("github", "X-Hub-Signature", prefix="sha1=", algorithm="sha1"),
    ("bitbucket", "hub-sha256"): _hmac("bitbucket", "X-Hub-Signature", prefix="sha256="),
    ("jira", "hub-sha256"): _hmac("jira", "X-Hub-Signature", prefix="sha256="),
    ("meta", "hub-sha256"): _hmac("meta", "X-Hub-Signature-256", prefix="sha256="),
    ("intercom", "hub-sha1"): _hmac("intercom", "X-Hub-Signature", prefix="sha1=", algorithm="sha1"),
    ("mollie", "mollie-sha256"): _hmac("mollie", "X-Mollie-Signature", prefix="sha256="),
    ("lemonsqueezy", "raw-sha256-hex"): _hmac("lemonsqueezy", "X-Signature"),
    ("shopify", "shopify-webhooks"): _hmac(
        "shopify",
        "X-Shopify-Hmac-Sha256",
        encoding="base64",
        event_id="header:X-Shopify-Event-Id",
        event_type="header:X-Shopify-Topic",
    ),
    ("shopify", "shopify-events"): _hmac("shopify", "Shopify-Hmac-Sha256", encoding="base64"),
    ("woocommerce", "raw-sha256-base64"): _hmac("woocommerce", "X-WC-Webhook-Signature", encoding="base64"),
    ("xero", "raw-sha256-base64"): _hmac("xero", "x-xero-signature", encoding="base64"),
    ("docusign", "numbered-headers-sha256-base64"): _hmac(
        "docusign", "X-DocuSign-Signature-1", encoding="base64"
    ),
    ("adyen", "adyen-body-hmac"): _hmac("adyen", "HmacSignature", encoding="base64", key="hex"),
    ("typeform", "sha256-base64-prefixed"): _hmac(
        "typeform", "Typeform-Signature", prefix="sha256=", encoding="base64"
    ),
    ("square", "square-url-body"): _hmac(
        "square", "x-square-hmacsha256-signature", encoding="base64", signed="{url}{body}"
    ),
    ("slack", "slack-v0"): _hmac(
        "slack",
        "X-Slack-Signature",
        prefix="v0=",
        signed="v0:{timestamp}:{body}",
        timestamp="header:X-Slack-Request-Timestamp",
        tolerance_seconds=300,
    ),
    ("zoom", "zoom-v0"): _hmac(
        "zoom",
        "x-zm-signature",
        prefix="v0=",
        signed="v0:{timestamp}:{body}",
        timestamp="header:x-zm-request-timestamp",
        tolerance_seconds=300,
    ),
    ("paddle", "paddle-h1"): _hmac(
        "paddle",
        "Paddle-Signature",
        separator=";",
        prefix="h1=",
        signed="{timestamp}:{body}",
        timestamp="part:ts",
        tolerance_seconds=5,
    ),
    ("calendly", "t-v1-csv"): _hmac(
        "calendly",
        "Calendly-Webhook-Signature",
        separator=",",
        prefix="v1=",
        signed="{timestamp}.{body}",
        timestamp="part:t",
        tolerance_seconds=180,
    ),
    ("zendesk", "ts-body-base64"): _hmac(
        "zendesk",
        "X-Zendesk-Webhook-Signature",
        encoding="base64",
        signed="{timestamp}{body}",
        timestamp="header:X-Zendesk-Webhook-Signature-Timestamp",
        timestamp_unit="iso",
        tolerance_seconds=300,
    ),
    ("linear", "linear-body-timestamp"): _hmac(
        "linear",
        "Linear-Signature",
        timestamp="$.webhookTimestamp",
        timestamp_unit="ms",
        tolerance_seconds=60,
    ),
    ("hubspot", "hubspot-v3"): _hmac(
        "hubspot",
        "X-HubSpot-Signature-v3",
        encoding="base64",
        signed="{method}{url}{body}{timestamp}",
        timestamp="header:X-HubSpot-Request-Timestamp",
        timestamp_unit="ms",
        tolerance_seconds=299,  # HubSpot's own code refuses at 300 already
    ),
}

# What the three sources cannot express: the number of vectors, and why. Sources of their own will take them.
ELSEWHERE: Mapping[str, tuple[int, str]] = {
    "adyen-item-hmac": (8, "one signature for each item, inside the body"),
    "ecdsa-p256-sha256": (10, "a public key"),
    "ed25519": (9, "a public key, but not in the form of Standard Webhooks"),
    "http-basic": (3, "a password, no signature"),
    "hubspot-v1": (2, "a bare hash, no HMAC"),
    "hubspot-v2": (1, "a bare hash, no HMAC"),
    "mailgun-body-signature": (7, "a signature inside the body that leaves the event out"),
    "paypal-rsa-crc32": (6, "a certificate"),
    "plaid-jwt-es256": (9, "a JWT"),
    "shared-token": (8, "a password, no signature"),
    "sns-rsa": (9, "a certificate"),
    "twilio-url-params": (15, "sorted form parameters"),
    "unsigned-id-only": (1, "nothing is signed"),
}


def provider_of(vector: Vector) -> str:
    """Give the part of the id before the slash."""
    return vector.id.partition("/")[0]


def expressible() -> list[Vector]:
    """Give every vector whose scheme one of the sources expresses."""
    return [vector for vector in VECTORS.values() if (provider_of(vector), vector.scheme) in SOURCES]
