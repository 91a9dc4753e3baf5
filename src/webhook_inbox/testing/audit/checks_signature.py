"""Check that only what the provider signed is believed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from webhook_inbox.testing.audit.bench import Bench, told
from webhook_inbox.testing.audit.signing import changed, cut, emptied, flipped, without
from webhook_inbox.testing.audit.verdict import Check, Verdict, failed, inapplicable, passed, untried
from webhook_inbox.testing.audit.wire import Answer
from webhook_inbox.testing.signers import Signed

_DAY_SECONDS = 86_400
_HOSTILE = ("\xff\xfe", "=", ",", "v1", "v1=", "t=,v1=", "sha256=", "9" * 5_000, "v1=," * 1_000, "null")
_VERIFY = "Verify first: by the provider's library, or by an HMAC of the raw bytes that is compared in constant time."


def missing(bench: Bench) -> Verdict:
    """Leave the signature out."""
    event = bench.samples.one()
    names = bench.signatory.signature_headers(event)
    signed = without(bench.signatory.sign(event), names) if names else Signed((), event.body)
    return _refused([bench.forge(event, signed)])


def empty(bench: Bench) -> Verdict:
    """Send the header without a value, and with its label alone."""
    return _forged(bench, [lambda _: "", emptied])


def other_secret(bench: Bench) -> Verdict:
    """Sign with another secret."""
    event = bench.samples.one()
    return _refused([bench.forge(event, bench.signatory.sign(event, secret=bench.signatory.other_secret))])


def truncated(bench: Bench) -> Verdict:
    """Cut the digest."""
    return _forged(bench, [partial(cut, part=part) for part in (1, 0.5, 0)])


def altered(bench: Bench) -> Verdict:
    """Change one character of the digest, three times."""
    return _forged(bench, [partial(flipped, chance=bench.chance)] * 3)


def other_body(bench: Bench) -> Verdict:
    """Change the body under its signature."""
    event = bench.samples.one()
    if not bench.signatory.keeps_body(event) or not bench.signatory.covers_body(event):
        return inapplicable("the source does not sign the body as it is")
    signed = bench.signatory.sign(event)
    return _refused([bench.forge(event, Signed(signed.headers, event.with_member('"audit_forged":1')))])


def stale(bench: Bench) -> Verdict:
    """Sign as of yesterday, or as of twice the window ago."""
    return _at_another_time(bench, 1)


def early(bench: Bench) -> Verdict:
    """Sign as of as long ahead."""
    return _at_another_time(bench, -1)


def hostile(bench: Bench) -> Verdict:
    """Put into the header what no provider writes."""
    return _forged(bench, [partial(_instead, text=text) for text in _HOSTILE])


def _at_another_time(bench: Bench, sign: int) -> Verdict:
    event = bench.samples.one()
    window = bench.settings.window_seconds
    if window is None or not bench.signatory.covers_time(event):
        return inapplicable("the source signs no time, or says no window for it")
    late_seconds = sign * int(max(_DAY_SECONDS, 2 * window))
    return _refused([bench.forge(event, bench.signatory.sign(event, late_seconds=late_seconds))])


def _forged(bench: Bench, changes: Sequence[Callable[[str], str]]) -> Verdict:
    """Deliver a new event for each of *changes*, with its signature headers changed so."""
    answers = []
    for change in changes:
        event = bench.samples.one()
        names = bench.signatory.signature_headers(event)
        if not names:
            return inapplicable("the source signs inside the body")
        answers.append(bench.forge(event, changed(bench.signatory.sign(event), names, change)))
    return _refused(answers)


def _instead(_: str, text: str) -> str:
    return text


def _refused(answers: Sequence[Answer]) -> Verdict:
    saw = f"answered {told(answers)}"
    return failed(saw) if any(answer.acknowledged for answer in answers) else passed(saw)


def without_effect(bench: Bench) -> Verdict:
    """Count what became of everything that was forged."""
    if bench.effects is None:
        return untried("needs --effects-sql")
    found = sum(bench.effects.settled(event, 0, 0) or 0 for event in bench.forged)
    saw = f"{len(bench.forged)} forged deliveries, {found} effects"
    return failed(saw) if found else passed(saw)


CHECKS = (
    Check(
        "signature-missing",
        "critical",
        "refuses a delivery without a signature",
        "Whoever knows the URL can book what they like.",
        _VERIFY,
        missing,
    ),
    Check(
        "signature-empty",
        "critical",
        "refuses an empty signature",
        "A comparison of nothing with nothing, or of as many bytes as were sent, holds for everybody.",
        _VERIFY,
        empty,
    ),
    Check(
        "signature-other-secret",
        "critical",
        "refuses what another secret signed",
        "The signature is there and nobody looks at it.",
        _VERIFY,
        other_secret,
    ),
    Check(
        "signature-truncated",
        "critical",
        "refuses a part of the right signature",
        "Who compares only as much as was sent can be guessed at, character by character.",
        "Decode the digest, demand its full length, and compare in constant time.",
        truncated,
    ),
    Check(
        "signature-altered",
        "critical",
        "refuses a signature with one character changed",
        "The comparison looks at less than all of it.",
        _VERIFY,
        altered,
    ),
    Check(
        "signature-other-body",
        "critical",
        "refuses a body that was changed under its signature",
        "What is signed is not what is acted on.",
        "Sign what is parsed: the raw bytes of the request, all of them.",
        other_body,
    ),
    Check(
        "signature-hostile",
        "critical",
        "refuses what is no signature at all",
        "A verifier that fails on odd input may fail open.",
        "Let every exception of the verification end in a refusal, with 400 or 401.",
        hostile,
    ),
    Check(
        "timestamp-stale",
        "serious",
        "refuses what was signed yesterday",
        "A delivery that was once overheard can be sent again as long as the secret lives.",
        "Hold the signed time against the clock, by the tolerance that the provider names.",
        stale,
    ),
    Check(
        "timestamp-early",
        "minor",
        "refuses what is signed as of tomorrow",
        "It stays valid until then: the tolerance does not bound it.",
        "Compare the absolute difference; some official libraries look at the past only.",
        early,
    ),
)

WITHOUT_EFFECT = Check(
    "forged-effect",
    "critical",
    "has no effect of anything that was forged",
    "A refusal that comes after the work is none.",
    "Verify first; nothing is stored or done before.",
    without_effect,
)
