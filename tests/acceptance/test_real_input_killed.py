"""Deliver the real input while the installed receiver dies by SIGKILL again and again: nothing lost or doubled."""

from __future__ import annotations

import hashlib
import json
import signal
from collections import Counter
from functools import partial

import psycopg

from tests.acceptance.test_real_input import APP, effects, files_of, stored
from tests.fixtures.cli import SECRET, Cli
from tests.fixtures.programs import eventually

KILLS = 4
COPIES = 4


def recorded(database: str, enough: int) -> bool:
    """Whether so many events are in the inbox."""
    return stored(database).total() >= enough


def test_real_events_survive_a_receiver_that_is_killed_under_way(
    cli: Cli, database: str, tally: Counter[str]
) -> None:
    """``serve`` dies by SIGKILL and is started again at its port; ``send`` sends again until it is heard (P-ONCE)."""
    cli.environment["WEBHOOK_INBOX_DATABASE_URL"] = database
    cli.app(APP, module="real")
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE effects (endpoint text NOT NULL, event_id text NOT NULL)")
    files = files_of("stripe/events-assembled")
    served = cli.serve(app="real:inbox")
    port = served.port
    how = (
        "--source stripe --json --concurrent 4 --rate 25 --shuffle --retries 100 --retry-wait-seconds-max 0.2"
    )
    again = ("--duplicate", str(COPIES), "--secret", SECRET)
    sender = cli.start("send", f"{served.url}/stripe-0", *files, *how.split(), *again)
    for kill in range(1, KILLS + 1):
        enough = partial(recorded, database, kill * len(files) // (KILLS + 1))
        eventually(enough, what="the next events are recorded")
        assert sender.poll() is None, "the sender is under way"
        assert served.stop(signal.SIGKILL) == -signal.SIGKILL
        served = cli.serve("--port", str(port), app="real:inbox")
    told, _ = sender.communicate(timeout=60)
    assert sender.returncode == 0, told
    assert served.stop() == 0
    attempts = [delivery["attempts"] for file in json.loads(told)["files"] for delivery in file["deliveries"]]
    assert len(attempts) == COPIES * len(files)
    assert sum(attempts) > len(attempts), "some deliveries had to be sent again"
    digests = Counter(digest for _, digest, _ in stored(database))
    assert digests == Counter(hashlib.sha256(file.read_bytes()).digest() for file in files)
    applied, outbox = effects(database)
    assert set(applied.values()) == {1}
    assert len(applied) == outbox == sum(state == "processed" for *_, state in stored(database))
    tally["kills of serve amid real events"] += KILLS
