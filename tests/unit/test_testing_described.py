"""What the signer of a description signs, the source so described believes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.deliveries import NOW, delivery, verdict
from webhook_inbox.sources import Hmac, Rejected, Verified
from webhook_inbox.testing.signers import Draft
from webhook_inbox.testing.signers.described import Description, signer_of

BODY = b'{"id":"evt_1","type":"order.paid","meta":{"sent":0},"text":"{timestamp}{url}"}'
DESCRIPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "base64 key and digest": {
        "key": "base64",
        "key_prefix": "k_",
        "encoding": "base64",
        "secrets": "k_ZmFrZQ==",
    },
    "hex key, upper case": {"key": "hex", "encoding": "hex-upper", "algorithm": "sha512", "secrets": "fa4e"},
    "time in a header": {
        "signed": "v0:{timestamp}:{body}",
        "timestamp": "header:X-Time",
        "tolerance_seconds": 5,
    },
    "time in a part": {
        "signed": "{timestamp}.{body}",
        "timestamp": "part:t",
        "separator": ",",
        "prefix": "v1=",
        "timestamp_unit": "ms",
        "tolerance_seconds": 5,
    },
    "time in the body": {"timestamp": "$.meta.sent", "tolerance_seconds": 5},
    "ISO 8601": {
        "signed": "{timestamp}{body}",
        "timestamp": "header:X-Time",
        "timestamp_unit": "iso",
        "tolerance_seconds": 5,
    },
    "id, method and URL": {
        "signed": "{method} {url} {id} {body}",
        "event_id": "header:X-Id",
        "event_type": "header:X-Type",
    },
}


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_what_a_description_signs_is_believed(name: str) -> None:
    """And one byte more is not; id and type stand where the description has them."""
    given = {"secrets": "fake-secret", "header": "X-Acme-Signature", **DESCRIPTIONS[name]}
    source = Hmac("acme", **given)
    draft = Draft(
        body=BODY,
        secret=given["secrets"],
        event_id="evt_1",
        event_type="order.paid",
        timestamp=NOW,
        url="https://receiver.example.test/hooks/one?a={body}",
    )
    signed = signer_of(Description.of(source))(draft)
    sent = replace(delivery(signed.body, signed.headers), url=draft.url)
    assert verdict(source, sent) == Verified("secret-1")
    assert isinstance(verdict(source, replace(sent, body=signed.body + b" ")), Rejected)
    (reading,) = source.identify(sent)
    assert (getattr(reading, "event_id", ""), getattr(reading, "event_type", "")) == ("evt_1", "order.paid")
    assert json.loads(signed.body)["text"] == "{timestamp}{url}"
