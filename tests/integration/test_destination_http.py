"""A message is posted once, signed, to the address that was looked at; what the other side answers is its verdict."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from cryptography.hazmat.primitives import serialization
from httpcore import ConnectError

from tests.fixtures.http_receiver import answering, receiving
from webhook_inbox.destinations import Failed, Http, Message, Sent, Verdict
from webhook_inbox.destinations.addresses import is_public
from webhook_inbox.destinations.http import ANSWER_BYTES_MAX, retry_after
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.secret import Secret
from webhook_inbox.sources import Identity, StandardWebhooks, Verified
from webhook_inbox.testing.key_pairs import certificate_pair
from webhook_inbox.testing.signing import public_key_of

SECRET = "whsec_" + base64.b64encode(b"fake key of the tests, thirty-two").decode()
NEWER = "whsec_" + base64.b64encode(b"another fake key of these tests").decode()
PRIVATE = "whsk_" + base64.b64encode(b"obviously fake private key bytes"[:32]).decode()
ID = UUID("5b951b6d-524e-5f45-8bb7-b283d403c426")


def message(**given: Any) -> Message:
    """A message as a relay hands it over."""
    values: dict[str, Any] = {
        "id": ID,
        "destination": "mail",
        "event_type": "Päid",
        "payload": b'{"n": 1}',
        "created_at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    }
    return Message(**values | given)


async def posted(url: str, *messages: Message, **given: Any) -> list[Verdict]:
    """Post *messages* (one, where none is given) to *url*, which may be private."""
    values: dict[str, Any] = {"secret": SECRET, "allow_private": True, "seconds_max": 5.0}
    destination = Http(url, **values | given)
    await destination.open()
    try:
        return list(await destination.send(messages or (message(),)))
    finally:
        await destination.close()


def told(story: Callable[[], Any]) -> Any:
    """Run *story* with a deadline."""

    async def run() -> Any:
        return await asyncio.wait_for(story(), 30)

    return asyncio.run(run())


def verdict_for(answer: bytes | None, **given: Any) -> Verdict:
    """What becomes of a message that is answered so."""

    async def story() -> Verdict:
        async with receiving(lambda _: answer) as receiver:
            return (await posted(receiver.url, **given))[0]

    found: Verdict = told(story)
    return found


@pytest.mark.parametrize(
    ("secret", "known"),
    [
        (SECRET, SECRET),
        (PRIVATE, public_key_of(PRIVATE)),
        ([SECRET, NEWER], SECRET),
        ([SECRET, NEWER], NEWER),
        ([Secret(SECRET), PRIVATE], public_key_of(PRIVATE)),
        (lambda: [NEWER], NEWER),
    ],
    ids=["HMAC", "Ed25519", "the older", "the newer", "one of either kind", "asked each time"],
)
def test_our_own_source_believes_it(secret: Any, known: str) -> None:
    """Every key signs, so that a receiver may know the old one or the new one; the id is the message's."""

    async def story() -> None:
        async with receiving() as receiver:
            assert await posted(receiver.url, secret=secret) == [Sent()]
            (request,) = receiver.requests
            source = StandardWebhooks(known)
            delivery = Delivery.now("POST", receiver.url, request.pairs, request.body)
            assert isinstance(source.verify(delivery, [Secret(known)]), Verified)
            (identity,) = source.identify(delivery)
            assert isinstance(identity, Identity)
            assert (identity.event_id, identity.event_type) == (str(ID), "Päid")

    told(story)


def test_the_body_is_what_the_specification_recommends() -> None:
    """Type, time and data; the data is the payload byte for byte, and the same on every attempt."""

    async def story() -> None:
        async with receiving() as receiver:
            headers = {"traceparent": "00-ab", "content-length": "9", "host": "elsewhere", "x-tenant": "7"}
            for attempt in (1, 2):
                await posted(receiver.url, message(attempt=attempt, headers=headers))
            first, second = receiver.requests
            assert first.body == second.body
            assert json.loads(first.body) == {
                "type": "Päid",
                "timestamp": "2026-01-02T03:04:05Z",
                "data": {"n": 1},
            }
            assert first.headers["content-type"] == "application/json"
            assert (first.headers["traceparent"], first.headers["x-tenant"]) == ("00-ab", "7")
            assert first.headers["host"] in receiver.url

    told(story)


