"""What a route of the user's own hands over is taken as it is, or refused by name before anything is decided on it."""

from __future__ import annotations

from typing import Any

import pytest

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.delivery import Delivery

PAIRS = [("X-Id", "1"), ("X-Id", "2")]


@pytest.mark.parametrize("pairs", [PAIRS, tuple(PAIRS), iter(PAIRS), dict(PAIRS).items(), [["X-Id", "2"]]])
def test_pairs_are_taken_from_wherever_they_come(pairs: Any) -> None:
    """Whatever a framework calls a list of pairs; a repeated header is kept where it was handed over."""
    delivery = Delivery.now("post", "", pairs, b"{}")
    assert delivery.method == "POST"
    assert delivery.headers.all("x-id")[-1] == "2"


@pytest.mark.parametrize(
    "headers",
    [dict(PAIRS), {"te": "x"}, Delivery.now("POST", "", PAIRS, b"").headers, [(b"x-id", b"1")]],
    ids=["a dict", "a dict that unpacks", "a mapping of ours", "bytes, as ASGI has them"],
)
def test_what_is_no_pairs_of_text_is_refused_by_name(headers: Any) -> None:
    """Every delivery of that route would be refused as unsigned otherwise, and the sender blamed for it."""
    with pytest.raises(ConfigurationError, match="headers are no pairs of text"):
        Delivery.now("POST", "", headers, b"{}")


@pytest.mark.parametrize("body", ["{}", bytearray(b"{}"), memoryview(b"{}"), None, {}])
def test_what_is_no_raw_body_is_refused_by_name(body: Any) -> None:
    """P-RAW: what was parsed, or may change under the signature's check, is not what was sent."""
    with pytest.raises(ConfigurationError, match="give the raw bytes"):
        Delivery.now("POST", "", [], body)
