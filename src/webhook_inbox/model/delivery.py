"""Describe one HTTP request as it came in, before anything is believed about it."""

from __future__ import annotations

from dataclasses import dataclass

from webhook_inbox.model.headers import Headers


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
