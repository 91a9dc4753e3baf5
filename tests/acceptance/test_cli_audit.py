"""``audit`` examines a receiver from the command line, and its exit code is the answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import psycopg
import pytest

from tests.fixtures.cli import SECRET, Cli
from tests.fixtures.small_receivers import genuine, serving, settings
from tests.fixtures.sql_command import sql_command
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.testing.audit import audit

EFFECTS = "SELECT count(*) FROM effects WHERE event_id = %(event_id)s"
OPTIONS = ("--source", "stripe", "--secret", SECRET)


@pytest.fixture
def receiver(request: pytest.FixtureRequest) -> Iterator[str]:
    """The one that the parameter names."""
    with serving(request.param) as url:
        yield url


def writes_anew(handler: BaseHTTPRequestHandler, body: bytes) -> int:
    """Verify what a parser has understood."""
    try:
        again = json.dumps(json.loads(body)).encode()
    except (ValueError, RecursionError):
        return 400
    return 200 if genuine(again, handler) else 400


def parses_first(handler: BaseHTTPRequestHandler, body: bytes) -> int:
    """Verify, but only what a parser has survived."""
    json.loads(body)
    return 200 if genuine(body, handler) else 400


def takes_all(handler: BaseHTTPRequestHandler, body: bytes) -> int:
    """Look at nothing."""
    return 200


def sends_elsewhere(handler: BaseHTTPRequestHandler, body: bytes) -> int:
    """Look at nothing, and take it at another address only."""
    return 200 if handler.path == "/elsewhere" else 307


def never_answers(handler: BaseHTTPRequestHandler, body: bytes) -> int:
    """Keep the sender waiting until it hangs up."""
    handler.connection.recv(1)
    return 0


def checked(facts: Any, state: str) -> set[str]:
    """The checks that ended so."""
    return {each["check"] for each in facts["checks"] if each["state"] == state}


@pytest.mark.parametrize("receiver", [writes_anew], indirect=True)
def test_a_receiver_that_verifies_what_it_has_written_anew_is_found(receiver: str, cli: Cli) -> None:
    """It refuses what is genuine wherever its own JSON is another one, and has no clock; the rest is in order."""
    payload = cli.payload("evt_1")
    facts = cli.json("audit", receiver, payload, *OPTIONS, "--only", ",".join(QUICK), code=1)
    assert facts["grade"] == "F"
    assert checked(facts, "failed") == {
        "raw-spacing",
        "raw-unicode",
        "raw-escapes",
        "raw-numbers",
        "raw-repeated-keys",
        "large-genuine",
        "timestamp-stale",
        "timestamp-early",
    }


QUICK = (
    *("raw-spacing", "raw-unicode", "raw-escapes", "raw-numbers", "raw-repeated-keys", "large-genuine"),
    *("signature-missing", "signature-altered", "timestamp-stale", "timestamp-early", "stranger-unreadable"),
    *("calm", "redirect", "content-type", "still-serving", "duplicate-at-once"),
)


@pytest.mark.parametrize("receiver", [takes_all], indirect=True)
def test_a_receiver_that_takes_all_is_found(receiver: str, cli: Cli) -> None:
    """Each forgery is acknowledged; without --effects-sql nobody can say what became of the copies."""
    facts = cli.json("audit", receiver, cli.payload("evt_1"), *OPTIONS, "--only", ",".join(QUICK), code=1)
    assert facts["grade"] == "F"
    assert {"signature-missing", "signature-altered", "stranger-unreadable"} <= checked(facts, "failed")
    assert "duplicate-at-once" in checked(facts, "untried")
    assert not {"raw-spacing", "calm", "redirect", "still-serving"} & checked(facts, "failed")


@pytest.mark.parametrize("receiver", [parses_first], indirect=True)
def test_a_receiver_that_parses_before_it_verifies_is_found(
    receiver: str, cli: Cli, capfd: pytest.CaptureFixture[str]
) -> None:
    """A stranger's bytes end its thread: no answer comes, and that is a failure of its own."""
    only = "stranger-unreadable,calm,still-serving"
    done = cli.run("audit", receiver, cli.payload("evt_1"), *OPTIONS, "--only", only)
    assert "connection closed" in done.stdout
    assert (done.returncode, "FAIL calm" in done.stdout) == (1, True), done.stdout


