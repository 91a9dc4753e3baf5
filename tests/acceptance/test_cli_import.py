"""``import``: what an older receiver has processed is a duplicate from then on; what it reads, tells and refuses."""

from __future__ import annotations

import subprocess

import pytest

from tests.fixtures.cli import PROGRAM, SECONDS_MAX, Cli
from tests.fixtures.recorded import Recorded

TEST = ("--environment", "test")
GITHUB = """
from webhook_inbox import Inbox
from webhook_inbox.sources import GitHub, Hmac, Slack

inbox = Inbox()
hub = inbox.endpoint("hub", GitHub(secrets="fake"))
chat = inbox.endpoint("chat", Slack(secrets="0" * 32))
own = inbox.endpoint("own", Hmac("own", secrets="fake", header="x-own", account="$.tenant"))
"""
CSV = "id,type,received_at,environment\nevt_1,invoice.paid,2026-01-31T12:00:00Z,\nevt_2,,1769860800,live\n"
JSON_LINES = """
{"id": "evt_1", "type": "invoice.paid", "received_at": "2026-01-31 12:00:00+00:00"}
{"id": "evt_2", "environment": "live", "received_at": 1769860800, "more": [1]}
"""


@pytest.fixture
def recorded(shop: Cli) -> Recorded:
    """The database of the shop."""
    return Recorded(shop.environment["WEBHOOK_INBOX_DATABASE_URL"])


def written(shop: Cli, text: str, name: str = "ids.txt") -> str:
    """A file of this name that holds *text*."""
    (shop.folder / name).write_text(text)
    return name


def test_a_redelivery_of_an_imported_id_is_a_duplicate_that_is_processed(
    shop: Cli, recorded: Recorded
) -> None:
    """Through HTTP, without an effect; the same id in the other mode is another event (P-DUP, P-STATE)."""
    file = written(shop, "evt_old\nevt_older\n")
    done = shop.run("import", "shop:inbox", "shop", file, *TEST, "--reason", "moved")
    assert (done.returncode, done.stdout, done.stderr) == (0, "imported: 2 new, 0 known, 0 invalid\n", "")
    served = shop.serve()
    told = shop.send(served, shop.payload("evt_old", livemode=False))
    (delivery,) = told["files"][0]["deliveries"]
    assert (delivery["outcome"], delivery["state"]) == ("duplicate", "processed")
    assert recorded.rows("SELECT * FROM effects") == []
    shop.send(served, shop.payload("evt_old", livemode=True))
    assert len(recorded.rows("SELECT * FROM effects")) == 1
    (row,) = recorded.rows("SELECT * FROM webhooks.inbox WHERE event_id = 'evt_old' AND environment = 'test'")
    assert (row["origin"], row["state"], row["body_bytes"]) == ("import", "processed", 0)
    (audit,) = recorded.rows("SELECT action, reason, after FROM webhooks.audit")
    assert audit == {"action": "import", "reason": "moved", "after": {"events": 2}}
    assert shop.json("events", "show", str(row["id"]))["origin"] == "import"


def test_importing_again_changes_nothing(shop: Cli, recorded: Recorded) -> None:
    """What is here already stays, whatever it came to; what waits for its effect is told; a dry run counts."""
    recorded.add("evt_dead", "dead", environment="test")
    file = written(shop, "evt_1\n\nevt_2\r\nevt_dead\nevt_1\n")
    dry = shop.json("import", "shop:inbox", "shop", file, *TEST, "--dry-run")
    assert dry == {
        "dry_run": True,
        "new": 2,
        "known": 1,
        "known_states": {"dead": 1},
        "repeated": 1,
        "invalid": 0,
        "invalid_lines": [],
    }
    assert list(recorded.states()) == ["evt_dead"]
    done = shop.run("import", "shop:inbox", "shop", file, *TEST)
    assert done.stdout == "imported: 2 new, 1 known, 1 repeated, 0 invalid\n"
    assert "1 event known and dead" in done.stderr
    before = recorded.rows("SELECT * FROM webhooks.inbox ORDER BY id")
    again = shop.json("import", "shop:inbox", "shop", file, *TEST)
    assert (again["new"], again["known"], again["known_states"]) == (0, 3, {"processed": 2, "dead": 1})
    assert recorded.rows("SELECT * FROM webhooks.inbox ORDER BY id") == before
    assert len(recorded.rows("SELECT * FROM webhooks.audit")) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("old.csv", CSV),
        ("old.jsonl", JSON_LINES),
    ],
)
def test_a_line_may_say_more_than_the_id(shop: Cli, recorded: Recorded, name: str, text: str) -> None:
    """Type, time and parts of the key; an option stands in for a part that a line does not say."""
    assert shop.json("import", "shop:inbox", "shop", written(shop, text, name), *TEST)["new"] == 2
    first, second = recorded.rows("SELECT * FROM webhooks.inbox ORDER BY id DESC")
    assert {(row["event_id"], row["environment"], row["event_type"]) for row in (first, second)} == {
        ("evt_1", "test", "invoice.paid"),
        ("evt_2", "live", ""),
    }
    assert {row["processed_at"].isoformat()[:16] for row in (first, second)} == {"2026-01-31T12:00"}


