"""What a provider publishes is fetched within bounds, and kept; here from a real server over TLS."""

from __future__ import annotations

import base64
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from webhook_inbox.errors import VerificationKeyError
from webhook_inbox.sources import fetched
from webhook_inbox.sources.fetched import BYTES_MAX, FETCHES_A_MINUTE_MAX, KEPT_MAX, Fetched, ask, fetch
from webhook_inbox.testing.key_pairs import certificate_pair

BODY = b"fake certificate"
SECONDS_MAX = 10
CASES = {
    "/good": (200, BODY),
    "/edge": (200, b"x" * BYTES_MAX),
    "/large": (200, b"x" * (BYTES_MAX + 1)),
    "/unknown": (404, b""),
    "/gone": (410, b""),
    "/busy": (429, b""),
    "/moved": (302, b""),
    "/partial": (206, BODY),
    "/short": (200, BODY),
    "/broken": (500, b""),
}


@dataclass
class Host:
    """A host on the loopback, what it was asked, and who believes it."""

    port: int
    trust: ssl.SSLContext
    asked: list[str] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def fetch(self, path: str) -> bytes | None:
        """Ask it."""
        return fetch(f"https://localhost{path}", trust=self.trust, port=self.port)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """Serve the cases until the tests of this file have run."""
    folder: Path = tmp_path_factory.mktemp("tls")
    pair = certificate_pair("localhost")
    key = serialization.load_der_private_key(base64.b64decode(pair.private), None)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "chain.pem").write_bytes(pem + pair.public.encode())
    trust = ssl.create_default_context(cadata=pair.public)
    trust.verify_flags &= ~ssl.VerifyFlags.VERIFY_X509_STRICT  # the certificate is its own authority
    served = Host(0, trust)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append(self.path)
            if self.path == "/silent":
                served.ended.wait(SECONDS_MAX)
                return
            if self.path == "/garbage":
                self.wfile.write(b"no HTTP\r\n\r\n")
                return
            status, body = CASES[self.path]
            self.send_response(status)
            self.send_header("location", "/good")
            self.send_header("content-length", str(len(body) + (self.path == "/short")))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            served.asked.append(f"{self.path} {self.headers['content-type']}")
            self.send_response(400)
            self.send_header("content-length", str(length))
            self.end_headers()
            self.wfile.write(self.rfile.read(length))

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("localhost", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "chain.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    served.port = server.server_address[1]
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    yield served
    served.ended.set()
    server.shutdown()
    serving.join(SECONDS_MAX)
    server.server_close()
    assert not serving.is_alive()


def test_what_is_there_is_given_and_what_is_not_is_none(host: Host) -> None:
    """4xx: the host knows no such thing."""
    assert host.fetch("/good") == BODY
    assert host.fetch("/edge") == b"x" * BYTES_MAX
    assert host.fetch("/unknown") is None
    assert host.fetch("/gone") is None


@pytest.mark.parametrize("path", ["/large", "/short", "/moved", "/partial", "/busy", "/broken", "/garbage"])
def test_any_other_answer_is_an_error(host: Host, path: str) -> None:
    """Neither believed nor a reason to refuse for good; a redirect is not followed."""
    host.asked.clear()
    with pytest.raises(VerificationKeyError, match="localhost|of more than 65536 bytes"):
        host.fetch(path)
    assert host.asked == [path]


def test_what_is_posted_is_answered_whatever_the_status(host: Host) -> None:
    """For providers whose keys are asked for: the source judges the answer."""
    host.asked.clear()
    url = "https://localhost/key"
    assert ask(url, post=b'{"kid":"1"}', trust=host.trust, port=host.port) == (400, b'{"kid":"1"}')
    assert host.asked == ["/key application/json"]


def test_a_host_that_says_nothing_is_given_up(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the time that is allowed."""
    monkeypatch.setattr(fetched, "FETCH_SECONDS_MAX", 0.2)
    with pytest.raises(VerificationKeyError, match="localhost cannot be asked: TimeoutError"):
        host.fetch("/silent")


def test_a_host_whose_certificate_nobody_vouches_for_is_not_asked(host: Host) -> None:
    """Nor one that cannot be reached."""
    host.asked.clear()
    untrusted = "cannot be asked: SSLCertVerificationError"
    with pytest.raises(VerificationKeyError, match=untrusted):
        fetch("https://localhost/good", port=host.port)
    with pytest.raises(VerificationKeyError, match=untrusted):
        fetch("https://127.0.0.1/good", trust=host.trust, port=host.port)
    with pytest.raises(VerificationKeyError, match="localhost cannot be asked: ConnectionRefusedError"):
        fetch("https://localhost/good", trust=host.trust, port=1)
    assert host.asked == []


def test_no_proxy_of_the_environment_is_asked(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address alone says where to."""
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert host.fetch("/good") == BODY


@dataclass
class World:
    """A network and a clock that the test moves."""

    now: float = 0.0
    content: bytes | None = BODY
    asked: list[str] = field(default_factory=list)

    def fetch(self, url: str) -> bytes | None:
        """Note that it was asked."""
        self.asked.append(url)
        if self.content == b"":
            raise VerificationKeyError("fake")
        return self.content

    def fetched(self) -> Fetched:
        """Give what is tested."""
        return Fetched(self.fetch, clock=lambda: self.now)


@pytest.mark.parametrize(("content", "seconds"), [(BODY, 3_600), (None, 60)])
def test_an_answer_is_kept_for_its_time(content: bytes | None, seconds: int) -> None:
    """An hour for what is there, a minute for what is not."""
    world = World(content=content)
    kept = world.fetched()
    for now, asked in ((0, 1), (seconds - 1, 1), (seconds, 2)):
        world.now = now
        assert kept.get("a") == content
        assert len(world.asked) == asked


def test_what_could_not_be_fetched_is_asked_for_again_in_a_moment() -> None:
    """An outage is kept for five seconds alone: so long nobody else waits for it, each on a thread."""
    world = World(content=b"")
    kept = world.fetched()
    for now, asked in ((0, 1), (4, 1), (5, 2)):
        world.now = now
        with pytest.raises(VerificationKeyError, match="fake"):
            kept.get("a")
        assert len(world.asked) == asked
    world.content = BODY
    world.now = 10
    assert kept.get("a") == BODY
    assert kept.get("a") == BODY
    assert len(world.asked) == 3


def test_an_outage_makes_no_stranger_of_what_was_there() -> None:
    """It is asked for again, however many addresses strangers name meanwhile."""
    world = World()
    kept = world.fetched()
    kept.get("there")
    world.now, world.content = 3_600, b""
    with pytest.raises(VerificationKeyError, match="fake"):
        kept.get("there")
    world.content = None
    for number in range(FETCHES_A_MINUTE_MAX):
        kept.get(str(number))
    world.now, world.content = 3_605, BODY
    with pytest.raises(VerificationKeyError, match="fetches within a minute"):
        kept.get("one more")
    assert kept.get("there") == BODY


def test_a_stranger_who_names_many_addresses_has_few_of_them_fetched() -> None:
    """So many a minute; what is kept is given all the same, and no more is kept than fits."""
    world = World()
    kept = world.fetched()
    for number in range(FETCHES_A_MINUTE_MAX):
        kept.get(str(number))
    with pytest.raises(VerificationKeyError, match="fetches within a minute"):
        kept.get("one more")
    assert kept.get("0") == BODY
    assert len(world.asked) == FETCHES_A_MINUTE_MAX
    world.now = 60
    assert kept.get("one more") == BODY


def test_no_more_is_kept_than_fits_and_what_is_not_there_goes_first() -> None:
    """A stranger cannot drive out what was there, nor keep it from being asked for again."""
    world = World()
    kept = world.fetched()
    kept.get("there")
    world.content = None
    for number in range(2 * KEPT_MAX):
        world.now += 4
        kept.get(f"nowhere {number}")
    asked = len(world.asked)
    assert kept.get("there") == BODY
    assert len(world.asked) == asked
    world.now = 3_600
    for number in range(FETCHES_A_MINUTE_MAX):
        kept.get(f"elsewhere {number}")
    world.content = BODY
    assert kept.get("there") == BODY
    world.now += 60
    for number in range(KEPT_MAX + 1):
        world.now += 4
        kept.get(f"also there {number}")
    asked = len(world.asked)
    assert kept.get("also there 1") == BODY
    assert len(world.asked) == asked
    assert kept.get("there") == BODY
    assert len(world.asked) == asked + 1


def test_deliveries_that_come_at_once_fetch_once() -> None:
    """The others wait for the first."""
    world, gate, under_way = World(), threading.Event(), threading.Event()

    def slow(url: str) -> bytes | None:
        under_way.set()
        assert gate.wait(SECONDS_MAX)
        return world.fetch(url)

    kept = Fetched(slow, clock=lambda: 0)
    got: list[bytes | None] = []
    threads = [threading.Thread(target=lambda: got.append(kept.get("a"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert under_way.wait(SECONDS_MAX)
    gate.set()
    for thread in threads:
        thread.join(SECONDS_MAX)
    assert got == [BODY] * 4
    assert world.asked == ["a"]


def test_nobody_waits_for_a_fetch_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that waits is missed elsewhere."""
    monkeypatch.setattr(fetched, "FETCH_SECONDS_MAX", 0.05)
    gate, under_way = threading.Event(), threading.Event()

    def stuck(_: str) -> bytes | None:
        under_way.set()
        gate.wait(SECONDS_MAX)
        return BODY

    kept = Fetched(stuck)
    first = threading.Thread(target=kept.get, args=("a",))
    first.start()
    assert under_way.wait(SECONDS_MAX)
    with pytest.raises(VerificationKeyError, match="another fetch takes longer"):
        kept.get("a")
    gate.set()
    first.join(SECONDS_MAX)
    assert not first.is_alive()


def test_only_a_name_that_was_there_waits_for_another() -> None:
    """P-FLOW: while a host is slow, strangers' names would fill the threads on which genuine deliveries ask."""
    world, gate, under_way = World(), threading.Event(), threading.Event()
    gate.set()

    def slow(url: str) -> bytes | None:
        under_way.set()
        assert gate.wait(SECONDS_MAX)
        return world.fetch(url)

    kept = Fetched(slow, clock=lambda: world.now)
    kept.get("there")
    world.now = 3_600
    gate.clear()
    under_way.clear()
    threads = [
        threading.Thread(target=kept.get, args=("nowhere",)),
        threading.Thread(target=kept.get, args=("there",)),
    ]
    threads[0].start()
    assert under_way.wait(SECONDS_MAX)
    threads[1].start()
    with pytest.raises(VerificationKeyError, match="another fetch is under way"):
        kept.get("elsewhere")
    gate.set()
    for thread in threads:
        thread.join(SECONDS_MAX)
    assert world.asked == ["there", "nowhere", "there"]
