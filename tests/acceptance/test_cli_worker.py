"""``worker`` works off what is recorded, and ends when it is told to, whatever its handlers or the database do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.fixtures.cli import SECONDS_MAX, SECRET, Cli
from tests.fixtures.programs import eventually
from webhook_inbox import Inbox
from webhook_inbox.embedded import EmbeddedPostgres
from webhook_inbox.sources import Stripe
from webhook_inbox.testing.signing import sign_stripe

STOP_SECONDS_MAX = 2
#: Starting, ending and noticing take their time on a busy machine; without a limit it would be for ever.
SLACK_SECONDS = 10.0

#: ``held.lock`` waits for the lock that the test holds; ``held.sleep`` and ``blocks.loop`` for nothing that ever comes.
SHOP = f"""
from __future__ import annotations
import threading
from webhook_inbox import GiveUp, Inbox
from webhook_inbox.sources import Stripe

inbox = Inbox()
shop = inbox.endpoint("shop", Stripe(secrets={SECRET!r}))

@shop.on("invoice.paid", "held.lock", "held.sleep")
def book(tx, event):
    tx.conn.execute("INSERT INTO effects (event_id) VALUES (%s)", [event.id])
    if event.type == "held.lock":
        tx.conn.execute("SELECT pg_advisory_xact_lock(7)")
    if event.type == "held.sleep":
        tx.conn.execute("SELECT pg_advisory_xact_lock_shared(8)")
        threading.Event().wait()

@shop.on("blocks.loop")
async def block(tx, event):
    await tx.conn.execute("SELECT pg_advisory_xact_lock_shared(8)")
    threading.Event().wait()

@shop.on("unwanted")
def refuse(tx, event):
    raise GiveUp("not wanted")
"""
BODY = '{"id": "%s", "object": "event", "type": "%s", "created": 1760000000, "data": {"object": {}}}'


@pytest.fixture
def queue(shop: Cli) -> Cli:
    """The shop, with a queued endpoint and little time to stop."""
    shop.app(SHOP)
    shop.environment["WEBHOOK_INBOX_STOP_SECONDS_MAX"] = str(STOP_SECONDS_MAX)
    return shop


@pytest.fixture
def beside(queue: Cli) -> Iterator[psycopg.Connection[Any]]:
    """The test's own connection to the shop's database."""
    with psycopg.connect(queue.environment["WEBHOOK_INBOX_DATABASE_URL"], autocommit=True) as connection:
        yield connection


def record(cli: Cli, **types: str) -> None:
    """Deliver events, type by id, to a receiver that knows all of them."""
    inbox = Inbox(cli.environment["WEBHOOK_INBOX_DATABASE_URL"])
    inbox.endpoint("shop", Stripe(secrets=SECRET)).on("*")(lambda tx, event: None)
    for event_id, event_type in types.items():
        body = (BODY % (event_id, event_type)).encode()
        receipt = inbox.receive_sync("shop", headers=sign_stripe(body, SECRET, int(time.time())), body=body)
        assert receipt.status == 200, receipt
    inbox.close()


def effects(connection: psycopg.Connection[Any]) -> list[str]:
    """The events that took effect, once for each time."""
    return [row[0] for row in connection.execute("SELECT event_id FROM effects ORDER BY 1")]


def states(connection: psycopg.Connection[Any]) -> dict[str, tuple[str, int]]:
    """State and attempts of each event."""
    rows = connection.execute("SELECT event_id, state, attempts FROM webhooks.inbox ORDER BY 1")
    return {event_id: (state, attempts) for event_id, state, attempts in rows}


def waits(connection: psycopg.Connection[Any]) -> bool:
    """Whether a handler waits for the test's lock."""
    row = connection.execute(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 7 AND NOT granted"
    ).fetchone()
    return row is not None and row[0] == 1


