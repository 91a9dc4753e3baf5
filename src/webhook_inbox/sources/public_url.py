"""
Find the URL that a provider has signed: the one to which it sent, which is not always the one that arrived here.

Either the user says what it is, or it is taken as the HTTP server rebuilt it: from the request alone, unless the server
was started with the addresses of the proxies whose headers it may believe. No header is looked at here.

A query comes through every proxy unchanged, so it is always that of the request.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.secret import Secret
from webhook_inbox.sources.scheme import Scheme
from webhook_inbox.sources.source import Rejected, Verdict, Verified

_PUBLIC_URL = re.compile(r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?/[!-~]*")
_SHOWN_CHARS_MAX = 80


def check_public_url(url: str, *, setting: str) -> str:
    """
    Give *url* if it can be the beginning of a signed URL, or empty: as rebuilt from each request.

    Raises:
        ConfigurationError: No URL, or one with credentials, query or fragment.
    """
    if not url or (_PUBLIC_URL.fullmatch(url) and not re.search(r"[?#{]", url)):
        return url
    raise ConfigurationError(
        f"{setting} must read like 'https://hooks.example.com/path', as the provider was given it, "
        "without credentials, query and fragment"
    )


def signed_url(delivery: Delivery, public_url: str) -> str:
    """Give the URL that the provider has signed for this delivery."""
    _, mark, query = delivery.url.partition("?")
    return f"{public_url}{mark}{query}" if public_url else delivery.url


def url_mismatch(delivery: Delivery, url: str) -> Rejected:
    """Refuse a signature that none of the secrets made over this body and *url*, which is shown without its query."""
    shown = ascii(url.partition("?")[0])[1:-1][:_SHOWN_CHARS_MAX]
    return Rejected(
        "signature_mismatch",
        f"the signature does not match these {len(delivery.body)} bytes sent to {shown}; "
        "if that is not the URL that the provider has, set public_url",
    )


def verify_with_url(scheme: Scheme, delivery: Delivery, secrets: Sequence[Secret], url: str) -> Verdict:
    """
    Hold a signature over *url* and a JSON body, nothing between them, against each secret (P-RAW).

    What begins the body stands in no URL; so one signature cannot be cut in two places, and be good for two bodies.
    """
    verdict = scheme.verify(replace(delivery, url=url), secrets)
    if isinstance(verdict, Verified) and ("{" in url or not delivery.body.startswith((b"{", b"["))):
        return url_mismatch(delivery, url)
    if isinstance(verdict, Rejected) and verdict.reason == "signature_mismatch":
        return url_mismatch(delivery, url)
    return verdict
