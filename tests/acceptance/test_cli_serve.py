"""``serve`` refuses what it cannot serve, says where it listens, and finishes what is under way before it stops."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.fixtures.cli import PAYLOADS, SECONDS_MAX, SECRET, SHOP, Cli, Served
from tests.fixtures.programs import eventually


@pytest.fixture
def beside(shop: Cli) -> Iterator[psycopg.Connection]:
    """The test's own connection to the shop's database."""
    with psycopg.connect(shop.environment["WEBHOOK_INBOX_DATABASE_URL"], autocommit=True) as connection:
        yield connection


def effects(connection: psycopg.Connection) -> list[str]:
    """The events that took effect, once for each time."""
    return [row[0] for row in connection.execute("SELECT event_id FROM effects ORDER BY 1")]


def waiting(connection: psycopg.Connection) -> int:
    """How many handlers wait for the test's lock."""
    row = connection.execute(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    ).fetchone()
    assert row
    return int(row[0])


def get(url: str) -> int:
    """The status of a GET."""
    try:
        with urllib.request.urlopen(url, timeout=SECONDS_MAX) as answer:  # noqa: S310 - our own server
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def children(process: int) -> list[int]:
    """The processes that *process* has started and that are alive."""
    return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def test_deliveries_take_effect_once(shop: Cli, beside: psycopg.Connection) -> None:
    """Start, deliver, deliver again, stop: and the log has a record for each, with its facts."""
    served = shop.serve("--log-format", "json")
    assert served.told == {
        "listening": f"http://127.0.0.1:{served.port}",
        "endpoints": ["shop"],
        "ops": [],
        "workers": 1,
        "with_worker": False,
        "with_relay": False,
        "pid": served.process.pid,
    }
    paid, unwanted = shop.payload("evt_1"), shop.payload("evt_2", "unwanted")
    told = shop.send(served, paid, unwanted, "--duplicate", "3")
    assert [[each["outcome"] for each in file["deliveries"]] for file in told["files"]] == [
        ["processed", "duplicate", "duplicate"],
        ["dead", "duplicate", "duplicate"],
    ]
    assert effects(beside) == ["evt_1"]
    assert served.stop() == 0
    records = [json.loads(line) for line in served.lines]
    assert [(each["endpoint"], each["event_id"], each["outcome"]) for each in records] == [
        ("shop", event, outcome)
        for event, first in (("evt_1", "processed"), ("evt_2", "dead"))
        for outcome in (first, "duplicate", "duplicate")
    ]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_sigterm_finishes_what_is_under_way(shop: Cli, beside: psycopg.Connection, workers: str) -> None:
    """P-ACK: no new connection, but the delivery under way commits and is answered 200; exit 0."""
    served = shop.serve("--workers", workers)
    beside.execute("SELECT pg_advisory_lock(7)")
    arguments = ["send", f"{served.url}/shop", str(shop.payload("evt_1", "held.still")), "--source", "stripe"]
    sender = shop.start(*arguments, "--secret", SECRET, "--json")
    eventually(lambda: waiting(beside) == 1, what="the handler waits for the lock")
    served.process.send_signal(signal.SIGTERM)
    # Sooner than our own connections could fill the queue of a socket that nobody serves.
    eventually(lambda: not served.accepts(), what="nobody listens any more", seconds=10)
    assert served.process.poll() is None
    assert effects(beside) == []
    beside.execute("SELECT pg_advisory_unlock(7)")
    output, _ = sender.communicate(timeout=SECONDS_MAX)
    assert json.loads(output)["outcomes"] == [
        {"status": 200, "outcome": "processed", "reason": "", "deliveries": 1}
    ]
    assert served.process.wait(SECONDS_MAX) == 0
    assert effects(beside) == ["evt_1"]


def test_ctrl_c_drains_too(shop: Cli) -> None:
    """A server that was told to stop and did is good: exit 0, and no word about it."""
    served = shop.serve("--workers", "1")
    assert served.stop(signal.SIGINT) == 0
    assert served.lines == []


def test_two_workers_share_the_work_and_a_lost_one_is_replaced(shop: Cli, beside: psycopg.Connection) -> None:
    """At once to both: one effect. A killed worker is followed by another; the port stays served."""
    served = shop.serve("--workers", "2")
    told = shop.send(
        served, shop.payload("evt_1"), "--duplicate", "40", "--concurrent", "40", "--retries", "9"
    )
    assert {(each["status"], each["outcome"]): each["deliveries"] for each in told["outcomes"]} == {
        (200, "processed"): 1,
        (200, "duplicate"): 39,
    }
    assert effects(beside) == ["evt_1"]
    workers = [each for each in children(served.process.pid) if is_worker(each)]
    assert len(workers) == 2
    os.kill(workers[0], signal.SIGKILL)
    eventually(
        lambda: len({*filter(is_worker, children(served.process.pid))} - {*workers}) == 1,
        what="another worker has taken its place",
    )
    shop.send(served, shop.payload("evt_2"), "--retries", "9")
    assert served.stop() == 0


