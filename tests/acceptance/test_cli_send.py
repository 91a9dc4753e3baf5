"""``send`` delivers as a provider does: the file's bytes, under a signature that the provider's own SDK accepts."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import stripe
from standardwebhooks import Webhook

from tests.deliveries import delivery, verdict
from tests.fixtures.cli import PAYLOADS, SECONDS_MAX, Cli
from webhook_inbox.sources import GitHub, Identity, Mailgun, Verified

SECRET = "whsec_ZmFrZV9jbGlfc2VjcmV0X2Zha2VfY2xpX3NlY3JldA=="
Answer = tuple[int, dict[str, str], bytes]


@dataclass
class Receiver:
    """
    A receiver that notes what came and answers as the test says.

    Attributes:
        answer: Given the number of the request, from 0.
        hold: Requests wait until so many are under way at once.
    """

    url: str = ""
    answer: Callable[[int], Answer] = lambda _number: (200, {}, b'{"outcome": "processed"}')
    hold: int = 1
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    at_once_max: int = 0
    _under_way: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def take(self, headers: dict[str, str], body: bytes) -> Answer:
        """Note one request, wait for its mates, and answer."""
        with self._changed:
            number = len(self.bodies)
            self.bodies.append(body)
            self.headers.append(headers)
            self._under_way += 1
            self.at_once_max = max(self.at_once_max, self._under_way)
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self.at_once_max >= self.hold, SECONDS_MAX)
            self._under_way -= 1
        return self.answer(number)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """On loopback, for one test."""
    taken = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status, headers, content = taken.take({k.lower(): v for k, v in self.headers.items()}, body)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    taken.url = f"http://127.0.0.1:{server.server_port}/hooks"
    yield taken
    server.shutdown()
    thread.join(SECONDS_MAX)
    server.server_close()


def send(cli: Cli, receiver: Receiver, *arguments: Any, source: str = "stripe", code: int = 0) -> Any:
    """Send to the receiver; give what ``--json`` says."""
    cli.environment["WEBHOOK_INBOX_SECRET"] = SECRET
    return cli.json("send", receiver.url, *arguments, "--source", source, code=code)


def outcomes(told: Any) -> list[tuple[int | None, str, int]]:
    """Status, outcome and count."""
    return [(each["status"], each["outcome"], each["deliveries"]) for each in told["outcomes"]]


def test_the_providers_own_sdk_accepts_what_is_sent(cli: Cli, receiver: Receiver) -> None:
    """Real files and odd ones, byte for byte."""
    files = [
        *sorted((PAYLOADS / "edge").iterdir()),
        *sorted((PAYLOADS / "stripe" / "events-connect").iterdir()),
    ]
    told = send(cli, receiver, *files)
    assert outcomes(told) == [(200, "processed", len(files))]
    assert receiver.bodies == [file.read_bytes() for file in files]
    texts = 0
    for headers, body in zip(receiver.headers, receiver.bodies, strict=True):
        with contextlib.suppress(UnicodeDecodeError):  # Stripe's SDK verifies text
            assert stripe.WebhookSignature.verify_header(
                body.decode(), headers["stripe-signature"], SECRET, 300
            )
            texts += 1
    assert texts >= len(files) - 2
    assert [(each["file"], each["bytes"]) for each in told["files"]] == [
        (str(file), file.stat().st_size) for file in files
    ]


@pytest.mark.parametrize(("source", "family"), [("standard-webhooks", "webhook"), ("svix", "svix")])
def test_schemes_with_an_id_in_a_header_get_the_payloads_own(
    cli: Cli, receiver: Receiver, source: str, family: str
) -> None:
    """The same on every delivery; where the payload has none, its bytes determine one."""
    nameless = cli.folder / "nameless.json"
    nameless.write_text('{"type": "x"}')
    send(cli, receiver, cli.payload("evt_1"), nameless, "--duplicate", "2", source=source)
    ids = [headers[f"{family}-id"] for headers in receiver.headers]
    assert ids[:2] == ["evt_1", "evt_1"]
    assert ids[2] == ids[3]
    assert ids[2].startswith("msg_")
    for headers, body in zip(receiver.headers, receiver.bodies, strict=True):
        renamed = {
            f"webhook-{part}": headers[f"{family}-{part}"] for part in ("id", "timestamp", "signature")
        }
        assert Webhook(SECRET).verify(body, renamed)


def test_a_type_goes_into_the_header_where_its_provider_sends_it(cli: Cli, receiver: Receiver) -> None:
    """GitHub's event is a header, its action stays in the body; the source believes what comes."""
    body = b'{"action":"opened","issue":{"number":1}}'
    file = cli.folder / "issue.json"
    file.write_bytes(body)
    send(cli, receiver, file, "--type", "issues.opened", source="github")
    (headers,), (taken,) = receiver.headers, receiver.bodies
    assert (headers["x-github-event"], taken) == ("issues", body)
    sent = delivery(taken, headers.items())
    assert verdict(GitHub(SECRET), sent) == Verified("secret-1")
    (reading,) = GitHub(SECRET).identify(sent)
    assert isinstance(reading, Identity)
    assert reading.event_type == "issues.opened"