@pytest.mark.parametrize("receiver", [sends_elsewhere], indirect=True)
def test_no_redirect_is_followed(receiver: str, cli: Cli) -> None:
    """Though it would have been taken there."""
    done = cli.run("audit", receiver, cli.payload("evt_1"), *OPTIONS)
    assert (done.returncode, "FAIL genuine: answered 3 x 307" in done.stdout) == (1, True), done.stdout


@pytest.mark.parametrize("receiver", [never_answers], indirect=True)
def test_a_receiver_that_hangs_holds_the_audit_no_longer_than_it_is_told(receiver: str, cli: Cli) -> None:
    """Nothing else is tried; grade F."""
    facts = cli.json("audit", receiver, cli.payload("evt_1"), *OPTIONS, "--answer-seconds", "0.2", code=1)
    assert (facts["grade"], checked(facts, "failed"), facts["seconds"] < 10) == ("F", {"genuine"}, True)
    assert facts["checks"][0]["saw"] == "answered 3 x no answer in time"


def test_ours_is_examined_and_found_good(shop: Cli, database: str) -> None:
    """Exit 0; every request is ended, JUnit is written where it is asked for, and what was broken is mended."""
    shop.environment["WEBHOOK_INBOX_BODY_SECONDS_MAX"] = "1"
    served = shop.serve()
    facts = shop.json(
        *("audit", f"{served.url}/shop", shop.payload("evt_1"), *OPTIONS, "--seed", "7", "--junit", "a.xml"),
        *("--database", database, "--effects-sql", EFFECTS),
        *("--break", sql_command(database, "ALTER TABLE effects RENAME TO gone")),
        *("--mend", sql_command(database, "ALTER TABLE gone RENAME TO effects")),
    )
    assert (facts["grade"], facts["seed"], facts["mistakes"]) == ("A", 7, [])
    assert SECRET not in json.dumps(facts)
    assert checked(facts, "untried") == {"order"}
    assert ET.fromstring((shop.folder / "a.xml").read_text()).get("failures") == "0"  # noqa: S314 - our own
    again = shop.run(
        "audit", f"{served.url}/shop", shop.payload("evt_1"), *OPTIONS, "--seed", "7",
        "--database", database, "--effects-sql", EFFECTS,
    )  # fmt: skip
    assert (again.returncode, "choose another --seed" in again.stderr) == (2, True)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"effects_sql": "SELECT 1"}, "--effects-sql and --database go together"),
        ({"breaking": "true"}, "--break and --mend go together"),
        ({"only": frozenset({"genuine", "absent"})}, "there is no check absent"),
        ({"fresh": ["data.id"]}, "no member 'data.id'"),
        ({"database": "nonsense", "effects_sql": "SELECT 1"}, "--database is no DSN"),
    ],
)
@pytest.mark.parametrize("receiver", [takes_all], indirect=True)
def test_what_does_not_fit_together_is_said(receiver: str, given: dict[str, Any], says: str) -> None:
    """By the option that is to be changed."""
    with pytest.raises(ConfigurationError, match=says):
        audit(settings(receiver, **given))


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELECT count(*) FROM absent", "does not exist"),
        ("SELECT 'one'", "no whole number"),
        (
            "SELECT count(*) FROM effects WHERE event_id = %(order)s",
            re.escape("there are %(id)s, %(event_id)s"),
        ),
        ("DELETE FROM effects RETURNING 0", "read-only transaction"),
    ],
)
@pytest.mark.parametrize("receiver", [takes_all], indirect=True)
def test_a_query_that_cannot_count_is_said(receiver: str, database: str, query: str, says: str) -> None:
    """With the server's own sentence; the database is only read."""
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE effects (event_id text NOT NULL)")
    with pytest.raises(ConfigurationError, match=says):
        audit(settings(receiver, database=database, effects_sql=query))