def is_worker(process: int) -> bool:
    """Whether it is one, rather than multiprocessing's own helper."""
    try:
        return b"spawn_main" in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False


def test_workers_do_not_outlive_their_supervisor(shop: Cli) -> None:
    """However it ends: SIGKILL leaves nobody on the port."""
    served = shop.serve("--workers", "2")
    shop.send(served, shop.payload("evt_1"), "--retries", "9")
    assert served.stop(signal.SIGKILL) == -signal.SIGKILL
    eventually(lambda: not served.accepts(), what="nobody listens any more")


def test_operators_pages_are_on_their_own_port_alone(shop: Cli) -> None:
    """Off unless asked for, and never behind the receiver's address."""
    served = shop.serve("--ops-port", "0")
    [ops] = served.told["ops"]
    assert [get(f"{ops}/{page}") for page in ("healthz", "readyz", "metrics")] == [200, 200, 200]
    assert [get(f"{served.url}/{page}") for page in ("healthz", "readyz", "metrics")] == [404, 404, 404]
    assert get(f"{ops}/shop") == 404
    assert served.stop() == 0
    assert served.lines == []


def test_each_worker_has_operators_pages_of_its_own(shop: Cli) -> None:
    """So that a scraper reaches every process's counters."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        first = probe.getsockname()[1]
    served = shop.serve("--workers", "2", "--ops-port", str(first))
    assert served.told["ops"] == [f"http://127.0.0.1:{first}", f"http://127.0.0.1:{first + 1}"]
    for ops in served.told["ops"]:
        eventually(lambda ops=ops: answers(ops), what=f"{ops} answers")  # type: ignore[misc]  # bound at once
    assert served.stop() == 0


def answers(url: str) -> bool:
    """Whether the operators' pages are there."""
    try:
        return get(f"{url}/readyz") == 200
    except OSError:
        return False


