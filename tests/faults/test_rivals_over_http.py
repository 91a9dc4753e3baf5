"""Deliver the same event many times at once, over HTTP, to several servers: one effect, and the rest is told so."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.faults.app import KINDS
from tests.faults.bench import Bench
from tests.faults.invariants import APPLICATION
from tests.faults.ledger import Answer
from tests.faults.paths import applied, stripe_letter
from tests.faults.sender import Letter, Sender

COPIES = 200
THREADS = 8


def deliver_at_once(senders: list[Sender], letter: Letter, copies: int) -> list[Answer]:
    """Send *copies* of *letter*, to the senders' servers in turn, from as many threads that start together."""
    together = threading.Barrier(copies)

    def attempt(number: int) -> Answer:
        together.wait()
        return senders[number % len(senders)].attempt(letter)

    with ThreadPoolExecutor(copies) as threads:
        return list(threads.map(attempt, range(copies)))


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_event_200_times_at_once_to_two_servers_takes_effect_once(kind: str, bench: Bench) -> None:
    """One is processed; the others are duplicates, or hear 503 and are duplicates on the resend (P-DUP, P-ONCE)."""
    letter = stripe_letter("evt_same", "test.paid", kind)
    with bench.servers(2) as servers:
        senders = [bench.sender(server) for server in servers]
        answers = deliver_at_once(senders, letter, COPIES)
        heard = Counter(answer.outcome for answer in answers)
        assert heard["processed"] == 1
        assert heard["processed"] + heard["duplicate"] + heard["unavailable"] == COPIES
        for _ in range(heard["unavailable"]):
            assert senders[0].deliver(letter).outcome == "duplicate"
    bench.check([applied(letter)])


@pytest.mark.parametrize("kind", KINDS)
def test_a_slow_event_from_8_threads_takes_no_more_than_the_pool_and_holds_up_no_other(
    kind: str, bench: Bench
) -> None:
    """A handler of 2 s: 1 processed, 7 duplicates, never more sessions than the pools have; others go on (P-DUP)."""
    slow = stripe_letter("evt_slow", "test.slow", kind, seconds=2)
    others = [stripe_letter(f"evt_other_{number}", "test.paid", kind) for number in range(8)]
    with (
        bench.servers(connections_max=2) as (server,),
        ThreadPoolExecutor(1) as background,
        psycopg.connect(bench.dsn, autocommit=True) as witness,
    ):
        sender = bench.sender(server)
        started = time.monotonic()
        copies = background.submit(deliver_at_once, [sender], slow, THREADS)
        sessions = []
        for other in others:
            assert sender.attempt(other).outcome == "processed"
            counted = witness.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND datname = current_database()",
                (APPLICATION,),
            ).fetchone()
            assert counted is not None
            sessions.append(counted[0])
        went_on = time.monotonic() - started
        heard = Counter(answer.outcome for answer in copies.result())
        assert time.monotonic() - started > 2 > went_on, "the others went on while the slow one ran"
    assert heard == {"processed": 1, "duplicate": THREADS - 1}
    # Two for the handlers, and on a thread's server two for what needs none: the look at the schema.
    assert max(sessions) <= 2 + 2
    bench.check(map(applied, [slow, *others]))