def test_what_is_doubled_later_is_found_in_the_end(database: str) -> None:
    """A receiver that books at once, and again when the next event comes: a check sees one effect, the end two."""
    before: list[str] = []
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE effects (event_id text NOT NULL)")

        def books_again(handler: BaseHTTPRequestHandler, body: bytes) -> int:
            if not genuine(body, handler):
                return 400
            before.append(json.loads(body)["id"])
            for event_id in before[-2:]:
                connection.execute("INSERT INTO effects VALUES (%s)", [event_id])
            return 200

        with serving(books_again) as url:
            only = frozenset({"raw-spacing", "raw-unicode"})
            report = audit(settings(url, database=database, effects_sql=EFFECTS, only=only))
    assert report.failed() == ["genuine", "raw-spacing"]
    saw = {check.id: verdict.saw for check, verdict in report.verdicts.items()}
    assert saw["raw-spacing"] == "answered 200; one effect; 2 effects in the end"


@pytest.mark.parametrize("receiver", [never_answers], indirect=True)
def test_a_receiver_that_has_not_answered_once_is_not_saved_by_the_end_of_time(receiver: str) -> None:
    """A failed first delivery counts, though the audit's whole time went by over it."""
    report = audit(settings(receiver, seconds_max=0.3, answer_seconds=10))
    assert (report.grade, report.failed(), report.seconds < 5) == ("F", ["genuine"], True)


@pytest.mark.parametrize("receiver", [takes_all], indirect=True)
def test_when_its_time_is_over_nothing_is_tried_and_nothing_held_against_the_receiver(receiver: str) -> None:
    """What was not tried is told, and is no A."""
    report = audit(settings(receiver, seconds_max=0.0))
    assert (report.grade, report.requests) == ("B", 1)
    assert {verdict.saw for verdict in report.verdicts.values()} == {"no time was left"}


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://192.0.2.1:9/x", "--i-own-this-receiver"),
        ("http://127.0.0.1:9/x", "nobody listens at URL"),
    ],
)
def test_nothing_that_is_not_loopback_is_connected_to(cli: Cli, url: str, says: str) -> None:
    """Exit 2, with the option that lets it."""
    done = cli.run("audit", url, cli.payload("evt_1"), *OPTIONS)
    assert (done.returncode, says in done.stderr, SECRET in done.stderr) == (2, True, False), done.stderr


@pytest.mark.parametrize(
    ("place", "says"), [("absent/a.xml", "there is no folder absent"), (".", "it is a folder")]
)
def test_a_report_that_could_not_be_written_is_refused_before_anything_is_sent(
    cli: Cli, place: str, says: str
) -> None:
    """Exit 2, though nobody listens either: that would be looked at next."""
    done = cli.run("audit", "http://127.0.0.1:9/x", cli.payload("evt_1"), *OPTIONS, "--junit", place)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"cannot write {place}: {says}" in done.stderr


@pytest.mark.parametrize("receiver", [takes_all], indirect=True)
def test_what_was_broken_is_mended_whatever_happens(receiver: str, cli: Cli, tmp_path: Path) -> None:
    """A --break that fails half-way is no reason to leave it so."""
    done = cli.run(
        *("audit", receiver, cli.payload("evt_1"), *OPTIONS, "--only", "failure-answer"),
        *("--break", "false", "--mend", f"touch {tmp_path / 'mended'}"),
    )
    assert (done.returncode, "--break ended with code 1" in done.stderr) == (2, True), done.stderr
    assert (tmp_path / "mended").exists()
