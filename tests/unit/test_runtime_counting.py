"""What is beside the deliveries fails none of them, and ends with the inbox."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest

from webhook_inbox.model.count import Count
from webhook_inbox.model.receipt import Receipt
from webhook_inbox.model.states import Outcome
from webhook_inbox.runtime import counting
from webhook_inbox.runtime.counting import Counting
from webhook_inbox.sql.statements import Statements
from webhook_inbox.telemetry.tally import Tally

REFUSED = Receipt(status=400, headers=(), body=b"", outcome=Outcome.REJECTED, reason="signature_mismatch")
COUNTED = Count("shop", "rejected", "signature_mismatch", 1)
DEADLINE_SECONDS = 5.0


def away() -> Any:
    """No connection is to be had."""
    raise OSError


class Slow:
    """A driver that is at it until it is let go."""

    def __init__(self) -> None:
        self.begun, self.free, self.done = threading.Event(), threading.Event(), threading.Event()

    def run(self, _: Any) -> None:
        """Write, in a while."""
        self.begun.set()
        assert self.free.wait(DEADLINE_SECONDS)
        self.done.set()

    def close(self) -> None:
        """Close nothing."""


def counts_into(driver: Any, tally: Tally) -> Counting:
    """Count *tally* into *driver*."""
    return Counting(driver, tally=tally, sql=Statements.of("webhooks"))


def waits(counts: Counting) -> bool:
    """Whether there is a thread that is going to write."""
    return counts._writer is not None and counts._writer.thread.is_alive()


def test_a_process_that_gets_no_more_threads_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-CALM: the delivery is answered as it was; and what was counted is written once there are threads again."""
    tally = Tally()
    counts = counts_into(away, tally)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        tally.add("shop", REFUSED)
    assert not waits(counts)
    tally.add("shop", REFUSED)
    assert waits(counts)
    counts.stop()


def test_nothing_is_left_running_by_a_stop_without_a_database() -> None:
    """What could not be written is counted still, and no thread stays behind to try it a minute later."""
    tally = Tally()
    counts = counts_into(away, tally)
    tally.add("shop", REFUSED)
    counts.stop()
    assert not waits(counts)
    assert tally.take() == (COUNTED,)


def test_a_stop_waits_for_what_is_being_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the process ends under it."""
    monkeypatch.setattr(counting, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr(counting, "_STOP_SECONDS_MAX", DEADLINE_SECONDS)
    tally, driver = Tally(), Slow()
    counts = counts_into(lambda: driver, tally)
    tally.add("shop", REFUSED)
    assert driver.begun.wait(DEADLINE_SECONDS)
    stopping = threading.Thread(target=counts.stop)
    stopping.start()
    stopping.join(0.05)
    waiting = stopping.is_alive()
    driver.free.set()
    stopping.join(DEADLINE_SECONDS)
    assert (waiting, driver.done.is_set(), stopping.is_alive()) == (True, True, False)


def test_what_is_counted_while_others_are_written_is_written_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though it finds a thread that is at it."""
    monkeypatch.setattr(counting, "EVERY_SECONDS", 0.0)
    tally, first, second = Tally(), Slow(), Slow()
    coming = iter((first, second))
    counts = counts_into(lambda: next(coming), tally)
    tally.add("shop", REFUSED)
    assert first.begun.wait(DEADLINE_SECONDS)
    tally.add("shop", REFUSED)
    second.free.set()
    first.free.set()
    assert second.done.wait(DEADLINE_SECONDS)
    counts.stop()


def test_it_is_gone_with_its_inbox() -> None:
    """The end of the interpreter waits for none that nobody holds any more, and keeps none in memory."""
    counts = counts_into(away, Tally())
    seen = weakref.ref(counts)
    del counts
    gc.collect()
    assert seen() is None
