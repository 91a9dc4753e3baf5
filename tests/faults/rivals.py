"""Compete for an event's key from another session, as a second receiver would, at the moment that a story asks for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.faults.paths import Story
from webhook_inbox.testing.points import Passing

HOLD_SECONDS_MAX = 20.0
_POLL_SECONDS = 0.002
_INSERT = """
INSERT INTO webhooks.inbox (provider, endpoint, event_id, event_type, state, body_sha256, body_bytes)
VALUES ('batch', %s, %s, 'test.rival', 'waiting', '', 0)
"""


class PointHolder:
    """
    Hold the receiver at one passing of a fault point until the test lets it go on; a probe.

    Args:
        room: Files are made of this name: ``.held`` by the receiver, ``.go`` by the test.
    """

    def __init__(self, room: Path) -> None:
        self._held, self._go = _signals(room)
        self._armed: Passing | None = None
        self._left = 0

    def arm(self, passing: Passing) -> None:
        """Hold at *passing*, counted from now."""
        self._armed, self._left = passing, passing.nth

    def __call__(self, point: str) -> None:
        """Hold here, if this is where."""
        if self._armed is None or self._armed.point != point:
            return
        self._left -= 1
        if self._left:
            return
        self._armed = None
        self._held.touch()
        deadline = time.monotonic() + HOLD_SECONDS_MAX
        while not self._go.exists() and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)


@contextmanager
def rival_of(dsn: str, story: Story, room: Path) -> Iterator[None]:
    """Hold the key of the story's rival while the block runs, or from where the receiver is held; then roll back."""
    if not story.rival:
        yield
        return
    key = story.letter.path.strip("/"), story.rival
    with psycopg.connect(dsn) as connection:
        if story.held_at is None:
            connection.execute(_INSERT, key)
            yield
        else:
            with _overtaking(connection, key, room):
                yield
        connection.rollback()


@contextmanager
def _overtaking(
    connection: psycopg.Connection[tuple[object, ...]], key: tuple[str, str], room: Path
) -> Iterator[None]:
    """Take *key* when the receiver is held; it may die before it comes that far."""
    held, go = _signals(room)
    over = threading.Event()

    def overtake() -> None:
        while not held.exists():
            if over.is_set():
                return
            time.sleep(_POLL_SECONDS)
        connection.execute(_INSERT, key)
        go.touch()

    thread = threading.Thread(target=overtake)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        held.unlink(missing_ok=True)
        go.unlink(missing_ok=True)


def _signals(room: Path) -> tuple[Path, Path]:
    return room.with_suffix(".held"), room.with_suffix(".go")
