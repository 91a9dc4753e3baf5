"""A load counts from when it was due, and a receiver that loses or invents an event gets no figure."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from benchmarks.harness.errors import BenchmarkError, InvariantError
from benchmarks.harness.events import event_body
from benchmarks.harness.open_loop import send_at
from benchmarks.harness.requests import write_requests
from benchmarks.receive.load import Traffic, _Load

STALL_SECONDS = 0.5


@contextmanager
def receiver(*, stalls_at: int) -> Iterator[int]:
    """Answer every request 200; answer nobody for a while, once, from request *stalls_at* on. Gives the port."""
    one_at_a_time = threading.Lock()
    numbers = itertools.count(1)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            with one_at_a_time:
                if next(numbers) == stalls_at:
                    time.sleep(STALL_SECONDS)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        yield server.server_address[1]
        server.shutdown()
        serving.join(10)


def test_a_stall_is_counted_for_every_request_that_was_due_meanwhile(tmp_path: Path) -> None:
    """At a constant rate a receiver that stops for half a second delays what comes then, and all of it counts."""
    requests = write_requests(tmp_path / "requests", event_body, first=0, count=150)
    with receiver(stalls_at=20) as port:
        paced = send_at(requests, port, per_second=200)
    assert (paced.answers, paced.refused, paced.unanswered) == (150, 0, 0)
    assert paced.max_ms >= STALL_SECONDS * 900
    assert paced.p50_ms >= STALL_SECONDS * 100  # about 100 of 150 requests were due during the stall


@pytest.mark.parametrize("rows", [9, 15])
def test_rows_that_are_lost_or_invented_are_no_result(tmp_path: Path, rows: int) -> None:
    """Fewer rows than answers, or more than were answered or under way: the run does not count."""
    load = _Load(Traffic(), tmp_path, 0)
    load._answered, load._under_way = 10, 4
    for right in (10, 14):
        load.check(right)
    with pytest.raises(InvariantError, match=f"10 requests were answered 200.*{rows} events"):
        load.check(rows)


def test_ids_that_repeated_are_no_result(tmp_path: Path) -> None:
    """A receiver that met duplicates was asked for less."""
    load = _Load(Traffic(), tmp_path, 0)
    load._repeated = True
    with pytest.raises(BenchmarkError, match="ran out"):
        load.check(0)