@pytest.mark.parametrize("status", ["200 OK", "201 Created", "204 No Content", "299 Fine"])
def test_a_2xx_is_a_confirmation(status: str) -> None:
    """P-OUT: and nothing else is."""
    assert verdict_for(answering(status)) == Sent()


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (answering("301 Moved", "location: http://127.0.0.1:1/"), Failed("answered 301")),
        (answering("307 Moved", "location: /elsewhere"), Failed("answered 307")),
        (answering("400 Bad"), Failed("answered 400")),
        (answering("404 No"), Failed("answered 404")),
        (answering("500 Oh"), Failed("answered 500")),
        (answering("503 Busy"), Failed("answered 503")),
        (answering("500 Oh", "retry-after: 30"), Failed("answered 500", retry_in_seconds=30)),
        (answering("503 Busy", "retry-after: 30"), Failed("answered 503", retry_in_seconds=30, stop=True)),
        (answering("429 Slow", "Retry-After: 7"), Failed("answered 429", retry_in_seconds=7, stop=True)),
        (answering("429 Slow"), Failed("answered 429", stop=True)),
        (answering("410 Gone"), Failed("answered 410: nobody is there any more", permanent=True, stop=True)),
    ],
    ids=lambda given: given.split(b"\r\n")[0].decode() if isinstance(given, bytes) else "",
)
def test_what_is_answered_decides(answer: bytes, verdict: Verdict) -> None:
    """410 is for good; 429, and 503 with a time, ask for a pause; the rest, redirects too, is tried again."""
    assert verdict_for(answer) == verdict


def test_a_redirect_is_not_followed() -> None:
    """P-QUIET: the message would be sent to whomever the answer names."""

    async def story() -> None:
        async with receiving() as other:
            async with receiving(lambda _: answering("302 Found", f"location: {other.url}")) as receiver:
                await posted(receiver.url)
                assert len(receiver.requests) == 1
            assert other.requests == []

    told(story)


def test_a_huge_answer_is_read_in_part_and_an_endless_one_not_to_its_end() -> None:
    """The status line is the confirmation; 64 KiB of the rest is enough."""
    huge = b"x" * (ANSWER_BYTES_MAX * 40)
    assert verdict_for(answering("200 OK", body=huge)) == Sent()
    endless = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    endless += (b"ffff\r\n" + b"x" * 0xFFFF + b"\r\n") * 2
    assert verdict_for(endless) == Sent()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "no answer in 0.2 s"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab", "no answer in 0.2 s"),
        (None, "the connection broke: "),
        (b"SSH-2.0-nonsense\r\n\r\n", "the connection broke: "),
    ],
    ids=["silent", "half an answer", "hangs up", "no HTTP"],
)
def test_in_doubt_is_unsent(answer: bytes | None, said: str) -> None:
    """P-OUT: it may have arrived; it is charged an attempt and sent again under its id."""
    verdict = verdict_for(answer, seconds_max=0.2 if "0.2" in said else 5.0)
    assert isinstance(verdict, Failed)
    assert verdict.reason.startswith(said)
    assert not verdict.stop
    assert not verdict.permanent


@asynccontextmanager
async def speaking_no_tls() -> AsyncIterator[str]:
    """The https:// address of a server that answers a handshake in plain text."""

    def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


def test_who_cannot_be_reached_costs_no_attempt() -> None:
    """Nobody listens, no such name, no TLS there: the destination is at fault, not the message."""

    async def story() -> list[Verdict]:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        refused = await posted(f"http://127.0.0.1:{port}/")
        unknown = await posted("http://nobody.invalid/")
        async with speaking_no_tls() as url:
            plain = await posted(url)
        return [*refused, *unknown, *plain]

    verdicts = told(story)
    assert all(isinstance(each, Failed) and each.stop and not each.permanent for each in verdicts)
    assert verdicts[0].reason == "no connection: ConnectionRefusedError"
    assert verdicts[1].reason == "no connection: its name does not resolve"
    assert verdicts[2].reason.startswith("no connection: ")


