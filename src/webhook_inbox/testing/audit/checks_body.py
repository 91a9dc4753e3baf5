"""Check that the raw bytes are verified: a receiver that parses first and writes anew refuses what is genuine."""

from __future__ import annotations

from functools import partial

from webhook_inbox.testing.audit.bench import Bench, told
from webhook_inbox.testing.audit.leaves import spaced
from webhook_inbox.testing.audit.verdict import Check, Verdict, failed, inapplicable
from webhook_inbox.testing.tampering import HOSTILE_BODIES

_LARGE_BYTES = 262_144
_TRIES = 3
_JSON = (("content-type", "application/json"),)


def genuine(bench: Bench) -> Verdict:
    """Deliver one event, and have it done."""
    event = bench.samples.one()
    answers = bench.until_acknowledged(event, tries=_TRIES)
    saw = f"answered {told(answers)}"
    return bench.owes_one(event, saw) if answers[-1].acknowledged else failed(saw)


def spelled(bench: Bench, *, member: str = "") -> Verdict:
    """Deliver an event whose body has one more *member*; without one, more white space."""
    event = bench.samples.one()
    if not bench.signatory.keeps_body(event):
        return inapplicable("the source signs inside the body, which its own library writes")
    body = event.with_member(member) if member else spaced(event.body.decode()).encode()
    answers = bench.until_acknowledged(event, body, tries=_TRIES)
    saw = f"answered {told(answers)}"
    return bench.owes_one(event, saw) if answers[-1].acknowledged else failed(saw)


def large(bench: Bench) -> Verdict:
    """Deliver an event of a quarter of a mebibyte."""
    return spelled(bench, member=f'"audit_padding":"{"x" * _LARGE_BYTES}"')


def unreadable(bench: Bench) -> Verdict:
    """Send bodies without a signature on which parsers fail."""
    answers = [bench.strange("POST", _JSON, body) for body in HOSTILE_BODIES]
    saw = f"answered {told(answers)}"
    acknowledged = any(answer.acknowledged for answer in answers)
    return failed(saw) if acknowledged else Verdict("passed", saw)


_RAW = "The provider's next release may write its JSON so: every delivery is refused then, and given up after days."
_KEEP = "Verify over the bytes as they were received, before any parser or middleware has touched them."

GENUINE = Check(
    "genuine",
    "critical",
    "acknowledges a genuine delivery, and does its work once",
    "All else rests on it.",
    "Look whether --source, --secret and the payload are the receiver's own.",
    genuine,
)
CHECKS = (
    Check(
        "raw-spacing",
        "critical",
        "takes white space where JSON allows it",
        _RAW,
        _KEEP,
        spelled,
    ),
    Check(
        "raw-unicode",
        "critical",
        "takes text beyond ASCII as it is",
        _RAW,
        _KEEP,
        partial(spelled, member='"audit_text":"Zoë ✓ 漢字 \U0001f9fe"'),
    ),
    Check(
        "raw-escapes",
        "critical",
        "takes escapes that need not be there",
        _RAW,
        _KEEP,
        partial(spelled, member=r'"audit_text":"Zo\u00eb \/ \u2028"'),
    ),
    Check(
        "raw-numbers",
        "critical",
        "takes numbers that a float cannot hold",
        _RAW,
        _KEEP,
        partial(spelled, member='"audit_numbers":[9007199254740993,1.10,1E2,-0.0]'),
    ),
    Check(
        "raw-repeated-keys",
        "critical",
        "takes a member that is there twice",
        _RAW,
        _KEEP,
        partial(spelled, member='"audit_twice":1,"audit_twice":2'),
    ),
    Check(
        "large-genuine",
        "serious",
        "takes an event of 256 KiB",
        "Large events come when large things happen: an order of a thousand lines is refused for good.",
        "Raise the limit of the body, in the proxy too, to what the provider may send.",
        large,
    ),
    Check(
        "stranger-unreadable",
        "serious",
        "refuses bodies that no parser likes, without a signature",
        "Who parses before verifying can be made to fail, or worse, by anybody.",
        "Verify first; parse only what was verified.",
        unreadable,
    ),
)