@pytest.mark.parametrize(
    ("arguments", "app", "words"),
    [
        (
            (),
            SHOP.replace("Inbox()", "Inbox(schema='odd one')"),
            "schema 'odd one' is not there",
        ),
        (
            (),
            SHOP.replace("Inbox()", "Inbox('postgresql://127.0.0.1:1/x')"),
            "no connection to the database x at 127.0.0.1:1: nothing listens there",
        ),
        ((), "from webhook_inbox import Inbox\n\ninbox = Inbox()\n", "has no endpoint"),
        (("--host", "203.0.113.1"), SHOP, "cannot listen on 203.0.113.1"),
        (("--host", "nowhere.invalid"), SHOP, "cannot listen on nowhere.invalid"),
        (("--workers", "2", "--ops-port", "0"), SHOP, "--ops-port 0"),
        (("--log-format", "xml"), SHOP, "--log-format"),
    ],
    ids=["schema", "database", "endpoint", "address", "name", "ops", "format"],
)
def test_it_refuses_to_start_and_says_what_helps(
    shop: Cli, arguments: tuple[str, ...], app: str, words: str
) -> None:
    """Exit 2, one sentence, and nothing was bound."""
    shop.app(app)
    shop.environment["WEBHOOK_INBOX_CONNECTION_WAIT_SECONDS"] = "0.5"
    done = shop.run("serve", "shop:inbox", "--port", "0", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_database_without_our_schema_is_refused_with_the_command_that_makes_it(
    shop: Cli, beside: psycopg.Connection
) -> None:
    """Exit 2, and the command works."""
    beside.execute("DROP SCHEMA webhooks CASCADE")
    done = shop.run("serve", "shop:inbox", "--port", "0")
    assert (done.returncode, done.stdout) == (2, "")
    assert "run `webhook-inbox migrate shop:inbox`" in done.stderr
    assert shop.run("migrate", "shop:inbox").returncode == 0
    assert shop.serve().stop() == 0


def test_an_address_that_is_taken_is_refused(shop: Cli) -> None:
    """By one process and by several."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for more in ((), ("--workers", "2"), ("--ops-port", port)):
            given = ("--port", "0") if "--ops-port" in more else ("--port", port)
            done = shop.run("serve", "shop:inbox", *given, *more)
            assert done.returncode == 2
            assert (
                done.stderr == f"webhook-inbox: cannot listen on 127.0.0.1:{port}: Address already in use\n"
            )


@pytest.mark.parametrize("workers", ["1", "2"])
def test_people_are_told_where_it_listens(shop: Cli, workers: str) -> None:
    """With which database, too; and when it is told to stop, and has. On stderr; stdout stays empty."""
    process = shop.start("serve", "shop:inbox", "--port", "0", "--workers", workers)
    assert process.stderr is not None
    assert process.stdout is not None
    line = process.stderr.readline()
    assert line.startswith("listening on http://127.0.0.1:")
    assert re.search(r" for shop, with the database \w+ at \S+$", line)
    process.send_signal(signal.SIGTERM)
    assert re.fullmatch(r"stopping; what is under way has \d+ s\nstopped\n", process.stderr.read())
    assert process.wait(SECONDS_MAX) == 0
    assert process.stdout.read() == ""


@pytest.mark.parametrize("mode", ["queued", "hybrid"])
def test_people_are_told_that_recorded_events_need_a_worker(shop: Cli, mode: str) -> None:
    """And how to start one; where one is inside, nothing is needed."""
    shop.app(SHOP.replace('mode="inline"', f'mode="{mode}"'))
    for more, says_so in (((), True), (("--with-worker",), False)):
        process = shop.start("serve", "shop:inbox", "--port", "0", *more)
        assert process.stderr is not None
        first = process.stderr.readline()
        assert first.startswith("listening on ")
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        assert process.wait(SECONDS_MAX) == 0
        command = "events of shop wait for a worker: run `webhook-inbox worker shop:inbox` beside this"
        assert (command in rest) is says_so


def test_connections_beyond_the_limit_hear_503(shop: Cli) -> None:
    """At once, and only while they are too many (P-CALM)."""
    served = shop.serve("--concurrency-max", "3")
    idle = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(3)]
    try:
        eventually(lambda: get(f"{served.url}/shop") == 503, what="too many connections")
    finally:
        for each in idle:
            each.close()
    eventually(lambda: get(f"{served.url}/shop") == 405, what="room again")


def test_a_hostile_event_id_cannot_command_the_terminal_that_shows_the_log(shop: Cli) -> None:
    """Nor forge a line (P-CALM)."""
    served = shop.serve("--access-log")
    hostile = "evt_\x1b[2J\u202e\u2028x"
    shop.payload("file").write_text(json.dumps({"id": hostile, "object": "event", "type": "invoice.paid"}))
    shop.send(served, shop.folder / "file.json")
    assert get(f"{served.url}/%0d%0aFORGED?token=canary") == 404
    assert served.stop() == 0
    log = served.log.read_text()
    assert "x1b[2J" in log or "u001b[2J" in log
    assert all(line.isprintable() for line in log.splitlines())
    assert "canary" not in log
    assert '" 404' in log
    assert not any(line.startswith("FORGED") for line in log.splitlines())


def test_logging_that_the_users_module_sets_up_is_left_as_it_is(shop: Cli) -> None:
    """In its own form, also in workers."""
    shop.app(SHOP + "\nimport logging\n\nlogging.basicConfig(level='INFO', format='MINE %(message)s')\n")
    for workers in ("1", "2"):
        served = shop.serve("--workers", workers)
        shop.send(served, shop.payload(f"evt_{workers}"), "--retries", "9")
        assert served.stop() == 0
        mine = [line for line in served.lines if line.startswith("MINE ")]
        assert f'MINE endpoint shop: event "evt_{workers}": processed' in mine
        assert not any(" INFO webhook_inbox" in line for line in served.lines)


def test_the_real_payloads_arrive_as_they_are(shop: Cli, beside: psycopg.Connection) -> None:
    """Every Stripe event file, twice: first settled, then duplicates; what is stored is what was sent (P-RAW)."""
    served = shop.serve()
    folders = [PAYLOADS / "stripe" / name for name in ("events", "events-connect", "events-assembled")]
    first = shop.send(served, *folders)
    assert first["unacknowledged"] == 0
    assert len(first["files"]) == sum(len(list(folder.iterdir())) for folder in folders)
    seen: dict[tuple[str, str, str], str] = {}
    for file in first["files"]:
        [delivery] = file["deliveries"]
        event = json.loads(Path(file["file"]).read_bytes())
        key = event["id"], event.get("account", ""), "live" if event["livemode"] else "test"
        expected = {"duplicate"} if key in seen else {"processed", "ignored"}  # several files share an id
        assert delivery["outcome"] in expected, file
        seen.setdefault(key, file["sha256"])
    again = shop.send(served, *folders, "--concurrent", "4", "--shuffle")
    assert {(each["status"], each["outcome"]) for each in again["outcomes"]} == {(200, "duplicate")}
    stored = beside.execute(
        "SELECT event_id, account, environment, encode(sha256(body), 'hex') FROM webhooks.events"
    )
    assert {tuple(key): digest for *key, digest in stored} == seen
    assert served.stop() == 0


def test_it_goes_on_through_an_outage(shop: Cli, beside: psycopg.Connection) -> None:
    """The database ends every connection: the next deliveries are served, or asked for again with 503."""
    served: Served = shop.serve()
    shop.send(served, shop.payload("evt_1"))
    beside.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    told = shop.send(served, shop.payload("evt_2"), "--retries", "9")
    assert told["unacknowledged"] == 0
    assert effects(beside) == ["evt_1", "evt_2"]
    assert served.stop() == 0
