"""``prove`` tries a user's handlers from the command line, and its exit code is the answer."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

from tests.fixtures.cli import SHOP, Cli
from tests.fixtures.pooler import direct


def test_a_handler_that_goes_by_the_event_alone_does_not_hold(shop: Cli) -> None:
    """Exit 1, with the row that is too many; with --one-id it holds, told though its JUnit cannot be written."""
    database = direct(shop.environment.pop("WEBHOOK_INBOX_DATABASE_URL"))
    events = [shop.payload("evt_1"), shop.payload("evt_2")]
    done = shop.run("prove", "shop:inbox", *events, "--database", database)
    assert done.returncode == 1, done.stderr
    assert "+ public.effects evt_1_again" in done.stdout
    assert done.stdout.endswith("it does not hold\n")
    more = ("--one-id", "--json", "--junit", "/dev/full")
    done = shop.run("prove", "shop:inbox", *events, "--database", database, *more)
    unwritten = "webhook-inbox: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, unwritten)
    told = json.loads(done.stdout)
    assert told["holds"]
    assert set(told["schedules"]) == {"in turn", "order", "copies at once", "crash", "at once"}


def test_it_makes_a_database_of_its_own(shop: Cli) -> None:
    """With the tables that --setup makes; JUnit is written where it is asked for."""
    (shop.folder / "tables.sql").write_text("CREATE TABLE effects (event_id text NOT NULL)")
    arguments = [str(shop.payload("evt_1")), "--setup", "tables.sql", "--one-id", "--junit", "proof.xml"]
    done = shop.run("prove", "shop:inbox", *arguments)
    assert (done.returncode, done.stdout.endswith("it holds\n")) == (0, True), done.stderr
    suite = ET.fromstring((shop.folder / "proof.xml").read_text())  # noqa: S314 - our own
    assert (suite.get("failures"), suite.get("tests")) == ("0", "3")


def test_the_app_finds_the_database_spelled_as_it_reads_it(shop: Cli) -> None:
    """Where DATABASE_URL names SQLAlchemy's driver, the database that is made for the proof is named so, too."""
    (shop.folder / "tables.sql").write_text("CREATE TABLE effects (event_id text NOT NULL)")
    (shop.folder / "spelled.py").write_text(
        "import os\nfrom shop import inbox\nprint(os.environ['DATABASE_URL'].partition(':')[0])\n"
    )
    shop.environment["DATABASE_URL"] = "postgresql+asyncpg://localhost/shop"
    done = shop.run("prove", "spelled:inbox", shop.payload("evt_1"), "--setup", "tables.sql", "--one-id")
    assert (done.returncode, "postgresql+asyncpg\n" in done.stderr) == (0, True), done.stdout + done.stderr


def test_what_handlers_print_is_no_data(shop: Cli) -> None:
    """Nor what the app prints as it is imported, by whatever means: it is on stderr; stdout is the proof alone."""
    database = direct(shop.environment.pop("WEBHOOK_INBOX_DATABASE_URL"))
    said = "import os\nprint('imported')\nos.write(1, b'beside sys.stdout')\n"
    shop.app(SHOP.replace("def book(tx, event):\n", "def book(tx, event):\n    print('booking')\n") + said)
    done = shop.run(
        "prove", "shop:inbox", shop.payload("evt_1"), "--database", database, "--one-id", "--json"
    )
    assert json.loads(done.stdout)["holds"], done.stderr
    assert all(each in done.stderr for each in ("imported", "beside sys.stdout", "booking"))


def test_what_is_missing_is_said(shop: Cli) -> None:
    """Exit 2: no database that may be written to, no tables, no endpoint of that name."""
    event = shop.payload("evt_1")
    for arguments, says in [
        ([], "either --database or --setup"),
        (["--database", "postgresql:///shop"], "not named as one for tests"),
        (["--setup", "absent.sql"], "cannot read absent.sql"),
        (
            ["--database", direct(shop.environment["WEBHOOK_INBOX_DATABASE_URL"]), "--endpoint", "no"],
            "no endpoint 'no'",
        ),
        (["--setup", "absent.sql", "--junit", "absent/proof.xml"], "there is no folder absent"),
    ]:
        done = shop.run("prove", "shop:inbox", event, *arguments)
        assert (done.returncode, says in done.stderr) == (2, True), done.stderr


def test_a_database_that_is_away_is_said(shop: Cli) -> None:
    """Exit 1, with where it was looked for and why there is no connection."""
    away = ("--database", "postgresql://127.0.0.1:1/shop_test")
    done = shop.run("prove", "shop:inbox", shop.payload("evt_1"), *away)
    said = "webhook-inbox: no connection to the database shop_test at 127.0.0.1:1: nothing listens there\n"
    assert (done.returncode, done.stderr) == (1, said)
