"""
P-QUIET, searched for: secrets are planted wherever one can be, everything fails that can, and nothing tells any of it.

Places: the output of each verb; the logs of ``serve``, ``worker`` and ``relay`` at their most talkative; ``/metrics``;
the answers that senders hear; the spans; and every column of every table but those that hold payloads by design.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import re
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from tests.fixtures.canaries import NAMES, Search, canary, core, forms, in_url, signing_secret
from tests.fixtures.cli import Cli, Served
from tests.fixtures.provider_apis import StripeApi, Told, served
from webhook_inbox.cli.main import run
from webhook_inbox.testing.signing import sign_stripe

APP = Path(__file__).parents[1] / "fixtures" / "canary_app.py"
HOSTILE = 'evt_"\x1b[2J\n2026-01-01T00:00:00.000Z INFO webhook_inbox: endpoint x: event "e": processed\u202e'
FAILING = ("fail", "ask", "repeat", "prepare", "set", "book", "wait")
#: Each in words and as JSON, in this process; what takes an app has one of its own.
VERBS = (
    "status",
    "events list --limit 200",
    "events list --state dead --error Error",
    "events retry --state dead --yes --reason again --operator canary-test",
    "events discard --state quarantined --yes --reason seen --operator canary-test",
    "outbox list",
    "outbox retry --state dead --yes --reason again --operator canary-test",
    "reviews list --all",
    "endpoints list",
)
#: What has to have gone wrong, or there was nothing to tell of it.
FAILED = {
    "delivery_failed",
    "delivery_rejected",
    "destination_down",
    "event_dead",
    "event_quarantined",
    "handler_failed",
    "hook_failed",
    "message_dead",
    "order_key_failed",
    "request_refused",
    "run_failed",
}
RECONCILE = "reconcile shop:inbox queued --since 2d --json"
APP_VERBS = ("doctor shop:inbox --reach", "doctor shop:inbox --json", RECONCILE, "prune shop:inbox")


@pytest.fixture
def api() -> Iterator[StripeApi]:
    """A provider whose list is asked for, and which is a destination that answers badly, too."""
    provider = StripeApi()
    with served(provider):
        yield provider


@pytest.fixture
def shop_of_canaries(cli: Cli, database: str, api: StripeApi) -> Cli:
    """The program with the app, and a password in its DSN that the server does not ask for."""
    parts = urlsplit(database)
    user, _, host = parts.netloc.rpartition("@")
    dsn = urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}:{in_url('dsn_password')}@{host}"))
    cli.environment |= {"WEBHOOK_INBOX_DATABASE_URL": dsn}
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        cli.environment[name] = f"http://proxy:{in_url('proxy_password')}@127.0.0.1:1"
    port = urlsplit(api.url).port
    given = {name: canary(name) for name in NAMES} | {
        "api_base": api.url,
        "answers": f"{api.url}/services/{in_url('destination_path')}?token={in_url('destination_query')}",
        "nobody": f"http://127.0.0.1:1/services/{in_url('destination_path')}?token={in_url('destination_query')}",
        "destination_secret": signing_secret("destination_secret"),
        "nats": f"nats://user:{in_url('nats_password')}@127.0.0.1:{port}",
        "redis": f"redis://:{in_url('redis_password')}@127.0.0.1:{port}/0",
        "rabbitmq": f"amqp://user:{in_url('rabbitmq_password')}@127.0.0.1:{port}/",
    }
    (cli.folder / "canaries.json").write_text(json.dumps(given))
    shutil.copy(APP, cli.folder / "shop.py")
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE cards (number text PRIMARY KEY)")
    return cli


class Sender:
    """Deliver as a provider does, with credentials in every header that has any, and keep what is answered."""

    def __init__(self, server: Served, search: Search) -> None:
        self.server = server
        self.search = search
        self.number = 0

    def body(self, event_type: str, event_id: str = "", payload: str = "payload") -> bytes:
        """An event with a canary in its payload."""
        self.number += 1
        event = {"id": event_id or f"evt_{self.number}", "object": "event", "type": event_type}
        return json.dumps(event | {"data": {"object": {"card": canary(payload)}}}).encode()

    def send(self, endpoint: str, body: bytes, *, secret: str = "new_secret", **headers: str) -> int:
        """Post it, signed."""
        signature = sign_stripe(body, canary(secret), int(time.time()))
        told = {
            "authorization": f"Bearer {canary('authorization')}",
            "cookie": f"session={canary('cookie')}",
            "x-api-key": canary("x_api_key"),
            "proxy-authorization": f"Basic {canary('token_header')}",
            **dict(signature),
            **headers,
        }
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        connection.request("POST", f"/{endpoint}?token={in_url('request_query')}", body, told)
        answer = connection.getresponse()
        self.search.add(f"answers of {endpoint}", f"{answer.headers}\n{answer.read().decode()}")
        connection.close()
        return answer.status


def deliver_everything(sender: Sender, search: Search) -> None:
    """Good, bad, unreadable, twice, conflicting, forged; to each endpoint."""
    for endpoint in ("queued", "inline", "hybrid"):
        for event_type in FAILING:
            body = sender.body(event_type)
            sender.send(endpoint, body)
            sender.send(endpoint, body, secret="old_secret")
        sender.send(endpoint, sender.body("book", HOSTILE))
        sender.send(endpoint, sender.body(HOSTILE))
        sender.send(endpoint, f'{{"object": "event", "card": "{canary("quarantined")}'.encode())
        refused = sender.body("book", payload="refused_payload")
        expected = hmac.new(canary("new_secret").encode(), b"1." + refused, hashlib.sha256).hexdigest()
        search.needles[f"expected signature at {endpoint}"] = expected
        assert sender.send(endpoint, refused, **{"stripe-signature": f"t=1,v1={'0' * 64}"}) == 400
        assert sender.send(endpoint, refused, **{"stripe-signature": canary("token_header")}) == 400
        assert sender.send(endpoint, refused, **{"content-encoding": canary("token_header")}) >= 400
    assert sender.send("tenants", sender.body("book")) >= 400
    assert sender.send(in_url("request_query"), sender.body("book")) == 404


def get(port: int, path: str) -> str:
    """Read one of the operators' pages."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path)
    text = connection.getresponse().read().decode()
    connection.close()
    return text


