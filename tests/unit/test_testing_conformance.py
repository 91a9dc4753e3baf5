"""The suite for sources notices each mistake that it is there for, and says so in words."""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from tests.source_examples import EXAMPLES, PLAIN
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.secret import Secret, SecretsGiven
from webhook_inbox.sources import Answer, Identity, Rejected, Source, Verified
from webhook_inbox.sources.source import Reading, Verdict
from webhook_inbox.testing.signing import sign_hmac
from webhook_inbox.testing.source_conformance import CHECKS, Example

HEADER = "x-careless"
MISMATCH = Rejected("signature_mismatch", "no.")


class Careless(Source):
    """Signs and names plainly; the subclasses each make one mistake."""

    provider = "careless"

    def __init__(self, secrets: SecretsGiven) -> None:
        self.secrets = secrets

    def verify(self, delivery: Delivery, secrets: Sequence[Secret]) -> Verdict:
        sent = self.sent(delivery.headers.all(HEADER))
        for secret in secrets:
            if self.equal(sent, self.digest(delivery, secret)) and self.timely(delivery):
                return Verified(secret.label)
        return MISMATCH

    def sent(self, values: Sequence[str]) -> str:
        return values[0] if len(values) == 1 else ""

    def digest(self, delivery: Delivery, secret: Secret) -> str:
        return hmac.digest(secret.reveal().encode(), delivery.body, "sha256").hex()

    def equal(self, sent: str, expected: str) -> bool:
        return sent == expected

    def timely(self, delivery: Delivery) -> bool:
        return True

    def identify(self, delivery: Delivery) -> tuple[Reading, ...]:
        return (Identity(event_id="1", event_type="t"),)


class BelievesAll(Careless):
    def verify(self, delivery: Delivery, secrets: Sequence[Secret]) -> Verdict:
        return Verified(secrets[0].label)


class ComparesBeginnings(Careless):
    def equal(self, sent: str, expected: str) -> bool:
        return expected.startswith(sent)


class IgnoresCase(Careless):
    def equal(self, sent: str, expected: str) -> bool:
        return sent.lower() == expected


class Unfolds(Careless):
    def equal(self, sent: str, expected: str) -> bool:
        return sent.replace("\r\n ", "") == expected


class TakesTheLast(Careless):
    def sent(self, values: Sequence[str]) -> str:
        return values[-1] if values else ""


class TakesAnyAlgorithm(Careless):
    def verify(self, delivery: Delivery, secrets: Sequence[Secret]) -> Verdict:
        sent = self.sent(delivery.headers.all(HEADER))
        key = secrets[0].reveal().encode()
        weak = hmac.digest(key, delivery.body, "sha1").hex()
        return Verified(secrets[0].label) if sent == weak else super().verify(delivery, secrets)


class TakesAnyVersion(Careless):
    def equal(self, sent: str, expected: str) -> bool:
        return sent.rpartition("=")[2] == expected


class TakesBlanks(Careless):
    def equal(self, sent: str, expected: str) -> bool:
        return sent in {expected, " "}


class ForgetsTheBody(Careless):
    def digest(self, delivery: Delivery, secret: Secret) -> str:
        return hmac.digest(secret.reveal().encode(), PLAIN, "sha256").hex()


class KnowsOneSecret(Careless):
    def verify(self, delivery: Delivery, secrets: Sequence[Secret]) -> Verdict:
        return super().verify(delivery, secrets[:1])


class Raises(Careless):
    def equal(self, sent: str, expected: str) -> bool:
        return bytes.fromhex(sent) == bytes.fromhex(expected)


class NamesByTheClock(Careless):
    def identify(self, delivery: Delivery) -> tuple[Reading, ...]:
        return (Identity(event_id=str(int(delivery.received_at) % 10 + 1), event_type="t"),)


class ReadsCarelessly(Careless):
    def identify(self, delivery: Delivery) -> tuple[Reading, ...]:
        json.loads(delivery.body)["type"]
        return super().identify(delivery)


class LosesBodies(Careless):
    def identify(self, delivery: Delivery) -> tuple[Reading, ...]:
        return super().identify(delivery) if delivery.body == PLAIN else ()


class AnswersEvents(Careless):
    def answer(self, delivery: Delivery, secrets: Sequence[Secret]) -> Answer | None:
        return Answer()


class Overlaps(Careless):
    def identify(self, delivery: Delivery) -> tuple[Reading, ...]:
        return tuple(Identity(event_id="1", event_type="t", span=(0, 9)) for _ in range(2))


