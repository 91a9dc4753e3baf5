"""Check what becomes of deliveries that are cut off, that stand still, and that take their time."""

from __future__ import annotations

from functools import partial

from webhook_inbox.testing.audit.bench import Bench, headers_of, told
from webhook_inbox.testing.audit.stall import SECONDS_MAX, stalled
from webhook_inbox.testing.audit.verdict import SERIAL, Check, Verdict, failed, inapplicable, passed, untried

_REDIRECT = 3
_NEIGHBOURS = 8
_LARGE_BYTES = 26_214_400


def cut(bench: Bench, *, part: float) -> Verdict:
    """Hang up after *part* of the body, then deliver the event whole."""
    event = bench.samples.one()
    signed = bench.signatory.sign(event)
    with bench.wire.line() as line:
        head = bench.wire.head("POST", headers_of(signed), len(signed.body))
        line.send(head + signed.body[: int(len(signed.body) * part)])
    answers = bench.until_acknowledged(event)
    saw = f"delivered again, it is answered {told(answers)}"
    return bench.owes_one(event, saw) if answers[-1].acknowledged else failed(saw)


def served_beside(bench: Bench, *, neighbours: int) -> Verdict:
    """
    Begin *neighbours* deliveries that never end, and deliver another one meanwhile.

    How long that one takes is held against what stands still beside it, and not once more against the receiver.
    """
    if bench.serial:
        return untried(SERIAL)
    event = bench.samples.one()
    signed = bench.signatory.sign(event)
    with stalled(bench.wire, neighbours) as lines:
        answer = bench.wire.request("POST", headers_of(signed), signed.body, bench.patience)
    bench.serial = neighbours == 1 and answer.silence == "no answer in time"
    saw = f"beside {len(lines)} that stand still, a delivery is answered {answer}"
    if answer.acknowledged:
        return bench.owes_one(event, saw)
    return failed(f"{saw}: {SERIAL}" if bench.serial else saw)


def ended(bench: Bench) -> Verdict:
    """See whether a delivery is ended whose body does not come."""
    with stalled(bench.wire) as (line,):
        end = line.answer(bench.within(SECONDS_MAX))
    if end.silence == "no answer in time":
        return failed(f"it is open after {SECONDS_MAX:g} s")
    return passed(f"ended by {end}")


def large_ended(bench: Bench) -> Verdict:
    """See whether one is ended that declares a large body."""
    with stalled(bench.wire, declared_bytes=_LARGE_BYTES) as (line,):
        end = line.answer(bench.within(SECONDS_MAX))
    if end.silence == "no answer in time":
        return failed(f"the receiver waits for 25 MiB that nobody has signed, {SECONDS_MAX:g} s and more")
    return passed(f"ended by {end}")


def in_time(bench: Bench) -> Verdict:
    """Look at the slowest answer so far."""
    limit = bench.settings.answer_limit
    slowest = max((answer.seconds for answer in bench.answers if answer.status is not None), default=0.0)
    late = sum(answer.silence == "no answer in time" for answer in bench.answers)
    if late:
        return failed(f"{late} of {len(bench.answers)} deliveries had no answer within {limit:g} s")
    saw = f"the slowest of {len(bench.answers)} answers took {slowest:.2f} s, of {limit:g}"
    return failed(saw) if slowest > limit / 2 else passed(saw)


def redirected(bench: Bench) -> Verdict:
    """Look for a redirect among all answers."""
    found = [
        answer for answer in bench.answers if answer.status is not None and answer.status // 100 == _REDIRECT
    ]
    if not bench.answers:
        return inapplicable("nothing genuine was delivered")
    return failed(f"{len(found)} answers are redirects") if found else passed("no answer is a redirect")


# Before all others: where it fails, some of them can find nothing else.
ALONE = Check(
    "one-at-a-time",
    "serious",
    "answers a delivery while another one is still being sent",
    "It serves one connection at a time: a single slow client holds up all others, until their senders give up.",
    "Run it on a server with threads, processes or an event loop; a framework's development server is for developing.",
    partial(served_beside, neighbours=1),
)
CHECKS = (
    Check(
        "cut-in-body",
        "critical",
        "does nothing for half a delivery, and all for the whole one that follows",
        "The half counts as the event, or as its first copy.",
        "Read the body to its declared end before anything is done with it.",
        partial(cut, part=0.5),
    ),
    Check(
        "cut-before-answer",
        "critical",
        "does the work once, though the sender hung up before the answer",
        "The provider's own limit cuts it off; what was half done then is left so, or done again.",
        "One transaction that is shielded from the request's end: it commits whole, or not at all.",
        partial(cut, part=1),
    ),
    Check(
        "stalled-neighbours",
        "serious",
        "serves others while deliveries stand still",
        "A handful of slow clients keeps everybody out.",
        "Read bodies without holding a thread or a database connection, or behind a proxy that does.",
        partial(served_beside, neighbours=_NEIGHBOURS),
    ),
)
# They look at what the others have left behind, or wait longest.
LAST = (
    Check(
        "answer-time",
        "serious",
        "answers well within the provider's limit",
        "An answer that comes late is no answer: the provider sends again, and after some days no more.",
        "Commit the event, answer, and do slow work afterwards.",
        in_time,
    ),
    Check(
        "redirect",
        "serious",
        "answers itself, and redirects nobody",
        "Providers follow no redirect, or follow it with a GET that has no body.",
        "Give the provider the final URL: https, and with the slash if there is one.",
        redirected,
    ),
    Check(
        "large-declared",
        "minor",
        "does not wait for a body of 25 MiB before it refuses it",
        "Whoever knows the URL can fill its memory or its disk.",
        "Refuse by Content-Length before reading, and stop reading at the limit.",
        large_ended,
    ),
    Check(
        "slow-body",
        "minor",
        "ends a delivery whose body does not come",
        "Connections that nobody closes add up.",
        "Set a deadline for the body, here or in the proxy; answer 408.",
        ended,
    ),
)
