"""What an audit forges is forged: every source refuses it, and takes what is genuine."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.deliveries import verdict
from tests.source_examples import EXAMPLES
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.sources import Rejected, Verified
from webhook_inbox.testing.audit.sample import AuditEvent
from webhook_inbox.testing.audit.signing import Signatory, changed, cut, emptied, flipped, without
from webhook_inbox.testing.key_pairs import PAIRS
from webhook_inbox.testing.signers import Signed

JSON_EXAMPLES = sorted(
    name for name, each in EXAMPLES.items() if each.request(0).body.startswith((b"{", b"["))
)
CHANGES: dict[str, Callable[[str], str]] = {
    "empty": lambda _: "",
    "emptied": emptied,
    "all but the end": partial(cut, part=1),
    "half": partial(cut, part=0.5),
    "one character": partial(cut, part=0),
    "flipped": partial(flipped, chance=random.Random(1)),
}


def signatory_of(name: str) -> tuple[Signatory, AuditEvent]:
    """Who signs for an example, and its event."""
    example = EXAMPLES[name]
    source, _, _ = name.partition(",")
    secret = PAIRS[source]().private if source in PAIRS else example.secret
    delivery = example.request(1_767_225_600)
    return Signatory(source, secret, "a.type", delivery.url), AuditEvent("evt_1", delivery.body, {})


def asked(name: str, signed: Signed) -> Verified | Rejected:
    """What the source says now."""
    example = EXAMPLES[name]
    url = example.request(0).url
    return verdict(example.make([example.secret]), Delivery.now("POST", url, signed.headers, signed.body))


def forged(name: str) -> Iterator[tuple[str, Signed]]:
    """Every delivery that must not be believed."""
    signatory, event = signatory_of(name)
    genuine, headers = signatory.sign(event), signatory.signature_headers(event)
    yield "other secret", signatory.sign(event, secret=signatory.other_secret)
    if headers:
        yield "missing", without(genuine, headers)
    for what, change in CHANGES.items():
        if headers:
            yield what, changed(genuine, headers, change)
    if signatory.keeps_body(event) and signatory.covers_body(event):
        yield "other body", Signed(genuine.headers, event.with_member('"audit_forged":1'))
    tolerance_seconds = EXAMPLES[name].tolerance_seconds
    if signatory.covers_time(event) and tolerance_seconds:
        late_seconds = 2 * int(tolerance_seconds)
        yield "stale", signatory.sign(event, late_seconds=late_seconds)
        yield "early", signatory.sign(event, late_seconds=-late_seconds)


@pytest.mark.parametrize("name", JSON_EXAMPLES)
def test_what_is_genuine_is_believed_and_what_is_forged_is_not(name: str) -> None:
    """P-RAW: else a finding of the audit would be its own mistake."""
    signatory, event = signatory_of(name)
    assert isinstance(asked(name, signatory.sign(event)), Verified)
    believed = [what for what, signed in forged(name) if isinstance(asked(name, signed), Verified)]
    assert believed == []


def test_most_sources_have_a_signature_that_can_be_forged_in_each_way() -> None:
    """A way that applied to none would be tried on none."""
    ways = [{what for what, _ in forged(name)} for name in JSON_EXAMPLES]
    for what in (*CHANGES, "other secret", "missing", "other body"):
        assert sum(what in each for each in ways) > len(ways) / 2, what
    assert sum("stale" in each for each in ways) > 5


@pytest.mark.parametrize(
    ("secret", "form"),
    [
        ("whsec_ZmFrZS1zdGFuZGFyZC13ZWJob29rcy1r", r"whsec_[A-Za-z0-9+/]{32}"),
        ("FA4E" * 16, r"[0-9A-F]{64}"),
        ("fake-for-trying-only", r"[A-Z-]{20}"),
        ("-", r"-\S+"),
    ],
)
def test_another_secret_has_the_same_form(secret: str, form: str) -> None:
    """And is another one."""
    other = Signatory("stripe", secret, "", "").other_secret
    assert other != secret
    assert re.fullmatch(form, other)