def sleeps(connection: psycopg.Connection[Any]) -> bool:
    """Whether a handler is past its last statement, where it waits for nothing that ever comes."""
    row = connection.execute(
        """
        SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
        WHERE locktype = 'advisory' AND objid = 8 AND granted AND pg_stat_activity.state = 'idle in transaction'
        """
    ).fetchone()
    return row is not None and row[0] == 1


def start(cli: Cli, *arguments: str) -> tuple[subprocess.Popen[str], Path]:
    """Start a worker; give it and the file that its stderr goes to."""
    log = cli.folder / "worker.log"
    with log.open("w") as stderr:
        return cli.start("worker", "shop:inbox", *arguments, stderr=stderr), log


def stop(process: subprocess.Popen[str], log: Path, number: int = signal.SIGTERM) -> None:
    """Send a signal, and return when it was heard."""
    process.send_signal(number)
    eventually(lambda: "stopping" in log.read_text(), what="the signal is heard")


def ends_in_time(process: subprocess.Popen[str]) -> int:
    """Wait no longer than the limit, and give the exit code."""
    return process.wait(STOP_SECONDS_MAX + SLACK_SECONDS)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_works_until_it_is_told_to_stop(
    queue: Cli, beside: psycopg.Connection[Any], number: signal.Signals
) -> None:
    """It says who it is, takes up what comes while it runs, and exits 0 saying what its runs came to."""
    process, log = start(queue, "--json")
    assert process.stdout is not None
    told = json.loads(process.stdout.readline())
    assert told["endpoints"] == [{"endpoint": "shop", "mode": "queued"}]
    assert told["pid"] == process.pid
    assert f":{process.pid}:" in told["worker"]
    record(queue, evt_1="invoice.paid", evt_2="unwanted")
    eventually(
        lambda: states(beside) == {"evt_1": ("processed", 1), "evt_2": ("dead", 1)}, what="all is settled"
    )
    stop(process, log, number)
    assert ends_in_time(process) == 0
    assert effects(beside) == ["evt_1"]
    assert log.read_text().splitlines()[-1] == "stopped; 2 runs: 1 processed, 1 dead"


def test_it_says_for_whom_it_works(queue: Cli) -> None:
    """A person sees one line, with its name and each endpoint's mode."""
    process, log = start(queue)
    eventually(lambda: "works for" in log.read_text(), what="it has started")
    assert (
        log.read_text()
        .splitlines()[0]
        .partition(", with the database ")[0]
        .endswith(" works for shop (queued)")
    )
    stop(process, log)
    assert ends_in_time(process) == 0


def test_it_ends_when_it_is_told_to_though_nobody_reads_what_it_says(queue: Cli) -> None:
    """As where the supervisor that reads its log died first."""
    reader, writer = os.pipe()
    os.close(reader)
    process = queue.start("worker", "shop:inbox", "--json", stderr=writer)
    os.close(writer)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert ends_in_time(process) == 0


def test_sigterm_finishes_what_is_under_way_and_begins_nothing(
    queue: Cli, beside: psycopg.Connection[Any]
) -> None:
    """P-COUNT: the effect under way commits; what comes after the signal is not touched."""
    queue.environment["WEBHOOK_INBOX_STOP_SECONDS_MAX"] = "60"
    record(queue, evt_1="held.lock")
    beside.execute("SELECT pg_advisory_lock(7)")
    process, log = start(queue)
    eventually(lambda: waits(beside), what="the handler waits for the lock")
    stop(process, log)
    record(queue, evt_2="invoice.paid")
    beside.execute("SELECT pg_advisory_unlock(7)")
    assert process.wait(SECONDS_MAX) == 0
    assert effects(beside) == ["evt_1"]
    assert states(beside) == {"evt_1": ("processed", 1), "evt_2": ("waiting", 0)}