def test_a_line_that_names_no_event_is_told_by_its_number(shop: Cli, recorded: Recorded) -> None:
    """Exit 1, the others are imported; nothing of the line is shown, which may hold anything (P-QUIET)."""
    lines = ["evt_1", "sk_live_canary", "evt_" + "x" * 300, "evt_2\x00canary", "evt_3 canary", "evt_4"]
    file = written(shop, "\n".join(lines))
    done = shop.run("import", "shop:inbox", "shop", file, *TEST)
    assert (done.returncode, done.stdout) == (1, "imported: 2 new, 0 known, 4 invalid\n")
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == [
        "line 2",
        "line 3",
        "line 4",
        "line 5",
    ]
    assert "canary" not in done.stderr
    assert sorted(recorded.states()) == ["evt_1", "evt_4"]
    bad = (
        '[]\n{"id": true}\n{"id": "evt_5", "received_at": "soon"}\n{"id": "evt_6", "environment": "prod"}\nno'
    )
    told = shop.json("import", "shop:inbox", "shop", written(shop, bad, "x.jsonl"), *TEST, code=1)
    assert [each["line"] for each in told["invalid_lines"]] == [1, 2, 3, 4, 5]
    wide = shop.json(
        "import", "shop:inbox", "shop", written(shop, "id,type\nevt_7\n", "x.csv"), *TEST, code=1
    )
    assert wide["invalid_lines"] == [{"line": 2, "reason": "1 columns below a heading of 2"}]


def test_an_id_that_its_source_could_never_give_is_refused(shop: Cli, recorded: Recorded) -> None:
    """Nothing would ever be a duplicate of it: another form, or a part of the key that is missing, or that none has."""
    shop.app(GITHUB, module="git")
    guid = written(shop, "72d3162e-cc78-11e3-81ab-4c9367dc0958\n12345\n")
    assert shop.json("import", "git:inbox", "hub", guid, code=1)["new"] == 1
    ids = written(shop, "Ev1\n")
    for endpoint in ("chat", "own"):
        (line,) = shop.json("import", "git:inbox", endpoint, ids, code=1)["invalid_lines"]
        assert line["reason"].startswith("no account, which is a part of each event's key")
        assert shop.json("import", "git:inbox", endpoint, ids, "--account", "T1")["new"] == 1
    (line,) = shop.json(
        "import",
        "git:inbox",
        "hub",
        written(shop, "72d3162e-cc78-11e3-81ab-4c9367dc0958"),
        "--account",
        "T1",
        code=1,
    )["invalid_lines"]
    assert line["reason"] == "an account, which no event's key at github has"
    missing = shop.json("import", "shop:inbox", "shop", written(shop, "evt_1"), code=1)
    assert missing["invalid_lines"][0]["reason"].startswith("no environment")


def test_a_million_lines_need_not_be_a_file(shop: Cli, recorded: Recorded) -> None:
    """They come through a pipe, a transaction a thousand, in whatever order."""
    done = subprocess.run(
        [PROGRAM, "import", "shop:inbox", "shop", "-", *TEST],
        cwd=shop.folder,
        env=shop.environment,
        input="".join(f"evt_{number}\n" for number in range(2_500, 0, -1)),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.stdout == "imported: 2500 new, 0 known, 0 invalid\n"
    audits = recorded.rows("SELECT after -> 'events' AS events FROM webhooks.audit ORDER BY id")
    assert [row["events"] for row in audits] == [1000, 1000, 500]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("shop", "nowhere.txt"), "nowhere.txt cannot be read"),
        (("stop", "ids.txt"), "has no endpoint 'stop'"),
        (("shop", "ids.txt", "--format", "xml"), "none of ids, csv, jsonl"),
        (("shop", "ids.txt", "--format", "csv"), "names its columns"),
    ],
)
def test_a_mistake_is_said_before_anything_is_recorded(
    shop: Cli, recorded: Recorded, arguments: tuple[str, ...], words: str
) -> None:
    """Exit 2."""
    written(shop, "evt_1\nevt_2\n")
    done = shop.run("import", "shop:inbox", *arguments)
    assert (done.returncode, recorded.states()) == (2, {})
    assert words in done.stderr
