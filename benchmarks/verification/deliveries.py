"""Sign one event as every provider does: the same 3 KB, in the provider's shape where its signature asks for one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from urllib.parse import urlencode

from benchmarks.harness.events import event_body
from webhook_inbox import sources
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.secret import Secret, secrets_of
from webhook_inbox.sources import Source
from webhook_inbox.testing.key_pairs import PAIRS, Pair
from webhook_inbox.testing.signers import SIGNERS, Draft

_NOW = 1_767_225_600
_URL = "https://receiver.example.test/hooks/one"
_TOPIC = "arn:aws:sns:us-east-1:123456789012:Fake"
_EVENT = event_body(0)
_STANDARD = "whsec_ZmFrZS1iZW5jaG1hcmstc2VjcmV0LTMyYnl0ZXM="

# Secrets of a form; every other provider takes any text.
_SECRETS: Mapping[str, str] = MappingProxyType(
    {
        "adyen": "AB" * 32,
        "gitlab": _STANDARD,
        "postmark": "fake-user:fake-password",
        "standard-webhooks": _STANDARD,
        "stripe": "whsec_fake_benchmark",
    }
)
# Sources that are made of more than secrets.
_MADE: Mapping[str, Callable[[str], Source]] = MappingProxyType(
    {
        "paypal": lambda public: sources.PayPal("FAKEWEBHOOK1", certificates=public),
        "plaid": lambda public: sources.Plaid(keys=public),
        "sns": lambda public: sources.Sns(_TOPIC, certificates=public),
    }
)
# Bodies whose shape the signature asks for.
_BODIES: Mapping[str, bytes] = MappingProxyType(
    {
        "adyen": json.dumps(
            {
                "notificationItems": [
                    {"NotificationRequestItem": {"pspReference": "P1", "reason": _EVENT.decode()}}
                ]
            }
        ).encode(),
        "sns": json.dumps(
            {
                "Type": "Notification",
                "MessageId": "m-1",
                "TopicArn": _TOPIC,
                "Message": _EVENT.decode(),
            }
        ).encode(),
        "twilio": urlencode({"MessageSid": "SM1", "Body": _EVENT.decode()}).encode(),
    }
)


@dataclass(frozen=True, slots=True)
class Sent:
    """Hold a delivery, and who believes it."""

    source: Source
    secrets: Sequence[Secret]
    delivery: Delivery


@cache
def sent_by(kind: type[Source]) -> Sent:
    """Give one good delivery of this provider, and its source, with one secret."""
    name = kind.provider
    secret = _SECRETS.get(name, "fake-benchmark-secret")
    pair = PAIRS[name]() if name in PAIRS else Pair(secret, secret)
    source = _MADE.get(name, kind)(pair.public)
    draft = Draft(
        body=_BODIES.get(name, _EVENT),
        secret=pair.private,
        event_id="evt_1",
        event_type="charge.succeeded",
        timestamp=_NOW,
        url=_URL,
    )
    made = SIGNERS[name](draft)
    content_type = () if name == "twilio" else (("content-type", "application/json"),)
    headers = Headers([*content_type, *made.headers])
    delivery = Delivery(method="POST", url=_URL, headers=headers, body=made.body, received_at=_NOW)
    return Sent(source, secrets_of(source.secrets, setting=name), delivery)
