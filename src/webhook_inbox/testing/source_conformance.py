"""
Hold a source against what every source must do; ours are held to the same.

    from webhook_inbox.testing.source_conformance import CHECKS, Example

    EXAMPLE = Example(make=Acme, secret="fake-acme-secret", other_secret="fake-other-secret", request=acme_delivery,
                      event_ids=("evt_1",), event_types=("order.paid",), signature_headers=("x-acme-signature",))

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_acme(check):
        check(EXAMPLE)

A check raises ``AssertionError`` with a sentence that says what is wrong; it never quotes a secret or a body (P-QUIET).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.secret import secrets_of
from webhook_inbox.sources.source import Identity, Reading, Rejected, Source, Unreadable, Verified
from webhook_inbox.testing.tampering import (
    HOSTILE_BODIES,
    HOSTILE_TEXTS,
    flips,
    other_digests,
    other_labels,
    with_header,
)

SENT_AT = 1_767_225_600  # 2026-01-01T00:00:00Z


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """
    Describe one delivery of a provider, and what is to be read from it.

    Attributes:
        make: Makes the source from secrets.
        secret: That the provider signs with.
        other_secret: Another of the same form.
        request: Gives the delivery as the provider sends it at these Unix seconds; each time the same events.
        event_ids: Of the events in it, in the body's order.
        event_types: Of the same.
        signature_headers: Those in which every bit counts; empty where the signature stands in the body.
        covers_body: Whether every bit of the body counts too.
        tolerance_seconds: How far the signed time may lie from the host's clock; None where no time is signed.
        names_algorithm: Whether the header says by which of several algorithms it is signed, so that each counts.
        repeats_headers: Whether the provider sends a signature header more than once, so that each counts.
        same_ids_again: Whether a redelivery has the same ids; only for a provider that tells two events apart by
            nothing but the time of their sending, it has not.
    """

    make: Callable[[Sequence[str]], Source]
    secret: str
    other_secret: str
    request: Callable[[int], Delivery]
    event_ids: tuple[str, ...]
    event_types: tuple[str, ...]
    signature_headers: tuple[str, ...]
    covers_body: bool = True
    tolerance_seconds: float | None = None
    names_algorithm: bool = False
    repeats_headers: bool = False
    same_ids_again: bool = True

    @property
    def delivery(self) -> Delivery:
        """Give the delivery, sent at a fixed time."""
        return self.request(SENT_AT)

    def verdict(self, delivery: Delivery, *secrets: str) -> Verified | Rejected:
        """Ask whether *delivery* is believed, with *secrets* or the provider's own."""
        source = self.make(secrets or (self.secret,))
        return source.verify(delivery, secrets_of(source.secrets, setting="secrets"))

    def readings(self, delivery: Delivery) -> tuple[Reading, ...]:
        """Ask which events are in *delivery*."""
        return self.make((self.secret,)).identify(delivery)


def believes_what_is_signed(example: Example) -> None:
    """Have the delivery believed, with the label of the secret that signed it."""
    _must(example.verdict(example.delivery) == Verified("secret-1"), "a good delivery is not believed")
    second = example.verdict(example.delivery, example.other_secret, example.secret)
    _must(second == Verified("secret-2"), "the second of two secrets does not count, or is called the first")


def names_every_event(example: Example) -> None:
    """Have every event named, the same way in every copy of the delivery."""
    readings = example.readings(example.delivery)
    events = [reading for reading in readings if isinstance(reading, Identity)]
    _must(len(events) == len(readings), "an event of the delivery cannot be read")
    _must(tuple(each.event_id for each in events) == example.event_ids, "the ids are not those expected")
    _must(
        tuple(each.event_type for each in events) == example.event_types, "the types are not those expected"
    )
    again = example.readings(example.request(SENT_AT + 1))
    ids = tuple(reading.event_id for reading in again if isinstance(reading, Identity))
    _must(ids == example.event_ids or not example.same_ids_again, "a redelivery has another id")
    copy = example.readings(replace(example.delivery, received_at=SENT_AT + 1))
    _must(copy == readings, "the same bytes have another id when they come later")


def gives_each_event_its_own_bytes(example: Example) -> None:
    """Have the spans of several events lie inside the body, in its order, none twice."""
    body, at = example.delivery.body, 0
    spans = [reading.span for reading in example.readings(example.delivery)]
    _must(len(spans) == 1 or None not in spans, "one of several events has no span")
    for span in spans:
        if span is not None:
            start, end = span
            _must(at <= start < end <= len(body), "a span lies outside the body, or over another")
            at = end


def refuses_another_secret(example: Example) -> None:
    """Have the delivery refused where another secret is configured."""
    _must(_refused(example, example.delivery, example.other_secret), "another secret's delivery is believed")


def refuses_every_truncation(example: Example) -> None:
    """Have every proper beginning of every signature header refused."""
    for name, value in _signatures(example):
        for length in range(len(value)):
            sent = with_header(example.delivery, name, value[:length])
            _must(_refused(example, sent), f"{name} is believed when cut to {length} characters")


def refuses_every_flipped_bit(example: Example) -> None:
    """Have every signature header refused in which one bit is another, and every such body that is signed."""
    for name, value in _signatures(example):
        for position, flipped in flips(value.encode("latin-1")):
            sent = with_header(example.delivery, name, flipped.decode("latin-1"))
            _must(_refused(example, sent), f"{name} is believed with a bit of byte {position} changed")
    for position, flipped in flips(example.delivery.body) if example.covers_body else ():
        sent = replace(example.delivery, body=flipped)
        _must(_refused(example, sent), f"the body is believed with a bit of byte {position} changed")