def test_a_signature_inside_the_body_is_written_into_it(cli: Cli, receiver: Receiver) -> None:
    """Mailgun's: a file sent twice is one event, whose token is the same."""
    file = cli.folder / "delivered.json"
    file.write_text('{"event-data": {"event": "delivered"}}')
    send(cli, receiver, file, "--duplicate", "2", source="mailgun")
    tokens = {json.loads(body)["signature"]["token"] for body in receiver.bodies}
    assert len(tokens) == 1
    source = Mailgun(SECRET)
    for body in receiver.bodies:
        assert isinstance(verdict(source, delivery(body, now=time.time())), Verified)


def test_duplicates_are_delivered_at_once_where_asked(cli: Cli, receiver: Receiver) -> None:
    """Exactly so many are under way; the receiver answers none before all are there."""
    receiver.hold = 8
    told = send(cli, receiver, cli.payload("evt_1"), "--duplicate", "8", "--concurrent", "8")
    assert receiver.at_once_max == 8
    assert len(told["files"][0]["deliveries"]) == told["deliveries"] == 8


def test_no_more_are_under_way_than_allowed(cli: Cli, receiver: Receiver) -> None:
    """And one at a time unless asked otherwise, in the order of the files."""
    files = [cli.payload(f"evt_{number}") for number in range(6)]
    send(cli, receiver, *files)
    assert receiver.at_once_max == 1
    assert receiver.bodies == [file.read_bytes() for file in files]
    receiver.hold, receiver.at_once_max = 3, 0
    send(cli, receiver, *files, "--concurrent", "3", "--duplicate", "3")
    assert receiver.at_once_max == 3


def test_a_shuffled_order_can_be_repeated(cli: Cli, receiver: Receiver) -> None:
    """By the seed that it tells."""
    files = [cli.payload(f"evt_{number}") for number in range(12)]
    cli.environment["WEBHOOK_INBOX_SECRET"] = SECRET
    done = cli.run("send", receiver.url, *files, "--source", "stripe", "--shuffle")
    order = list(receiver.bodies)
    assert done.returncode == 0
    assert sorted(order) == sorted(file.read_bytes() for file in files)
    seed = done.stderr.split("--seed ")[1].split()[0]
    receiver.bodies.clear()
    send(cli, receiver, *files, "--seed", seed)
    assert receiver.bodies == order


def test_it_sends_again_until_it_is_acknowledged(cli: Cli, receiver: Receiver) -> None:
    """Each attempt with a fresh signature; Retry-After is heard, up to a limit; then exit 0."""
    answers: list[Answer] = [
        (503, {"retry-after": "3600"}, b""),
        (500, {}, b"not json"),
        (400, {}, b'{"outcome": "rejected"}'),
        (200, {}, b'{"outcome": "duplicate"}'),
    ]
    receiver.answer = lambda number: answers[number]
    told = send(cli, receiver, cli.payload("evt_1"), "--retries", "9", "--retry-wait-seconds-max", "0.1")
    assert outcomes(told) == [(200, "duplicate", 1)]
    assert told["files"][0]["deliveries"][0]["attempts"] == 4
    assert len(receiver.bodies) == 4
    for headers, body in zip(receiver.headers, receiver.bodies, strict=True):
        assert stripe.WebhookSignature.verify_header(body.decode(), headers["stripe-signature"], SECRET, 300)


@pytest.mark.parametrize("retries", [0, 2])
def test_what_is_not_acknowledged_is_bad(cli: Cli, receiver: Receiver, retries: int) -> None:
    """Exit 1, after as many attempts as were allowed; whatever a stranger's receiver answers."""
    receiver.answer = lambda _number: (500, {}, b'{"outcome": "\\u001b[31mfailed\\u202e"}')
    arguments = (cli.payload("evt_1"), "--retries", str(retries), "--retry-wait-seconds-max", "0")
    told = send(cli, receiver, *arguments, code=1)
    assert (told["unacknowledged"], len(receiver.bodies)) == (1, retries + 1)
    done = cli.run("send", receiver.url, *arguments, "--source", "stripe")
    assert done.returncode == 1
    assert "500 \\x1b[31mfailed\\u202e" in done.stdout
    assert done.stdout.isprintable() or "\x1b" not in done.stdout
    assert "1 not acknowledged" in done.stdout