#: Loopback, the metadata service and their neighbours, in every spelling that a resolver or a URL parser takes.
SPELLINGS = [
    "127.0.0.1",
    "localhost",
    "127.1",
    "0x7f.1",
    "2130706433",
    "0x7f000001",
    "017700000001",
    "0.0.0.0",  # noqa: S104 - nothing listens there
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b:1::7f00:1]",
    "[::ffff:0:127.0.0.1]",
    "[2002:7f00:1::]",
    "169.254.169.254",
    "2852039166",
    "[::ffff:a9fe:a9fe]",
    "[fd00:ec2::254]",
    "[fe80::1%25lo]",
    "10.0.0.1",
    "100.64.0.1",
    "192.168.1.1",
    "224.0.0.1",
]


@pytest.mark.parametrize("host", SPELLINGS)
def test_an_address_that_is_not_public_is_not_connected_to(host: str) -> None:
    """However it is written: the address that was resolved is looked at, not the URL."""

    async def story() -> None:
        async with receiving() as receiver:
            port = receiver.url.rsplit(":", 1)[1].split("/")[0]
            (verdict,) = await posted(f"https://{host}:{port}/hooks", allow_private=False)
            assert isinstance(verdict, Failed)
            assert "its address is not public" in verdict.reason or "does not resolve" in verdict.reason
            assert verdict.stop
            assert receiver.connections == 0

    told(story)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_the_public_internet_is_public(address: str) -> None:
    """Else nothing could be sent anywhere."""
    assert is_public(address)


def test_a_name_that_resolves_otherwise_the_second_time_gains_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is resolved once a connection, what was looked at is what is connected to, and one bad address is enough."""

    async def story() -> None:
        answers = [["93.184.216.34"], ["127.0.0.1"], ["93.184.216.34", "127.0.0.1"]]
        asked: list[str] = []
        connected: list[str] = []

        def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
            asked.append(host)
            return [
                (socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in answers[len(asked) - 1]
            ]

        async def connect_tcp(self: Any, host: str, *_: Any, **__: Any) -> Any:
            connected.append(host)
            raise ConnectError

        monkeypatch.setattr("socket.getaddrinfo", getaddrinfo)
        monkeypatch.setattr("httpcore.AnyIOBackend.connect_tcp", connect_tcp)
        destination = Http("https://rebinding.example/", secret=SECRET)
        await destination.open()
        verdicts = [(await destination.send([message()]))[0] for _ in answers]
        assert connected == ["93.184.216.34"]
        assert asked == ["rebinding.example"] * 3
        assert [isinstance(each, Failed) and "not public" in each.reason for each in verdicts] == [
            False,
            True,
            True,
        ]

    told(story)


def test_a_name_server_that_hangs_holds_no_other_destination_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-FLOW: however many messages wait for it; and what waits for it ends when the destination is closed."""
    answers = threading.Event()
    resolve = socket.getaddrinfo

    def getaddrinfo(host: str, *given: Any, **named: Any) -> list[Any]:
        if host == "hangs.example":
            answers.wait(30)
        return resolve("127.0.0.1", *given, **named)

    async def story() -> None:
        async with receiving() as receiver:
            monkeypatch.setattr("socket.getaddrinfo", getaddrinfo)
            stuck = Http("https://hangs.example/", secret=SECRET, concurrency_max=50)
            await stuck.open()
            sending = [asyncio.create_task(stuck.send([message()])) for _ in range(50)]
            verdicts = await asyncio.wait_for(posted(receiver.url), 3)
            assert verdicts == [Sent()]
            for each in sending:
                each.cancel()
            await asyncio.wait(sending, timeout=3)
            await asyncio.wait_for(stuck.close(), 3)

    try:
        told(story)
    finally:
        answers.set()


