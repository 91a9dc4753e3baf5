"""From bytes on a wire to committed rows: a real inbox on each real server."""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.fixtures.http_inbox import DSN_VARIABLE, EFFECTS
from tests.fixtures.http_servers import KINDS, HttpServer, Reply, chunked, request, running, signed

MIB = 1_048_576
ODD = (
    b'{"id":"evt_c01","object":"event","type":"order.paid","created":1700000000,\n'
    b'  "livemode":true,"data":{"object":{"id":"or_1","qty":1.0,"price":10.00,'
    b'"note":"a\\/b \\u0026 \\u00e9","meta":{},"tags":[]}}}\n'
)
TITLE = "Café 😊 ☂ mânecă\u2028"
MULTIBYTE = f'{{"id":"evt_c02","type":"order.paid","livemode":true,"data":{{"object":{{"title":"{TITLE}"}}}}}}'.encode()


@dataclass
class Served:
    """A server, and the database behind it."""

    server: HttpServer
    dsn: str

    def post(self, body: bytes, signature: str | None = None, *, signs: bytes | None = None) -> Reply:
        """Deliver *body* under this signature header, or under a good one for *signs*, else for the body itself."""
        headers = (
            signed(body if signs is None else signs)
            if signature is None
            else [("Stripe-Signature", signature)]
        )
        return self.server.send(request(body, headers=headers))

    def rows(self, query: str) -> list[Any]:
        """Ask the database."""
        with psycopg.connect(self.dsn) as connection:
            return connection.execute(query).fetchall()

    def digests(self) -> list[str]:
        """The SHA-256 of every stored body."""
        return [hashlib.sha256(body).hexdigest() for [body] in self.rows("SELECT body FROM webhooks.bodies")]


@pytest.fixture(params=KINDS)
def served(request: pytest.FixtureRequest, database: str, tmp_path: Path) -> Iterator[Served]:
    """An inbox on each server in turn."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(EFFECTS)
    app = "tests.fixtures.http_inbox:app"
    with running(request.param, tmp_path / "server.log", app=app, **{DSN_VARIABLE: database}) as server:
        yield Served(server, database)


def test_only_the_exact_bytes_are_believed_and_kept(served: Served) -> None:
    """C01, P-RAW: a body that no re-encoding gives back is stored as sent; a re-encoded or shortened one is refused."""
    compact = ODD.replace(b"\n", b"").replace(b"  ", b"").replace(b"1.0", b"1")
    for sent, signs in ((ODD, compact), (ODD[:-1], ODD), (ODD + b"\n", ODD)):
        refused = served.post(sent, signs=signs)
        assert (refused.status, refused.json()["reason"]) == (400, "signature_mismatch")
        assert str(len(sent)) in refused.json()["error"]
    assert served.rows("SELECT * FROM webhooks.inbox") == []
    assert served.post(ODD).json() == {"outcome": "processed", "event_id": "evt_c01", "state": "processed"}
    assert served.digests() == [hashlib.sha256(ODD).hexdigest()]
    assert served.rows("SELECT event_id FROM effects") == [("evt_c01",)]


def test_characters_cut_by_chunks_reach_the_handler_whole(served: Served) -> None:
    """C02, P-RAW: cut inside every character, the bytes are the same, and the handler reads the same text."""
    reply = served.server.send(*chunked(bytes([byte]) for byte in MULTIBYTE))
    assert reply.json()["outcome"] == "processed"
    assert served.digests() == [hashlib.sha256(MULTIBYTE).hexdigest()]
    assert served.rows("SELECT event_id, title FROM effects") == [("evt_c02", TITLE)]


def test_hostile_signatures_are_refused_fast_and_leave_no_row(served: Served) -> None:
    """C03, P-CALM, P-RAW: below 500, under a short message, nothing stored; the good one among them is taken."""
    body = b'{"id":"evt_c03","type":"order.paid","data":{"object":{}}}'
    good = dict(signed(body))["stripe-signature"]
    now, digest = good.removeprefix("t=").split(",v1=")
    hostile = [
        f"t={now},v1=\xe9",
        f"t={now},v1=",
        f"v1={digest}",
        f"t,v1={digest}",
        f"t=abc,v1={digest}",
        f"t={now[:1]}_{now[1:]},v1={digest}",
        f"t={now},t={int(now) - 9999},v1={digest}",
        f"t={now}" + ",v1=00" * 4_000,
        f"t={now},v1={digest.upper()}",
        f"t={now},v1={digest[:63]}",
        f"t={now},v1={digest}\xa0",
        "",
    ]
    for signature in hostile:
        begun = time.monotonic()
        reply = served.post(body, signature)
        assert 400 <= reply.status < 500, signature[:60]
        assert len(reply.raw) < 1_000
        assert time.monotonic() - begun < 5
    twice = request(body, headers=[("Stripe-Signature", good), ("Stripe-Signature", good)])
    assert served.server.send(twice).status == 400
    assert served.server.send(request(body)).status == 400
    assert served.rows("SELECT * FROM webhooks.inbox") == []
    assert served.post(body, f"{good},v0={digest}").json()["outcome"] == "processed"
    assert "Traceback" not in served.server.new_log()


def test_the_largest_body_is_stored_whole_and_one_byte_more_is_not(served: Served) -> None:
    """C15: exactly the limit arrives intact, by length and chunked; above it, and cut short, there is no row."""
    head, tail = b'{"id":"evt_%d","type":"order.paid","data":{"object":{"pad":"', b'"}}}'
    bodies = [head % number + b"x" * (MIB - len(head % number) - len(tail)) + tail for number in range(3)]
    assert served.post(bodies[0]).status == 200
    edges = itertools.pairwise([*range(0, MIB, 50_000), MIB])
    assert served.server.send(*chunked(bodies[1][a:b] for a, b in edges)).status == 200
    assert served.post(bodies[2] + b" ").status == 413
    assert served.server.send(
        request(bodies[2][:-1], length=MIB, headers=signed(bodies[2])), end=True
    ).statuses in ([], [400])
    assert sorted(served.digests()) == sorted(hashlib.sha256(body).hexdigest() for body in bodies[:2])
    assert len(served.rows("SELECT * FROM effects")) == 2