def test_nothing_but_the_url_is_talked_to(cli: Cli, receiver: Receiver) -> None:
    """A redirect is an answer like another, and no proxy of the environment is asked."""
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        other = f"http://127.0.0.1:{elsewhere.getsockname()[1]}/"
        receiver.answer = lambda _number: (307, {"location": other}, b"")
        cli.environment.update(
            {"HTTP_PROXY": other, "http_proxy": other, "ALL_PROXY": other, "HTTPS_PROXY": other}
        )
        assert outcomes(send(cli, receiver, cli.payload("evt_1"), code=1)) == [(307, "", 1)]
        elsewhere.setblocking(False)
        with pytest.raises(BlockingIOError):
            elsewhere.accept()


def test_a_receiver_that_is_not_there_or_says_nothing_is_told_apart(cli: Cli) -> None:
    """Refused, silent, torn off: no traceback, and why."""
    payload = cli.payload("evt_1")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        url = Receiver(url=f"http://127.0.0.1:{port}/")
        assert outcomes(send(cli, url, payload, "--timeout", "0.5", code=1)) == [(None, "timed out", 1)]

        def tear_off() -> None:
            for _ in range(2):  # the silent attempt is still in the queue
                silent.accept()[0].close()

        thread = threading.Thread(target=tear_off)
        thread.start()
        assert outcomes(send(cli, url, payload, code=1)) == [(None, "connection lost", 1)]
        thread.join(SECONDS_MAX)
    assert outcomes(send(cli, url, payload, code=1)) == [(None, "no connection", 1)]


def test_a_rate_is_kept(cli: Cli, receiver: Receiver) -> None:
    """Ten a second: eleven take a second at least."""
    files = [cli.payload(f"evt_{number}") for number in range(11)]
    assert send(cli, receiver, *files, "--rate", "10", "--concurrent", "11")["seconds"] >= 1


def test_a_folder_stands_for_its_files(cli: Cli, receiver: Receiver) -> None:
    """By name, without hidden ones and without folders in it."""
    folder = cli.folder / "payloads"
    (folder / "deeper").mkdir(parents=True)
    for name in ("b.json", "a.json", ".hidden", "deeper/c.json"):
        (folder / name).write_text(json.dumps({"id": name}))
    told = send(cli, receiver, folder)
    assert [(each["file"], each["event_id"]) for each in told["files"]] == [
        (str(folder / "a.json"), "a.json"),
        (str(folder / "b.json"), "b.json"),
    ]


def test_people_read_it_by_file_and_by_outcome(cli: Cli, receiver: Receiver) -> None:
    """A line for each file, one for each outcome, and the sum."""
    receiver.answer = lambda number: (
        200,
        {},
        b'{"outcome": "%s"}' % (b"duplicate" if number else b"processed"),
    )
    cli.environment["WEBHOOK_INBOX_SECRET"] = SECRET
    done = cli.run("send", receiver.url, cli.payload("evt_1"), "--source", "stripe", "--duplicate", "3")
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert lines[1].split(maxsplit=2)[1:] == ["evt_1", "1 processed, 2 duplicate"]
    assert [line.split() for line in lines[4:6]] == [
        ["200", "duplicate", "-", "2"],
        ["200", "processed", "-", "1"],
    ]
    assert lines[-1].startswith("3 deliveries of 1 file (")
    assert lines[-1].endswith(": all acknowledged")


def test_what_the_receiver_knows_of_the_event_is_shown(cli: Cli, receiver: Receiver) -> None:
    """Its id, where the payload has none in ``id``; of a duplicate where the first copy stands; as JSON too."""
    receiver.answer = lambda number: (
        200,
        {},
        b'{"outcome": "%s", "event_id": "del\\u001b_1", "state": "dead"}'
        % (b"duplicate" if number else b"queued"),
    )
    payload = cli.folder / "push.json"
    payload.write_text('{"ref": "main"}')
    arguments = (payload, "--type", "push", "--duplicate", "2")
    told = send(cli, receiver, *arguments, source="github")
    assert [(each["event_id"], each["state"]) for each in told["files"][0]["deliveries"]] == [
        ("del\x1b_1", "dead")
    ] * 2
    receiver.bodies.clear()
    done = cli.run("send", receiver.url, *arguments, "--source", "github")
    assert done.stdout.splitlines()[1].split(maxsplit=2)[1:] == [
        "del\\x1b_1",
        "1 queued, 1 duplicate (now dead)",
    ]


