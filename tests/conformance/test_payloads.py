"""Every real payload that is an event of its provider is believed when signed, identified and typed by its source."""

from __future__ import annotations

from typing import Any

import pytest

from tests.deliveries import NOW
from tests.payload_events import FAMILIES, files
from tests.source_examples import URL
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.secret import secrets_of
from webhook_inbox.sources import Identity, Verified
from webhook_inbox.testing.signers import SIGNERS, Draft


@pytest.mark.parametrize("family", FAMILIES)
def test_every_event_is_believed_identified_and_typed(family: str) -> None:
    """By the id and the type that the provider gave it; where it gave no id, by its bytes."""
    name, make, secret, events, content_type, count = FAMILIES[family]
    source, seen = make(secret), 0
    for file, body, event_id, event_type in events():
        draft = Draft(body=body, secret=secret, event_id="guid-1", event_type=event_type, timestamp=NOW)
        signed = SIGNERS[name](draft)
        sent = Delivery(
            method="POST",
            url=URL,
            headers=Headers([content_type, *signed.headers]),
            body=signed.body,
            received_at=NOW,
        )
        assert signed.body == body, file
        assert source.verify(sent, secrets_of(source.secrets, setting="test")) == Verified("secret-1"), file
        (reading,) = source.identify(sent)
        assert isinstance(reading, Identity), (file, reading)
        assert reading.event_type == event_type, file
        parts = {part for part in ("account", "environment") if getattr(reading, part)}
        assert parts <= source.key_parts | source.optional_key_parts, file
        assert reading.event_id == event_id or (not event_id and reading.event_id.startswith("sha256:")), file
        seen += 1
    assert seen == count


def test_the_whole_folders_are_walked() -> None:
    """What SOURCES.md counts is what is there."""
    counts: dict[str, Any] = {
        folder: len(files(folder)) for folder in ("github", "slack", "shopify", "paddle")
    }
    assert counts == {"github": 272, "slack": 105, "shopify": 23, "paddle": 64}
