"""``dev`` brings database, receiver and worker, and takes up changes of the code while deliveries wait."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.fixtures.cli import SECONDS_MAX, SECRET, Cli, Served
from tests.fixtures.programs import eventually
from webhook_inbox.cli.main import run

#: Notes which version of the code has handled an event.
SHOP = f"""
from __future__ import annotations
from webhook_inbox import Inbox
from webhook_inbox.sources import Stripe

inbox = Inbox()
shop = inbox.endpoint("shop", Stripe(secrets={SECRET!r}))

@shop.on("invoice.paid")
def book(tx, event):
    tx.conn.execute("INSERT INTO effects (event_id, version) VALUES (%s, 'first')", [event.id])
"""
EFFECTS = "CREATE TABLE effects (event_id text NOT NULL, version text NOT NULL)"


@pytest.fixture
def room(cli: Cli, open_folder: Path) -> Cli:
    """The program in a folder that the account of an embedded server may enter."""
    cli.folder = open_folder
    cli.app(SHOP)
    return cli


def started(cli: Cli, *arguments: str) -> tuple[subprocess.Popen[str], Path, Served]:
    """Start it on any free port, and wait until it listens."""
    log = cli.folder / "dev.log"
    with log.open("w") as stderr:
        process = cli.start("dev", "shop:inbox", "--port", "0", *arguments, stderr=stderr)
    eventually(lambda: "starting anew whenever" in log.read_text(), what="it listens")
    url = re.search(r"listening on (http://\S+) for shop", log.read_text())
    assert url
    return process, log, Served(process, {"listening": url[1]}, log)


def effects(connection: psycopg.Connection[Any]) -> list[tuple[str, str]]:
    """Which event took effect by which version of the code, once for each time."""
    return connection.execute("SELECT event_id, version FROM effects ORDER BY 1").fetchall()


@pytest.fixture
def beside(room: Cli, database: str) -> Iterator[psycopg.Connection[Any]]:
    """The test's own connection to a database that is given to the program."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(EFFECTS)
        yield connection


def test_it_brings_a_database_that_stays(room: Cli) -> None:
    """From nothing to an effect: no database, no schema, one command; the DSN it prints works, and the data is kept."""
    process, _, served = started(room)
    assert process.stdout is not None
    psql = re.fullmatch(r"psql '(.*)'\n", process.stdout.readline())
    assert psql
    assert process.stdout.readline() == f"export WEBHOOK_INBOX_DATABASE_URL='{psql[1]}'\n"
    with psycopg.connect(psql[1], autocommit=True) as connection:
        connection.execute(EFFECTS)
        told = room.send(served, room.payload("evt_1"))
        assert [each["outcome"] for each in told["outcomes"]] == ["queued"]
        eventually(lambda: effects(connection) == [("evt_1", "first")], what="the worker has booked it")
    process.send_signal(signal.SIGINT)
    assert process.wait(SECONDS_MAX) == 0
    assert not served.accepts()
    assert (room.folder / ".webhook-inbox" / "postgres").is_dir()
    assert (room.folder / ".webhook-inbox" / ".gitignore").read_text() == "*\n"


def test_a_change_is_taken_up_and_a_mistake_waits_for_the_next(
    room: Cli, database: str, beside: psycopg.Connection[Any]
) -> None:
    """The new code handles what comes; code that does not start says why; deliveries wait in the meantime."""
    process, log, served = started(room, "--database", database)
    tried = re.search(
        r"^  try it: webhook-inbox (send \S+ --source) NAME --secret SECRET FILE$",
        log.read_text(),
        re.MULTILINE,
    )
    assert tried
    done = room.run(*tried[1].split(), "stripe", "--secret", SECRET, str(room.payload("evt_1")))
    assert done.returncode == 0, done.stderr
    eventually(lambda: effects(beside) == [("evt_1", "first")], what="the first version has booked")
    room.app("def mistaken(:\n")
    eventually(lambda: "it starts again when a file is saved" in log.read_text(), what="the mistake is told")
    assert "SyntaxError" in log.read_text()
    sender = room.start(
        "send", f"{served.url}/shop", str(room.payload("evt_2")), "--source", "stripe", "--secret", SECRET
    )
    room.app(SHOP.replace("'first'", "'second'"))
    assert sender.wait(SECONDS_MAX) == 0
    eventually(
        lambda: effects(beside) == [("evt_1", "first"), ("evt_2", "second")],
        what="the second version has booked",
    )
    assert log.read_text().count(" is loaded\n") == 2, "once for each version that was"
    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS_MAX) == 0
    assert not (room.folder / ".webhook-inbox").exists()


def test_an_app_that_is_not_there_is_refused(room: Cli, database: str) -> None:
    """Exit 2, and nothing keeps running."""
    done = room.run("dev", "shop:outbox", "--database", database)
    assert done.returncode == 2
    assert "its Inbox is shop:inbox" in done.stderr


def test_in_the_wrong_folder_nothing_is_left_behind(room: Cli) -> None:
    """No database is made for an app that is not there."""
    (room.folder / "elsewhere").mkdir()
    room.folder /= "elsewhere"
    done = room.run("dev", "shop:inbox")
    assert done.returncode == 2
    assert "there is no module 'shop' in " in done.stderr
    assert list(room.folder.iterdir()) == []


def test_a_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2 with the command that installs it, before anything is started."""
    monkeypatch.setattr("webhook_inbox.cli.extras.find_spec", lambda _: None)
    assert run(["dev", "shop:inbox"]) == 2
    assert "pip install 'webhook-inbox[server]'" in capsys.readouterr().err