@pytest.mark.parametrize("event_type", ["held.lock", "held.sleep"])
def test_what_does_not_end_is_given_up_without_cost(
    queue: Cli, beside: psycopg.Connection[Any], event_type: str
) -> None:
    """P-COUNT: at the database or in a thread that never ends; exit 0 in time; the next attempt is the first."""
    record(queue, evt_1=event_type)
    beside.execute("SELECT pg_advisory_lock(7)")
    process, log = start(queue)
    eventually(lambda: waits(beside) or sleeps(beside), what="the handler is at it")
    stop(process, log)
    assert ends_in_time(process) == 0
    assert effects(beside) == []
    beside.execute("SELECT pg_advisory_unlock(7)")
    queue.app(SHOP.replace("threading.Event().wait()", "pass"))
    process, log = start(queue)
    eventually(lambda: states(beside) == {"evt_1": ("processed", 1)}, what="the next worker books it")
    stop(process, log)
    assert ends_in_time(process) == 0
    assert effects(beside) == ["evt_1"]


def test_a_handler_that_blocks_the_loop_does_not_keep_it(queue: Cli, beside: psycopg.Connection[Any]) -> None:
    """P-CALM: the signal is heard on another thread; the process ends in time, and says what is still held."""
    record(queue, evt_1="blocks.loop")
    process, log = start(queue)
    eventually(lambda: sleeps(beside), what="the handler blocks the loop")
    stop(process, log)
    assert ends_in_time(process) == 0
    assert "not everything ended in time" in log.read_text()
    assert states(beside) == {"evt_1": ("leased", 1)}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("event_type", ["held.sleep", "blocks.loop"])
def test_a_second_signal_ends_it_at_once(
    queue: Cli, beside: psycopg.Connection[Any], event_type: str, number: signal.Signals, code: int
) -> None:
    """Whatever its threads do, and however much time it would have."""
    queue.environment["WEBHOOK_INBOX_STOP_SECONDS_MAX"] = "600"
    record(queue, evt_1=event_type)
    process, log = start(queue)
    eventually(lambda: sleeps(beside), what="the handler never ends")
    stop(process, log)
    process.send_signal(number)
    assert process.wait(SLACK_SECONDS) == code
    assert states(beside) == {"evt_1": ("leased", 1)}


