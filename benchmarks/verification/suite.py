"""Let every provider's class check one good delivery, again and again, in turns with a bare HMAC of the same body."""

from __future__ import annotations

import hmac
import statistics
import time
from collections.abc import Callable
from functools import partial

from benchmarks.harness.errors import InvariantError
from benchmarks.harness.figures import Figures
from benchmarks.harness.suite import Bench, Subject, Suite
from benchmarks.verification.deliveries import Sent, sent_by
from webhook_inbox.sources import Source, Stripe, Verified
from webhook_inbox.sources.catalogue import providers

_IN_A_ROW = 20  # so that a turn is long beside the clock's resolution, and short beside what the machine does meanwhile
_KEY = b"fake-benchmark-key"


def measure_verification(kind: type[Source], bench: Bench) -> Figures:
    """Take the time of both in turns; the figure is how many bare HMACs one verification is worth."""
    sent = sent_by(kind)
    if not isinstance(_verify(sent)(), Verified):
        raise InvariantError(f"{kind.provider} does not believe its own delivery")
    return _in_turns(_verify(sent), _bare(sent), bench.seconds)


def measure_bare(bench: Bench) -> Figures:
    """Hold a bare HMAC against itself: what is not 1 is the machine's doing."""
    bare = _bare(sent_by(Stripe))
    return _in_turns(bare, bare, bench.seconds)


def _verify(sent: Sent) -> Callable[[], object]:
    return partial(sent.source.verify, sent.delivery, sent.secrets)


def _bare(sent: Sent) -> Callable[[], object]:
    return partial(hmac.digest, _KEY, sent.delivery.body, "sha256")


def _in_turns(one: Callable[[], object], other: Callable[[], object], seconds: float) -> Figures:
    until = time.perf_counter() + seconds
    turns: list[tuple[float, float]] = []
    while not turns or time.perf_counter() < until:
        turns.append((_timed(one), _timed(other)))
    measured_us, bare_us = (statistics.median(each) * 1e6 for each in zip(*turns, strict=True))
    return {"hmacs": measured_us / bare_us, "verify_us": measured_us, "hmac_us": bare_us}


def _timed(work: Callable[[], object]) -> float:
    """Give the seconds that one run takes of this thread's processor time: what waits for others is not its own."""
    began = time.thread_time()
    for _ in range(_IN_A_ROW):
        work()
    return (time.thread_time() - began) / _IN_A_ROW


SUITE = Suite(
    name="verification",
    about="one verification by each provider's class, in bare HMACs of the same body",
    subjects=[
        Subject(
            name="hmac",
            group="limits",
            title="a bare HMAC-SHA256",
            setting="`hmac.digest` over the body that Stripe sends",
            measure=measure_bare,
            headline="hmacs",
        ),
        *(
            Subject(
                name=kind.provider,
                group="providers",
                title=kind.facts.title if kind.facts else kind.provider,
                setting="one secret or one key, read anew each time",
                measure=partial(measure_verification, kind),
                headline="hmacs",
            )
            for kind in providers()
        ),
    ],
    reference="hmac",
    seconds=1.0,
)
