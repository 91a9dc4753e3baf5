"""Describe one HTTP request as it came in, before anything is believed about it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.headers import HeaderPairs, Headers


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """
    Hold one request: nothing in it is verified yet (P-RAW).

    Attributes:
        method: ``POST``, or ``GET``/``HEAD`` for handshakes.
        url: As the client asked for it, query included; some providers sign it.
        headers: Every pair as sent.
        body: The exact bytes.
        received_at: Unix seconds on the host's clock; used for the signature's tolerance and nothing else (P-CLOCK).
    """

    method: str
    url: str
    headers: Headers
    body: bytes
    received_at: float

    @classmethod
    def now(cls, method: str, url: str, headers: HeaderPairs, body: bytes) -> Self:
        """
        Take what a route of the user's own has read.

        Raises:
            ConfigurationError: The body is not the raw bytes, or the headers are no pairs of text.
        """
        if not isinstance(body, bytes):
            raise ConfigurationError(
                f"body is a {type(body).__name__}; give the raw bytes of the request, before any parsing"
            )
        pairs = list(headers)
        if isinstance(headers, Mapping) or not all(isinstance(text, str) for pair in pairs for text in pair):
            raise ConfigurationError(
                "headers are no pairs of text; give every name and value that was sent, as request.headers.items() "
                "of most frameworks, and decode bytes as latin-1"
            )
        return cls(method=method.upper(), url=url, headers=Headers(pairs), body=body, received_at=time.time())