def refuses_another_version(example: Example) -> None:
    """Have no other version and no other algorithm believed: neither by its label nor by the digest, nor by both."""
    for name, value in _signatures(example):
        for label in (value, *other_labels(value)):
            digests = other_digests(label, example.secret, example.delivery.body)
            for text in (label,) if example.names_algorithm else (label, *digests):
                sent = with_header(example.delivery, name, text)
                _must(
                    text == value or _refused(example, sent), f"{name} is believed with another version in it"
                )


def refuses_a_repeated_signature(example: Example) -> None:
    """Have a header refused that came twice, the good one among them: nobody knows which of them counts."""
    for name, value in _signatures(example) if not example.repeats_headers else ():
        for pair in ((value, value), (value, "0" * len(value)), ("0" * len(value), value)):
            _must(
                _refused(example, with_header(example.delivery, name, *pair)),
                f"a repeated {name} is believed",
            )


def refuses_a_missing_signature(example: Example) -> None:
    """Have the delivery refused without each of its signature headers, and with one that is empty or blank."""
    for name, _ in _signatures(example):
        without = replace(example.delivery, headers=example.delivery.headers.without({name}))
        _must(_refused(example, without), f"a delivery without {name} is believed")
        for text in ("", " ", "\t"):
            _must(
                _refused(example, with_header(example.delivery, name, text)), f"an empty {name} is believed"
            )


def refuses_a_folded_signature(example: Example) -> None:
    """Have a header refused that was folded over two lines, wherever that was."""
    for name, value in _signatures(example):
        for position in range(1, len(value)):
            folded = f"{value[:position]}\r\n {value[position:]}"
            _must(
                _refused(example, with_header(example.delivery, name, folded)),
                f"a folded {name} is believed",
            )


def refuses_a_time_outside_the_tolerance(example: Example) -> None:
    """Have a delivery believed up to the tolerance, in the past and in the future, and not a second further."""
    if example.tolerance_seconds is None:
        return
    for direction in (-1, 1):
        edge = SENT_AT + direction * example.tolerance_seconds
        inside = replace(example.delivery, received_at=edge)
        outside = replace(example.delivery, received_at=edge + direction)
        _must(not _refused(example, inside), "a time just inside the tolerance is refused")
        _must(_refused(example, outside), "a time just outside the tolerance is believed")


def refuses_whatever_a_stranger_sends(example: Example) -> None:
    """Have no header and no body believed that was made without the secret; nothing raises (P-CALM)."""
    names = example.signature_headers or ("content-type",)
    for text in HOSTILE_TEXTS:
        everywhere = replace(example.delivery, headers=Headers((name, text) for name in names))
        twice = replace(example.delivery, headers=Headers((name, text) for name in (*names, *names)))
        for sent in (everywhere, twice) if example.signature_headers else ():
            _must(_refused(example, sent), "a header that anybody can write is believed")
    for body in HOSTILE_BODIES:
        sent = replace(example.delivery, body=body)
        believed = not _refused(example, sent)
        _must(not (believed and example.covers_body), "a body that was never signed is believed")


def reads_whatever_is_signed(example: Example) -> None:
    """Have at least one reading of any body, and no handshake where there is none; nothing raises (P-CALM)."""
    source = example.make((example.secret,))
    secrets = secrets_of(source.secrets, setting="secrets")
    for body in HOSTILE_BODIES:
        for headers in (example.delivery.headers, Headers()):
            sent = replace(example.delivery, body=body, headers=headers)
            readings = source.identify(sent)
            _must(len(readings) > 0, "a body has no reading, so it would be lost")
            _must(
                all(isinstance(each, Identity | Unreadable) for each in readings),
                "a reading is of another kind",
            )
            source.answer(sent, secrets)
            source.greet(sent)
    _must(source.answer(example.delivery, secrets) is None, "an event is answered as a handshake")
    _must(source.greet(example.delivery) is None, "an event is answered as a handshake without a signature")


def refuses_an_empty_secret_at_the_start(example: Example) -> None:
    """Have a secret that is empty or blank refused when the source is made."""
    for given in ([], [""], [" "], ["\n"], [example.secret, ""], [f"{example.secret}\n"]):
        _must(not _made(example, given), "an empty secret, or one with a line end, is taken")


CHECKS: tuple[Callable[[Example], None], ...] = (
    believes_what_is_signed,
    names_every_event,
    gives_each_event_its_own_bytes,
    refuses_another_secret,
    refuses_every_truncation,
    refuses_every_flipped_bit,
    refuses_another_version,
    refuses_a_repeated_signature,
    refuses_a_missing_signature,
    refuses_a_folded_signature,
    refuses_a_time_outside_the_tolerance,
    refuses_whatever_a_stranger_sends,
    reads_whatever_is_signed,
    refuses_an_empty_secret_at_the_start,
)


def _must(condition: bool, sentence: str) -> None:  # noqa: FBT001 - read like assert
    if not condition:
        raise AssertionError(sentence)


def _made(example: Example, secrets: Sequence[str]) -> bool:
    try:
        example.make(secrets)
    except ConfigurationError:
        return False
    return True


def _refused(example: Example, delivery: Delivery, *secrets: str) -> bool:
    return isinstance(example.verdict(delivery, *secrets), Rejected)


def _signatures(example: Example) -> Iterable[tuple[str, str]]:
    return [(name, example.delivery.headers[name]) for name in example.signature_headers]
