"""Check what a receiver makes of HTTP that no provider sends, and of that which some do."""

from __future__ import annotations

import gzip
from collections.abc import Sequence

from webhook_inbox.testing.audit.bench import Bench, headers_of, told
from webhook_inbox.testing.audit.verdict import Check, Verdict, failed, passed
from webhook_inbox.testing.audit.wire import Answer
from webhook_inbox.testing.signers import Signed

_JSON = ("content-type", "application/json")
_BOMB_BYTES = 33_554_432
_LARGE_BYTES = 1_048_576
_SERVER_ERROR = 5
_QUIET_SECONDS = 2.0


def methods(bench: Bench) -> Verdict:
    """
    Ask by other methods; a genuine delivery by PUT and its like is none.

    Whatever says no is honest: 405, 404, 400, a redirect, or 501 of a server that knows no such method. A 2xx is not;
    any other 5xx, or no answer, is a failure for ``calm``. A GET may be answered: health checks and handshakes are.
    """
    answers = {method: bench.strange(method, (), b"") for method in ("GET", "HEAD")}
    for method in ("PUT", "PATCH", "DELETE"):
        event = bench.samples.one()
        bench.forged.append(event)
        signed = bench.signatory.sign(event)
        answers[method] = bench.strange(method, headers_of(signed), signed.body)
    saw = ", ".join(f"{method} {answer}" for method, answer in answers.items())
    taken = any(answers[method].acknowledged for method in ("PUT", "PATCH", "DELETE"))
    return failed(saw) if taken else passed(saw)


def content_types(bench: Bench) -> Verdict:
    """Deliver with a charset beside the type, which providers add as they like."""
    event = bench.samples.one()
    signed = bench.signatory.sign(event)
    kept = [(name, value) for name, value in headers_of(signed) if name != "content-type"]
    own = next(value for name, value in headers_of(signed) if name == "content-type")
    named = Signed((("Content-Type", f"{own}; charset=utf-8"), *kept), signed.body)
    answer = bench.deliver(event, named)
    saw = f"with a charset answered {answer}"
    return bench.owes_one(event, saw) if answer.acknowledged else failed(saw)


def odd_content_types(bench: Bench) -> Verdict:
    """Send without a signature what names no type, or an odd one."""
    odd = ("", "text/plain", "multipart/form-data", "application/json; charset=utf-16", ";;;=")
    answers = [bench.strange("POST", [("content-type", each)] if each else [], b'{"id": 1}') for each in odd]
    return _refused(answers)


def bomb(bench: Bench) -> Verdict:
    """Send 32 MiB of zeros, compressed, without a signature."""
    body = gzip.compress(bytes(_BOMB_BYTES), mtime=0)
    return _refused([bench.strange("POST", (_JSON, ("content-encoding", "gzip")), body, may_hang_up=True)])


def large(bench: Bench) -> Verdict:
    """Send 1 MiB without a signature."""
    return _refused(
        [bench.strange("POST", (_JSON,), b"[" + b"1," * (_LARGE_BYTES // 2) + b"1]", may_hang_up=True)]
    )


def flood(bench: Bench) -> Verdict:
    """Send a thousand headers, and one of 100 KiB."""
    many = [(f"x-audit-{number}", "x" * 100) for number in range(1_000)]
    one = [("x-audit", "x" * 102_400)]
    return _refused(
        [bench.strange("POST", (_JSON, *headers), b"{}", may_hang_up=True) for headers in (many, one)]
    )


def framing(bench: Bench) -> Verdict:
    """Send two lengths that contradict each other, with a second request in what one of them leaves over."""
    hidden = bench.wire.head("GET", (), 0)
    chunked = b"0\r\n\r\n" + hidden
    texts = (
        bench.wire.head("POST", (_JSON, ("transfer-encoding", "chunked")), len(chunked), close=False)
        + chunked,
        bench.wire.head("POST", (_JSON, ("content-length", "0")), len(hidden), close=False) + hidden,
    )
    counts = []
    for text in texts:
        with bench.wire.line() as line:
            line.send(text)
            counts.append(line.answers(_QUIET_SECONDS))
    saw = (
        f"answers to one request with two lengths: {counts[0]} (chunked), {counts[1]} (Content-Length twice)"
    )
    return failed(saw) if max(counts) > 1 else passed(saw)


def calm(bench: Bench) -> Verdict:
    """Look for failures among all that was answered to strangers."""
    broken = [
        answer for answer in bench.strangers if answer.status is None or answer.status // 100 == _SERVER_ERROR
    ]
    saw = f"of {len(bench.strangers)} requests that nobody signed, {len(broken)} made it fail"
    return failed(f"{saw} ({told(broken)})") if broken else passed(saw)


def still_serving(bench: Bench) -> Verdict:
    """Deliver once more, after all that."""
    event = bench.samples.one()
    answers = bench.until_acknowledged(event)
    saw = f"answered {told(answers)}"
    return bench.owes_one(event, saw) if answers[-1].acknowledged else failed(saw)


def _refused(answers: Sequence[Answer]) -> Verdict:
    saw = f"answered {told(answers)}"
    return failed(saw) if any(answer.acknowledged for answer in answers) else passed(saw)


CHECKS = (
    Check(
        "methods",
        "minor",
        "takes deliveries by POST only",
        "What a proxy or a crawler asks for is taken for an event.",
        "Answer 405 with Allow: POST; 404, 400 and 501 say no as well.",
        methods,
    ),
    Check(
        "content-type",
        "serious",
        "takes a charset beside the content type",
        "Providers add one without notice.",
        "Do not compare the whole header; look at the type, or not at all.",
        content_types,
    ),
    Check(
        "content-type-odd",
        "minor",
        "refuses odd content types without a signature",
        "Frameworks choose a parser by it, before anybody verifies.",
        "Read the raw body, whatever the type says.",
        odd_content_types,
    ),
    Check(
        "gzip-bomb",
        "serious",
        "refuses a compressed body that nobody signed",
        "32 KiB become 32 MiB, a thousand times the memory, for anybody who asks.",
        "Answer 415 to a Content-Encoding, here or in the proxy.",
        bomb,
    ),
    Check(
        "large-stranger",
        "serious",
        "refuses 1 MiB that nobody signed",
        "A receiver that acknowledges it has not looked at the signature.",
        "Verify, and bound the body.",
        large,
    ),
    Check(
        "header-flood",
        "minor",
        "refuses a flood of headers",
        "Each is kept in memory before anybody looks.",
        "Bound number and size; answer 431.",
        flood,
    ),
    Check(
        "framing",
        "serious",
        "sees one request in one",
        "A proxy in front counts otherwise: a stranger's request is hidden in a delivery, past its rules.",
        "Use a server that refuses two lengths (RFC 9112, 6.3), and keep it up to date.",
        framing,
    ),
)
LAST = (
    Check(
        "calm",
        "serious",
        "never fails on what a stranger sends",
        "An alarm that anybody can ring is switched off; a worker that anybody can end is gone when it is needed.",
        "Answer 4xx to all that is not verified (501 to an unknown method is no failure); let no exception of a parser "
        "or verifier through.",
        calm,
    ),
    Check(
        "still-serving",
        "critical",
        "serves as before after all of this",
        "What a stranger sends ends the service.",
        "Look into its log for what it did not survive.",
        still_serving,
    ),
)
