"""Hold a delivery before and after it is signed, and write what is signed inside its body."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from webhook_inbox.testing.signing import HeaderPairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """
    Hold what is to be sent, before it is signed.

    Attributes:
        body: The payload.
        secret: What the provider signs with; where it is a private key, as ``key_pairs`` makes it, the receiver has the
            public half.
        event_id: For providers that name the event outside its body; the same on every attempt.
        event_type: For providers that name its type outside its body; empty elsewhere.
        timestamp: Unix seconds of this attempt.
        url: Where it is sent; some providers sign it.
    """

    body: bytes
    secret: str
    event_id: str
    timestamp: int
    event_type: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class Signed:
    """Hold a delivery: its headers (beside ``content-type`` where that is JSON), and its body."""

    headers: HeaderPairs
    body: bytes


Signer: TypeAlias = Callable[[Draft], Signed]


def json_object(body: bytes, provider: str) -> dict[str, Any]:
    """
    Read a body that is signed inside.

    Raises:
        TypeError: It is no JSON object.
    """
    payload = json.loads(body)
    if not isinstance(payload, dict):
        raise TypeError(f"{provider} signs inside the body, which must be a JSON object")
    return payload


def written(payload: Mapping[str, Any]) -> bytes:
    """Write JSON as compactly as providers do."""
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
