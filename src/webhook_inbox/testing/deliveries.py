"""Make the request that a provider would send, signed for the source that shall believe it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, TypeAlias, TypedDict
from urllib.parse import urlencode

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.secret import Secret, secrets_of
from webhook_inbox.sources.generic import Hmac
from webhook_inbox.sources.source import Source
from webhook_inbox.testing.key_pairs import pair_of
from webhook_inbox.testing.signers import SIGNERS, TYPE_IN_HEADER, Draft, Signed, Signer
from webhook_inbox.testing.signers.described import Description, signer_of

# pytest shows the test's own line, and none of ours, where something is used wrongly.
__tracebackhide__ = True

Payload: TypeAlias = bytes | str | Mapping[str, Any] | Sequence[Any]
URL = "https://testserver/"


class Sending(TypedDict, total=False):
    """Type the options of a delivery; meanings and defaults are those of ``signed``."""

    type: str
    id: str
    secret: str
    url: str
    sent_at: float | None


def signed(
    source: Source,
    payload: Payload,
    *,
    type: str = "",
    id: str = "",
    secret: str = "",
    url: str = URL,
    sent_at: float | None = None,
    signer: Signer | None = None,
) -> Signed:
    """
    Make the delivery that the provider of *source* would send, for any HTTP client: ``post(body, headers)``.

    Args:
        source: The endpoint's own, as it is configured.
        payload: What the provider sends: bytes as they are, or what shall be written as JSON (of Twilio: a form).
        type: Of the event, where the provider sends that in a header: Bitbucket, GitHub, GitLab, Shopify, WooCommerce.
        id: Of the event, where the provider sends that in a header; the same bytes are the same event unless told.
        secret: What to sign with, if not the first secret of *source*. Where the provider signs with a private key, it
            is the private half of a pair of ``key_pairs``, and *source* has the public one.
        url: Where it is sent; some providers sign it. A ``public_url`` of *source* comes before it.
        sent_at: Unix seconds of the sending; now, unless told.
        signer: Signs, for a source of your own.

    Returns:
        Headers, ``content-type`` among them, and body.

    Raises:
        ConfigurationError: It cannot be signed so; the text says what to give.
    """
    provider = source.provider
    sign = signer or _signer_of(source)
    if provider in TYPE_IN_HEADER and not type:
        raise ConfigurationError(f"{provider} sends the type of an event in a header: give type=...")
    body = body_of(payload, form=provider == "twilio")
    draft = Draft(
        body=body,
        secret=secret or _secret_of(source),
        event_id=id or f"evt_{sha256(body).hexdigest()[:24]}",
        event_type=type,
        timestamp=int(time.time() if sent_at is None else sent_at),
        url=getattr(source, "public_url", "") or url,
    )
    made = sign(draft)
    if any(name == "content-type" for name, _ in made.headers):
        return made
    return replace(made, headers=(("content-type", _content_type(made.body)), *made.headers))


def body_of(payload: Payload, *, form: bool = False) -> bytes:
    """Give the bytes of *payload*: as they are, or written as compact JSON, or as a form."""
    if isinstance(payload, bytes):
        return payload
    if isinstance(payload, str):
        return payload.encode()
    if form and isinstance(payload, Mapping):
        return urlencode(payload).encode()
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()


def believe_test_keys(source: Source) -> str:
    """
    Have a source that believes a private key believe a test's; give that key, empty where there is none to give.

    What the source believed is in ``source.secrets``, to be put back.
    """
    pair = pair_of(source)
    if pair is None:
        return ""
    source.secrets = (Secret(pair.public, label="test"),)
    return pair.private


def _signer_of(source: Source) -> Signer:
    if source.provider in SIGNERS:
        return SIGNERS[source.provider]
    if isinstance(source, Hmac):
        return signer_of(Description.of(source))
    raise ConfigurationError(
        f"nobody knows how {source.provider} signs: give signer=..., a function from a Draft to a Signed"
    )


def _secret_of(source: Source) -> str:
    if pair_of(source) is not None:
        raise ConfigurationError(
            f"{source.provider} signs with a private key: configure the public half of a pair of "
            "webhook_inbox.testing.key_pairs, and give secret=..., the private one"
        )
    if callable(source.secrets):
        raise ConfigurationError(
            f"the secrets of {source.provider} are asked for with each delivery: say which one signs, secret=..."
        )
    return secrets_of(source.secrets, setting=f"{source.provider}: secrets")[0].reveal()


def _content_type(body: bytes) -> str:
    json_like = body.lstrip()[:1] in {b"{", b"["}
    return "application/json" if json_like else "application/x-www-form-urlencoded"
