"""``doctor`` finds what makes a promise untrue, says it to people and programs, and never shows a secret."""

from __future__ import annotations

import socket

import psycopg

from tests.fixtures.cli import SECRET, SHOP, Cli
from webhook_inbox.embedded import EmbeddedPostgres
from webhook_inbox.testing.databases import apply_migrations

GOOD = SHOP.replace(SECRET, "whsec_4f9c2b7a1de8053a6c7d")
HOOK_SECRET = "whsec_ZmFrZS1zZWNyZXQtb2YtYS1kZXN0aW5hdGlvbg=="


def tells(port: int) -> str:
    """The shop, with a destination on a port of this machine."""
    return GOOD + (
        "from webhook_inbox.destinations import Http\n"
        f"inbox.destination('mail', Http('http://127.0.0.1:{port}/', secret={HOOK_SECRET!r}, allow_private=True))\n"
    )


def test_an_app_of_which_all_is_well_is_good(shop: Cli) -> None:
    """Exit 0, and not a word on stdout; as JSON an empty list."""
    shop.app(GOOD)
    with EmbeddedPostgres() as server:
        apply_migrations(server.dsn)
        shop.environment["WEBHOOK_INBOX_DATABASE_URL"] = server.dsn
        assert shop.json("doctor", "shop:inbox") == {"healthy": True, "findings": []}
        done = shop.run("doctor", "shop:inbox")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "nothing is found\n")


def test_people_read_it_in_80_columns_worst_first(shop: Cli) -> None:
    """What is wrong, then what is risky, then what is to be known; exit 1, and no secret anywhere."""
    with psycopg.connect(shop.environment["WEBHOOK_INBOX_DATABASE_URL"]) as connection:
        connection.execute("INSERT INTO webhooks.endpoints (name, paused_by) VALUES ('shop', '\x1b[2Jada')")
    done = shop.run("doctor", "shop:inbox")
    assert done.returncode == 1
    assert max(map(len, done.stdout.splitlines())) <= 80
    weights = [line.partition(":")[0] for line in done.stdout.splitlines() if line[:1].strip()]
    assert weights == sorted(weights, key=["wrong", "risky", "note"].index)
    assert "wrong: secret\n  secret-1 of endpoint shop looks like a placeholder." in done.stdout
    assert "\\x1b[2Jada" in done.stdout
    assert SECRET not in done.stdout + done.stderr


def test_programs_read_it(shop: Cli) -> None:
    """Each finding by its name, with its weight and the same sentences."""
    told = shop.json("doctor", "shop:inbox", "--processes", "1000", code=1)
    assert told["healthy"] is False
    by_name = {each["name"]: each for each in told["findings"]}
    assert set(by_name["connections"]) == {"name", "weight", "what", "why", "remedy"}
    assert by_name["connections"]["weight"] == "risky"
    assert SECRET not in str(told)


def test_destinations_are_connected_to_only_when_asked(shop: Cli) -> None:
    """One that listens is good; one that does not is wrong, and not looked at without --reach."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        shop.app(tells(listener.getsockname()[1]))
        listening = shop.json("doctor", "shop:inbox", "--reach", code=1)
    silent = shop.json("doctor", "shop:inbox", "--reach", code=1)
    unasked = shop.json("doctor", "shop:inbox", code=1)
    named = [
        [each["name"] for each in told["findings"] if each["name"] == "unreached"]
        for told in (listening, silent, unasked)
    ]
    assert named == [[], ["unreached"], []]


def test_a_destination_whose_address_is_written_wrongly_is_not_reached(shop: Cli) -> None:
    """Told like any other that nobody answers at."""
    made = "inbox.destination('billing', Kafka('127.0.0.1:1;127.0.0.1:2', topic='billing'))\n"
    shop.app(f"{GOOD}from webhook_inbox.destinations import Kafka\n{made}")
    told = shop.json("doctor", "shop:inbox", "--reach", code=1)
    (found,) = (each["what"] for each in told["findings"] if each["name"] == "unreached")
    assert "Destination billing cannot be reached from here" in found


def test_a_database_that_is_away_is_bad_and_no_app_is_a_mistake(shop: Cli) -> None:
    """Exit 1 and 2."""
    shop.environment["WEBHOOK_INBOX_CONNECTION_WAIT_SECONDS"] = "0.5"
    told = shop.json(
        "doctor", "shop:inbox", code=1, WEBHOOK_INBOX_DATABASE_URL="postgresql://127.0.0.1:1/shop"
    )
    assert told["error"]["code"] == "store_unavailable"
    assert shop.run("doctor").returncode == 2