class BoundsNoTime(Careless):
    def timely(self, delivery: Delivery) -> bool:
        return delivery.received_at > 0


def example(make: Callable[[SecretsGiven], Source], **more: object) -> Example:
    """Describe what *make* is to be held against."""

    def request(sent_at: int) -> Delivery:
        headers = Headers(sign_hmac(PLAIN, "fake-1", HEADER))
        return Delivery(method="POST", url="", headers=headers, body=PLAIN, received_at=sent_at)

    given = Example(
        make=make,
        secret="fake-1",
        other_secret="fake-2",
        request=request,
        event_ids=("1",),
        event_types=("t",),
        signature_headers=(HEADER,),
    )
    return replace(given, **more)  # type: ignore[arg-type]  # fields of the example


def noticed(of: Example) -> set[str]:
    """Give the checks that *of* does not pass; an exception is a mistake too."""
    failed = set()
    for check in CHECKS:
        try:
            check(of)
        except Exception:
            failed.add(check.__name__)
    return failed


MISTAKES = {
    BelievesAll: {
        "believes_what_is_signed",
        "refuses_another_secret",
        "refuses_another_version",
        "refuses_a_repeated_signature",
        "refuses_every_truncation",
        "refuses_every_flipped_bit",
        "refuses_a_missing_signature",
        "refuses_a_folded_signature",
        "refuses_whatever_a_stranger_sends",
    },
    ComparesBeginnings: {
        "refuses_a_repeated_signature",
        "refuses_every_truncation",
        "refuses_a_missing_signature",
        "refuses_whatever_a_stranger_sends",
    },
    IgnoresCase: {"refuses_every_flipped_bit"},
    TakesAnyAlgorithm: {"refuses_another_version"},
    TakesTheLast: {"refuses_a_repeated_signature"},
    Unfolds: {"refuses_a_folded_signature"},
    TakesBlanks: {"refuses_a_missing_signature", "refuses_whatever_a_stranger_sends"},
    ForgetsTheBody: {"refuses_every_flipped_bit", "refuses_whatever_a_stranger_sends"},
    KnowsOneSecret: {"believes_what_is_signed"},
    Raises: {
        "refuses_another_version",
        "refuses_every_truncation",
        "refuses_every_flipped_bit",
        "refuses_a_folded_signature",
        "refuses_whatever_a_stranger_sends",
    },
    NamesByTheClock: {"names_every_event"},
    ReadsCarelessly: {"reads_whatever_is_signed"},
    LosesBodies: {"reads_whatever_is_signed"},
    AnswersEvents: {"reads_whatever_is_signed"},
    Overlaps: {"gives_each_event_its_own_bytes", "names_every_event"},
}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_each_mistake_is_noticed(mistake: type[Careless]) -> None:
    """By the checks that are there for it."""
    plain = {"refuses_an_empty_secret_at_the_start"}
    assert noticed(example(mistake)) == MISTAKES[mistake] | plain


def test_a_source_that_checks_no_secret_is_noticed() -> None:
    """The plain one takes an empty secret; and where a time should be signed, it checks none."""
    assert noticed(example(Careless)) == {"refuses_an_empty_secret_at_the_start"}
    late = noticed(example(BoundsNoTime, tolerance_seconds=300))
    assert "refuses_a_time_outside_the_tolerance" in late


def test_a_source_that_reads_no_version_is_noticed() -> None:
    """Where the header has one: ``sha1=`` before a digest of SHA-256 is another scheme's."""

    def request(sent_at: int) -> Delivery:
        headers = Headers(sign_hmac(PLAIN, "fake-1", HEADER, prefix="sha256="))
        return Delivery(method="POST", url="", headers=headers, body=PLAIN, received_at=sent_at)

    assert "refuses_another_version" in noticed(example(TakesAnyVersion, request=request))


def test_a_failure_is_told_in_words_without_the_secret() -> None:
    """P-QUIET: what is printed in a user's CI quotes neither secret nor body."""
    told = []
    for check in CHECKS:
        try:
            check(example(BelievesAll))
        except AssertionError as error:
            told.append(str(error))
    assert len(told) > 5
    assert not any("fake-1" in text or PLAIN.decode() in text for text in told)


def test_every_check_is_listed_once_and_explains_itself() -> None:
    """In the order in which a source is written."""
    assert len({check.__name__ for check in CHECKS}) == len(CHECKS)
    assert all(check.__doc__ for check in CHECKS)
    assert EXAMPLES
