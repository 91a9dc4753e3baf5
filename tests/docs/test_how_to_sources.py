"""The page about sources of one's own runs as it stands."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.deliveries import NOW, delivery, verdict
from webhook_inbox.sources import Verified
from webhook_inbox.testing.signing import sign_hmac
from webhook_inbox.testing.source_conformance import CHECKS, Example

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "write-a-source.md"


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the page's blocks define, run in their order."""
    found: dict[str, Any] = {"__name__": "page"}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), found)  # noqa: S102 - the page is ours
    return found


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_page_s_source_keeps_what_is_asked_of_it(
    names: dict[str, Any], check: Callable[[Example], None]
) -> None:
    """Whoever copies it begins with something that is right."""
    check(names["EXAMPLE"])


def test_the_page_s_description_believes_its_provider(names: dict[str, Any]) -> None:
    """The other way, without code."""
    body = b'{"id":"evt_1","type":"order.paid"}'
    signed = sign_hmac(
        body, "fake-acme-secret", "x-acme-signature", prefix=f"t={NOW},v1=", before=f"{NOW}.".encode()
    )
    assert isinstance(verdict(names["acme"], delivery(body, signed)), Verified)
    (reading,) = names["acme"].identify(delivery(body, signed))
    assert (reading.event_id, reading.event_type) == ("evt_1", "order.paid")
