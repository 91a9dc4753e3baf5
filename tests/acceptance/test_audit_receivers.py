"""An audit holds against a receiver what it does, once, and nothing that follows from how the audit asks."""

from __future__ import annotations

import json
import socket
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Timer

import psycopg
import pytest

from tests.fixtures.small_receivers import OneByOne, genuine, serving, settings, verifies
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.testing.audit import CHECKS, Report, audit

EFFECTS = "SELECT count(*) FROM effects WHERE event_id = %(event_id)s"
#: They wait for fifteen seconds each where nothing has a deadline.
UNHURRIED = frozenset(check.id for check in CHECKS) - {"slow-body", "large-declared"}


def saw(report: Report, name: str) -> tuple[str, str]:
    """What came of a check."""
    return next((each.state, each.saw) for check, each in report.verdicts.items() if check.id == name)


def test_a_receiver_that_serves_one_connection_at_a_time_is_told_so_and_nothing_else() -> None:
    """Nothing that a check has left open keeps the next one waiting, and a slow client is held against it once."""
    with serving(verifies, OneByOne) as url:
        report = audit(settings(url, answer_seconds=2, only=UNHURRIED))
    assert report.failed() == ["one-at-a-time"], "\n".join(report.lines())
    assert report.grade == "C"
    assert saw(report, "one-at-a-time")[1].endswith("it serves one connection at a time")
    assert saw(report, "stalled-neighbours") == ("untried", "it serves one connection at a time")


def test_a_receiver_with_threads_serves_beside_what_stands_still() -> None:
    """The same receiver, on a server with a thread for each connection."""
    with serving(verifies) as url:
        report = audit(settings(url, only=frozenset({"one-at-a-time", "stalled-neighbours"})))
    assert {saw(report, name)[0] for name in ("one-at-a-time", "stalled-neighbours")} == {"passed"}


@pytest.mark.parametrize(
    ("status", "failed"),
    [(400, []), (404, []), (405, []), (501, []), (0, []), (303, []), (500, ["calm"]), (200, ["methods"])],
)
def test_whoever_says_no_to_a_method_is_honest(status: int, failed: list[str]) -> None:
    """By which status is the server's business; to take it, or to fail, is not."""
    with serving(verifies, others=status) as url:
        report = audit(settings(url, only=frozenset({"methods", "calm"})))
    assert report.failed() == failed, "\n".join(report.lines())


class Queue:
    """
    A receiver that acknowledges, and books afterwards; twice where the event came while *gone* was there.

    The second time is *again_seconds* later, or with the next delivery.
    """

    def __init__(self, database: str, gone: Path, again_seconds: float | None) -> None:
        self._connection = psycopg.connect(database, autocommit=True)
        self._connection.execute("CREATE TABLE effects (event_id text NOT NULL)")
        self._gone, self._again_seconds = gone, again_seconds
        self._later: list[Timer] = []
        self._owed: list[str] = []

    def answer(self, handler: BaseHTTPRequestHandler, body: bytes) -> int:
        """Acknowledge what is genuine."""
        if not genuine(body, handler):
            return 400
        event_id = json.loads(body)["id"]
        while self._owed:
            self._book(self._owed.pop())
        self._in(0.05, event_id)
        if self._gone.exists():
            if self._again_seconds is None:
                self._owed.append(event_id)
            else:
                self._in(self._again_seconds, event_id)
        return 200

    def _in(self, seconds: float, event_id: str) -> None:
        self._later.append(Timer(seconds, self._book, [event_id]))
        self._later[-1].start()

    def _book(self, event_id: str) -> None:
        self._connection.execute("INSERT INTO effects VALUES (%s)", [event_id])

    def close(self) -> None:
        """Let it come to its end."""
        for each in self._later:
            each.join()
        self._connection.close()


@pytest.mark.parametrize(("again_seconds", "still_seconds"), [(0.5, 10.0), (None, 0.0)])
def test_a_second_effect_that_comes_after_the_first_was_counted_is_seen(
    database: str, tmp_path: Path, again_seconds: float | None, still_seconds: float
) -> None:
    """What works after the answer is given time to stand still; and is counted once more in the end."""
    queue = Queue(database, tmp_path / "gone", again_seconds)
    with serving(queue.answer) as url:
        report = audit(
            settings(
                url,
                database=database,
                effects_sql=EFFECTS,
                still_seconds=still_seconds,
                breaking=f"touch {tmp_path / 'gone'}",
                mending=f"rm {tmp_path / 'gone'}",
                only=frozenset({"failure-doubled", "still-serving"}),
            )
        )
    queue.close()
    assert (report.failed(), report.mistakes()) == (["failure-doubled"], ["mark after"])
    told = (
        "2 effects once it was mended"
        if again_seconds
        else "one effect once it was mended; 2 effects in the end"
    )
    assert saw(report, "failure-doubled") == ("failed", told)


def test_a_host_without_an_address_is_told_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is bad input, and nothing that a receiver has done."""

    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(ConfigurationError, match="the host of URL has no address"):
        audit(settings("http://receiver.example.test/hooks"))