def test_a_type_that_nobody_handles_is_told_at_once(cli: Cli, receiver: Receiver) -> None:
    """A misspelt ``on(...)`` is acknowledged all the same: how many, and of which type."""
    types = ["invoice.paid", "invoice.paid", "odd\\u001b"]
    receiver.answer = lambda number: (
        200,
        {},
        b'{"outcome": "ignored", "unhandled_type": "%s"}' % types[number].encode(),
    )
    cli.environment["WEBHOOK_INBOX_SECRET"] = SECRET
    done = cli.run("send", receiver.url, cli.payload("evt_1"), "--source", "stripe", "--duplicate", "3")
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[-3:-1]) == (
        0,
        ["2 events ignored: no handler for invoice.paid", "1 event ignored: no handler for odd\\x1b"],
    )


def test_it_says_why_a_delivery_was_not_acknowledged(cli: Cli, receiver: Receiver) -> None:
    """The receiver's code in the table and its sentence once, whatever a stranger wrote into it; both in JSON."""
    refusal = {"outcome": "rejected", "reason": "bad_signature", "error": "no secret fits\x1b[2J"}
    receiver.answer = lambda _number: (400, {}, json.dumps(refusal).encode())
    told = send(cli, receiver, cli.payload("evt_1"), code=1)
    [delivery] = told["files"][0]["deliveries"]
    assert {name: delivery[name] for name in refusal} == refusal
    assert told["outcomes"] == [
        {"status": 400, "outcome": "rejected", "reason": "bad_signature", "deliveries": 1}
    ]
    arguments = (cli.payload("evt_1"), "--source", "stripe", "--duplicate", "3")
    lines = cli.run("send", receiver.url, *arguments).stdout.splitlines()
    assert lines[4].split() == ["400", "rejected", "bad_signature", "3"]
    assert lines[6] == "no secret fits\\x1b[2J"
    assert lines[7].startswith("3 deliveries")


def test_where_no_tls_comes_about_it_says_so(cli: Cli) -> None:
    """Somebody listens there, so that is not what to look at."""
    cli.environment["WEBHOOK_INBOX_SECRET"] = SECRET
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(SECONDS_MAX)
        place = f"127.0.0.1:{listening.getsockname()[1]}"
        process = cli.start("send", f"https://{place}/x", cli.payload("evt_1"), "--source", "stripe")
        connection, _ = listening.accept()
        with connection:
            connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
            output, _ = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 1
    assert f"no TLS with {place}: does it speak that, and is its certificate trusted here?\n" in output


def test_where_nobody_listens_it_says_where_and_what_to_look_at(cli: Cli) -> None:
    """P-QUIET: host and port, and nothing else of a URL that may hold credentials."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    url = f"http://user:canary@127.0.0.1:{port}/shop?token=canary"
    done = cli.run("send", url, cli.payload("evt_1"), "--source", "stripe", WEBHOOK_INBOX_SECRET=SECRET)
    assert done.returncode == 1
    assert f"no connection to 127.0.0.1:{port}: is `webhook-inbox serve` running?\n" in done.stdout
    assert "canary" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["http://127.0.0.1:1/", "nofile", "--source", "stripe"], "cannot read nofile"),
        (["http://127.0.0.1:1/", "empty", "--source", "stripe"], "there is no file in empty"),
        (["http://127.0.0.1:1/", "evt_1.json", "--source", "nobody"], "there is no source 'nobody'"),
        (["ftp://127.0.0.1/", "evt_1.json", "--source", "stripe"], "URL is none of http or https"),
        (["127.0.0.1:8000/x", "evt_1.json", "--source", "stripe"], "URL is none"),
        (["http://", "evt_1.json", "--source", "stripe"], "URL is none"),
        (["http://127.0.0.1:1/", "evt_1.json", "--source", "github"], "in a header: give --type"),
        (["http://127.0.0.1:1/", "evt_1.json", "--source", "adyen"], "has not the form that adyen's have"),
        (["http://127.0.0.1:1/", "evt_1.json", "--source", "github", "--type", "é"], "fits into no header"),
        (
            ["http://127.0.0.1:1/", "evt_1.json", "--source", "github", "--type", "a\nb"],
            "fits into no header",
        ),
    ],
)
def test_a_mistake_is_found_before_anything_is_sent(cli: Cli, arguments: list[str], words: str) -> None:
    """Exit 2."""
    cli.payload("evt_1")
    (cli.folder / "empty").mkdir()
    done = cli.run("send", *arguments, WEBHOOK_INBOX_SECRET=SECRET)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_a_secret_is_needed(cli: Cli) -> None:
    """And it says how to give it without a command line that others can read."""
    done = cli.run("send", "http://127.0.0.1:1/", cli.payload("evt_1"), "--source", "stripe")
    assert done.returncode == 2
    assert "WEBHOOK_INBOX_SECRET" in done.stderr
