"""
End a process when it is told to, whatever its handlers are doing.

The first SIGTERM or SIGINT asks; a second one, or the end of the time that the first one gave, ends the process where
it stands. Both are heard on a thread of its own: the interpreter's C handler writes the signal's number to a socket,
which a loop that is blocked by a handler, or a main thread that waits inside a C library, cannot delay.

Source: Python manual, ``signal.set_wakeup_fd``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NoReturn

from webhook_inbox.cli.failures import GOOD
from webhook_inbox.cli.output import say

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
SIGNALLED = 128  # what shells and supervisors add to the number of the signal that ended a process
_THREAD_SECONDS_MAX = 0.5


@dataclass(slots=True)
class Ending:
    """Hold the exit *code* of a process whose time ends before it does."""

    code: int = GOOD


@contextlib.contextmanager
def told_to_stop(stop: Callable[[], None], *, seconds_max: float) -> Iterator[Ending]:
    """
    Call *stop* at the first signal, from another thread; see to it that the process has ended *seconds_max* later.

    For the main thread. When the block ends, signals do again what they did before it; a deadline that has begun
    stays.
    """
    ending = Ending()
    ours, heard = socket.socketpair()
    heard.setblocking(False)
    before = {each: signal.signal(each, lambda *_: None) for each in _SIGNALS}
    fd_before = signal.set_wakeup_fd(heard.fileno(), warn_on_full_buffer=False)
    threading.Thread(
        target=_follow, args=[ours, stop, seconds_max, ending], name="webhook-inbox-signals", daemon=True
    ).start()
    try:
        yield ending
    finally:
        signal.set_wakeup_fd(fd_before)
        for each, handler in before.items():
            signal.signal(each, handler)
        heard.close()


def leave(code: int) -> int:
    """
    Give *code* for the interpreter to exit with; end the process here where a handler's thread would hold it back.

    Such a thread was given up: its event is given back, and what it still writes is refused by the token (P-FENCE).
    """
    ends_at = time.monotonic() + _THREAD_SECONDS_MAX
    for each in _others():
        each.join(max(0.0, ends_at - time.monotonic()))
    if _others():
        _end(code)
    return code


def end_soon(*, seconds: float = 5.0) -> None:
    """End the process in *seconds* if it has not ended by then, for instance because of a handler's thread."""
    timer = threading.Timer(seconds, _end, [GOOD])
    timer.daemon = True
    timer.start()


def _others() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each is not threading.main_thread() and not each.daemon]


def _follow(signals: socket.socket, stop: Callable[[], None], seconds_max: float, ending: Ending) -> None:
    with signals:
        if _next(signals) is None:
            return
        stop()
        signals.settimeout(seconds_max)
        ends_at = time.monotonic() + seconds_max
        try:
            number = _next(signals)
        except TimeoutError:
            say("not everything ended in time; what is still held returns when its lease ends")
            _end(ending.code)
        if number is not None:
            os._exit(SIGNALLED + number)
    # The block has ended in time. So must what follows it: the loop's own end, and the interpreter's.
    time.sleep(max(0.0, ends_at - time.monotonic()))
    _end(ending.code)


def _next(signals: socket.socket) -> int | None:
    """Wait for one of our signals; None where the block has ended. Other signals are somebody else's."""
    while numbers := signals.recv(1):
        if numbers[0] in _SIGNALS:
            return numbers[0]
    return None


def _end(code: int) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