def told_here(search: Search, verb: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Run a verb in this process, for people and for programs, and search what it says."""
    for more in ([], ["--json"]):
        code = run([*verb.split(), *more])
        shown = "".join(capfd.readouterr())
        assert code in (0, 1), (verb, shown)
        search.add(f"webhook-inbox {verb}", shown)


def told(cli: Cli, search: Search, command: str) -> None:
    """Run a verb that loads the app, and search what it says."""
    done = cli.run(*command.split())
    assert "Usage" not in done.stderr, (command, done.stderr)
    search.add(f"webhook-inbox {command}", done.stdout + done.stderr)


@pytest.mark.timeout(300)  # a dozen processes, one after the other
def test_no_secret_and_no_payload_comes_out_anywhere(
    shop_of_canaries: Cli,
    database: str,
    api: StripeApi,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """P-QUIET: in no form, in no place; and what a sender calls an event forges no line."""
    cli, search = shop_of_canaries, Search()
    server = cli.serve("--ops-port", "0", "--log-format", "json", "--log-level", "debug", "--access-log")
    search.add("announcement of serve", json.dumps(server.told))
    deliver_everything(Sender(server, search), search)
    port = int(server.told["ops"][0].rpartition(":")[2])
    for page in ("/metrics", "/healthz", "/readyz"):
        search.add(f"ops page {page}", get(port, page))
    assert server.stop() == 0
    search.add("log of serve", server.log.read_text())

    api.troubles.extend([Told({"error": canary("api_answer")}, 500, {"x-token": canary("api_answer")})] * 99)
    for form in ("json", "text"):
        for program in ("worker", "relay"):
            told(cli, search, f"{program} shop:inbox --drain --log-level debug --log-format {form}")
        make_due(database)
    for verb in APP_VERBS:
        told(cli, search, verb)
    api.troubles.clear()
    told(cli, search, f"{RECONCILE} --dry-run")  # the key is refused
    monkeypatch.setenv("WEBHOOK_INBOX_DATABASE_URL", cli.environment["WEBHOOK_INBOX_DATABASE_URL"])
    shows = [f"events show {row}" for row in ids(database)] + [
        f"outbox show {each}" for each in message_ids(database)
    ]
    for verb in (*VERBS, *shows):
        told_here(search, verb, capfd)

    search.add("spans", (cli.folder / "spans").read_text())
    kept = search.add_tables(database)
    found = {name for _, name, _ in kept.hits()}
    assert {"payload", "emitted", "quarantined"} <= found, "the search finds what is there by design"
    assert set(re.findall(r'"event": "([a-z_]+)"', "".join(search.places.values()))) >= FAILED, (
        "nothing to tell of"
    )
    hits = search.hits()
    with capfd.disabled():
        sys.stdout.write(f"\n{search.summary(hits)}\n")
    assert not hits, search.summary(hits)
    forged(search)


def forged(search: Search) -> None:
    """Nothing that a sender chose reaches a terminal raw, or begins a line of a log."""
    for place, text in search.places.items():
        if not place.startswith(("column", "answers")):
            assert "\x1b" not in text, place
            assert "\u202e" not in text, place
            assert "\n2026-01-01T00:00:00.000Z" not in text, place


def make_due(dsn: str) -> None:
    """Let nothing wait for its next attempt."""
    with psycopg.connect(dsn) as connection:
        connection.execute("UPDATE webhooks.sends SET available_at = now() WHERE state = 'retrying'")


def ids(dsn: str) -> list[str]:
    """One event of each state and error, by its row."""
    with psycopg.connect(dsn) as connection:
        found = connection.execute(
            "SELECT min(id)::text FROM webhooks.inbox GROUP BY endpoint, state, left(last_error, 30)"
        ).fetchall()
    assert len(found) > 5
    return [row[0] for row in found]


def message_ids(dsn: str) -> list[str]:
    """A message of each destination."""
    with psycopg.connect(dsn) as connection:
        found = connection.execute(
            "SELECT DISTINCT ON (destination) message_id::text FROM webhooks.sends"
        ).fetchall()
    assert len(found) > 4
    return [row[0] for row in found]


def test_the_search_finds_a_secret_in_whatever_form_it_comes_out() -> None:
    """What is never found by a search that cannot find is no proof."""
    for name in NAMES:
        for form, shown in forms(core(name)).items():
            search = Search()
            search.add("somewhere", f"<{shown}>")
            assert ("somewhere", name, form) in search.hits()