@pytest.fixture
def tls(tmp_path: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """What a server called localhost shows, and who believes it."""
    pair = certificate_pair("localhost")
    key = serialization.load_der_private_key(base64.b64decode(pair.private), None)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (tmp_path / "chain.pem").write_bytes(pem + pair.public.encode())
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shown.load_cert_chain(tmp_path / "chain.pem")
    trust = ssl.create_default_context(cadata=pair.public)
    trust.verify_flags &= ~ssl.VerifyFlags.VERIFY_X509_STRICT  # the certificate is its own authority
    return shown, trust


def test_the_certificate_is_of_the_name_though_an_address_is_connected_to(
    tls: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    """Another name, or an authority that is not known: nothing is sent, and the message is not charged."""
    shown, trust = tls

    async def story() -> None:
        async with receiving(tls=shown) as receiver:
            named = receiver.url.replace("127.0.0.1", "localhost")
            assert await posted(named, trust=trust) == [Sent()]
            others = [*await posted(receiver.url, trust=trust), *await posted(named)]
            assert others == [Failed("no connection: SSLCertVerificationError", stop=True)] * 2
            assert len(receiver.requests) == 1

    told(story)


def test_several_at_once_share_connections_and_keep_them() -> None:
    """One request a message; a second batch meets the connections of the first."""

    async def story() -> None:
        async with receiving() as receiver:
            destination = Http(receiver.url, secret=SECRET, allow_private=True, concurrency_max=4)
            await destination.open()
            for _ in range(3):
                verdicts = await destination.send([message(id=uuid4()) for _ in range(4)])
                assert verdicts == [Sent()] * 4
            await destination.close()
            assert len(receiver.requests) == 12
            assert receiver.connections <= 4

    told(story)


@pytest.mark.parametrize(
    ("url", "given", "text"),
    [
        ("http://mail.example/", {}, "can be read and changed on its way"),
        ("ftp://mail.example/", {}, "give an address such as"),
        ("https:///hooks", {}, "give an address such as"),
        ("https://mail.example:99999/", {}, "it is no URL"),
        ("https://user:pass@mail.example/", {}, "leave out user and password"),
        ("https://@mail.example/", {}, "leave out user and password"),
        ("https://mäil.example/", {}, "write it in ASCII"),
        ("https://mail.example/", {"secret": "plain"}, "secret-1 is neither whsec_"),
        ("https://mail.example/", {"secret": "whsec_c2hvcnQ="}, "secret-1 is neither whsec_"),
        ("https://mail.example/", {"secret": "whsk_c2hvcnQ="}, "secret-1 is neither whsec_"),
        ("https://mail.example/", {"secret": []}, "empty list"),
        ("https://mail.example/", {"secret": ""}, "is empty"),
    ],
)
def test_what_cannot_work_is_refused_where_it_is_made(url: str, given: dict[str, Any], text: str) -> None:
    """It is told before any message; the text shows neither secret nor password."""
    with pytest.raises(ConfigurationError, match=text) as caught:
        Http(url, **{"secret": SECRET, **given})
    assert "pass@" not in str(caught.value)
    assert "c2hvcnQ" not in str(caught.value)


def test_it_says_whom_it_leads_to_and_no_more_of_its_url() -> None:
    """A query may hold a token, and so may a path: a chat's incoming webhook has nothing else (P-QUIET)."""
    for url in ("https://mail.example:8443/services/T0/fake-token", "https://mail.example:8443/?token=fake"):
        assert Http(url, secret=SECRET).place == "http https://mail.example:8443"


def test_a_pause_is_read_in_seconds_or_as_a_date_and_bounded() -> None:
    """What cannot be read, or has passed, is no pause; nobody can make us wait for more than a day."""
    assert retry_after(b"12") == 12.0
    assert retry_after(b" 99999999999999999999999 ") == retry_after(b"86401") == 86_400.0
    soon = format_datetime(datetime.now(UTC) + timedelta(minutes=2), usegmt=True).encode()
    assert 100 < (retry_after(soon) or 0) <= 120
    # "At once", again and again, is what backoff is against.
    for nothing in (b"0", b"Wed, 21 Oct 2015 07:28:00 GMT"):
        assert retry_after(nothing) is None
    beyond = b"Mon, 1 Jan 2024 00:00:00 +99999999999999999999"
    for nonsense in (None, b"", b"-1", b"soon", b"1.5e9x", "²".encode(), b"\xff", beyond):
        assert retry_after(nonsense) is None