def test_it_ends_in_time_though_the_database_never_answers(cli: Cli, cluster: EmbeddedPostgres) -> None:
    """P-CALM: the server stands still in the middle of a run; the worker does not wait for it."""
    cli.app(SHOP)
    cli.environment |= {"WEBHOOK_INBOX_DATABASE_URL": cluster.dsn, "WEBHOOK_INBOX_STOP_SECONDS_MAX": "2"}
    assert cli.run("migrate").returncode == 0
    with psycopg.connect(cluster.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE effects (event_id text NOT NULL)")
        connection.execute("SELECT pg_advisory_lock(7)")
        record(cli, evt_1="held.lock")
        process, log = start(cli)
        eventually(lambda: waits(connection), what="the handler waits for the lock")
        frozen = cluster.processes()
        for each in frozen:
            os.kill(each, signal.SIGSTOP)
        try:
            stop(process, log)
            assert ends_in_time(process) == 0
        finally:
            for each in frozen:
                os.kill(each, signal.SIGCONT)


def test_drain_works_until_nothing_is_due(queue: Cli, beside: psycopg.Connection[Any]) -> None:
    """Exit 0 with a number for each outcome; a second one finds nothing."""
    record(queue, evt_1="invoice.paid", evt_2="invoice.paid", evt_3="unwanted", evt_4="unheard.of")
    told = queue.json("worker", "shop:inbox", "--drain")
    assert {key: told[key] for key in told if key != "worker"} == {
        "drained": True,
        "runs": 4,
        "processed": 2,
        "ignored": 1,
        "dead": 1,
    }
    assert effects(beside) == ["evt_1", "evt_2"]
    again = queue.run("worker", "shop:inbox", "--drain")
    assert (again.returncode, again.stdout) == (0, "nothing is due; 0 runs\n")


def test_a_drain_that_is_stopped_says_so(queue: Cli, beside: psycopg.Connection[Any]) -> None:
    """Whoever waits for an empty queue must not take its end for one: exit 1."""
    record(queue, evt_1="held.lock")
    beside.execute("SELECT pg_advisory_lock(7)")
    process, log = start(queue, "--drain", "--json")
    eventually(lambda: waits(beside), what="the handler waits for the lock")
    stop(process, log)
    output, _ = process.communicate(timeout=STOP_SECONDS_MAX + SLACK_SECONDS)
    assert process.returncode == 1
    assert json.loads(output)["drained"] is False


def test_workers_share_and_a_killed_one_is_replaced_by_the_other(
    queue: Cli, beside: psycopg.Connection[Any]
) -> None:
    """P-ONCE, P-FENCE: SIGKILL with an event in hand; when the lease has ended the other books it, once."""
    queue.environment["WEBHOOK_INBOX_LEASE_SECONDS"] = "2"
    record(queue, evt_1="held.lock")
    beside.execute("SELECT pg_advisory_lock(7)")
    first, _ = start(queue)
    eventually(lambda: waits(beside), what="the handler waits for the lock")
    first.kill()
    second, log = start(queue)
    eventually(
        lambda: states(beside)["evt_1"] == ("leased", 2) and waits(beside), what="the other takes over"
    )
    beside.execute("SELECT pg_advisory_unlock(7)")
    eventually(lambda: states(beside)["evt_1"][0] == "processed", what="the other books it")
    stop(second, log)
    assert ends_in_time(second) == 0
    assert effects(beside) == ["evt_1"]


def test_an_app_that_is_not_there_is_refused(queue: Cli) -> None:
    """Exit 2 before anything is tried, with what to change."""
    done = queue.run("worker", "shop:outbox")
    assert done.returncode == 2
    assert "its Inbox is shop:inbox" in done.stderr


def test_a_database_without_the_schema_is_refused(cli: Cli, empty_database: str) -> None:
    """Exit 2, with the command that helps."""
    cli.app(SHOP)
    done = cli.run("worker", "shop:inbox", WEBHOOK_INBOX_DATABASE_URL=empty_database)
    assert done.returncode == 2
    assert "not working: " in done.stderr
    assert "run `webhook-inbox migrate shop:inbox`" in done.stderr


def test_a_database_that_is_away_is_refused(cli: Cli) -> None:
    """Exit 2, with the reason, and no word of its password."""
    cli.app(SHOP)
    done = cli.run("worker", "shop:inbox", DATABASE_URL="postgresql://bob:canary-7f3a@127.0.0.1:1/shop")
    assert done.returncode == 2
    assert "nothing listens there" in done.stderr
    assert "canary" not in done.stderr


@pytest.mark.parametrize("workers", ["1", "2"])
def test_serve_can_work_too(queue: Cli, beside: psycopg.Connection[Any], workers: str) -> None:
    """P-ONCE: recorded, answered, worked off by the same processes; SIGTERM ends both in time."""
    served = queue.serve("--workers", workers, "--with-worker")
    assert served.told["with_worker"] is True
    told = queue.send(served, queue.payload("evt_1"), queue.payload("evt_2", "held.sleep"))
    assert [each["outcome"] for each in told["outcomes"]] == ["queued"]
    eventually(lambda: sleeps(beside), what="the handler never ends")
    eventually(lambda: states(beside)["evt_1"] == ("processed", 1), what="the other is booked")
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(STOP_SECONDS_MAX + 2 * SLACK_SECONDS) == 0
    assert effects(beside) == ["evt_1"]


def test_a_second_signal_ends_a_server_that_works_at_once(
    queue: Cli, beside: psycopg.Connection[Any]
) -> None:
    """P-CALM: whoever asks twice does not wait for a handler; its event returns when the lease ends."""
    served = queue.serve("--with-worker")
    queue.send(served, queue.payload("evt_1", "held.sleep"))
    eventually(lambda: sleeps(beside), what="the handler never ends")
    served.process.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        served.process.wait(0.5)
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(SLACK_SECONDS) == 128 + signal.SIGTERM
