"""Make the receiver's work fail for a while, by the user's own commands."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.testing.audit.sample import AuditEvent
from webhook_inbox.testing.audit.wire import Answer

_SECONDS_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Failure:
    """
    Hold one event that met the failure.

    Attributes:
        during: The answer while it lasted.
        after: The answers to the provider's redelivery, once it was mended; none where *during* had acknowledged.
        effects: How many there are in the end; None: nobody counts.
    """

    event: AuditEvent
    during: Answer
    after: list[Answer]
    effects: int | None


@contextmanager
def broken(breaking: str, mending: str) -> Iterator[None]:
    """
    Run *breaking* before the block and *mending* after it, however it ends.

    Both are programs with arguments, no shell's text. What they print goes to stderr.

    Raises:
        ConfigurationError: One cannot be run, ends with another code than 0, or takes longer than a minute.
    """
    first, then = _words("--break", breaking), _words("--mend", mending)
    try:
        _run("--break", first)
        yield
    finally:
        _run("--mend", then)


def _words(option: str, command: str) -> list[str]:
    """Give the program and its arguments, before anything is broken by one that cannot be mended by the other."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    if not words or shutil.which(words[0]) is None:
        raise ConfigurationError(
            f"{option} cannot be run: there is no such program, or a quote is not closed"
        )
    return words


def _run(option: str, words: list[str]) -> None:
    try:
        # In a session of its own: Ctrl-C at the terminal is for the audit, which mends what it has broken.
        with subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno(), start_new_session=True
        ) as running:
            code = _ended(option, running)
    except OSError as error:
        raise ConfigurationError(f"{option} cannot be run: {type(error).__name__}") from None
    if code:
        raise ConfigurationError(f"{option} ended with code {code}; it must end with 0")


def _ended(option: str, running: subprocess.Popen[bytes]) -> int:
    """Wait for its end; a Ctrl-C meanwhile is heard once it has come."""
    told: KeyboardInterrupt | None = None
    ends_at = time.monotonic() + _SECONDS_MAX
    while True:
        try:
            code = running.wait(max(0.0, ends_at - time.monotonic()))
            break
        except KeyboardInterrupt as interrupt:
            told = interrupt
        except subprocess.TimeoutExpired:
            running.kill()
            raise ConfigurationError(f"{option} took longer than {_SECONDS_MAX:g} s") from None
    if told is not None:
        raise told
    return code
