"""Tell the whole story on a PostgreSQL of its own, and leave nothing behind."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from webhook_inbox.demo.chapters import AFTER_THE_ANSWER, STORY, Chapter
from webhook_inbox.demo.database import StoryDatabase
from webhook_inbox.demo.errors import StoryError
from webhook_inbox.demo.receivers import (
    OURS_APP,
    Receiver,
    four_receivers,
    queued_receiver,
)
from webhook_inbox.demo.report import Narrator, answers_in_words
from webhook_inbox.demo.result import ChapterResult, Line, Row, StoryResult
from webhook_inbox.demo.sender import Sender
from webhook_inbox.demo.servers import ReceiverServer, ReceiverWorker, outer_environment
from webhook_inbox.demo.stage import Stage
from webhook_inbox.embedded import EmbeddedPostgres

SECRET = "whsec_fake_demo"  # noqa: S105 - it guards receivers on loopback that live a minute
MIGRATE_SECONDS_MAX = 60.0


def main(
    *, check: bool = False, stay: bool | None = None, as_json: bool = False, ours: str = OURS_APP
) -> int:
    """
    Tell the story and print it.

    Args:
        check: Never stay.
        stay: Keep everything running afterwards until Ctrl-C; None: where stdout is a terminal.
        as_json: Print the result as JSON on stdout, and nothing else; never stay.
        ours: Another application in our place; see ``four_receivers``.

    Returns:
        0 where ours lost and doubled nothing and the others failed as they do, else 1.

    Raises:
        InboxError: It could not be told: PostgreSQL or a receiver did not start.
    """
    staying = (sys.stdout.isatty() if stay is None else stay) and not check and not as_json
    narrator = Narrator(quiet=as_json)
    narrator.say("Starting a PostgreSQL and four receivers ...", "dim")
    with set_stage(four_receivers(ours), queued=queued_receiver()) as stage:
        result = run_story(stage, narrator)
        if as_json:
            print(json.dumps(result.as_json()))
        if staying:
            _stay(stage, narrator)
    return 0 if result.ok else 1


def run_story(stage: Stage, narrator: Narrator, *, chapters: Sequence[Chapter] = STORY) -> StoryResult:
    """
    Tell *chapters* to the receivers on *stage*, then what comes later to ours alone, and count.

    Raises:
        StoryError: Something never stood where it should be struck.
    """
    narrator.open(stage.receivers, stage.database.version)
    told = [_tell(number, chapter, stage, narrator) for number, chapter in enumerate(chapters, 1)]
    rows = _rows(stage)
    if stage.later is not None:
        narrator.open_later(stage.later.receivers[0])
        later = enumerate(AFTER_THE_ANSWER, len(told) + 1)
        told += [_tell(number, chapter, stage.later, narrator) for number, chapter in later]
        rows += _rows(stage.later)
    result = StoryResult(
        postgres=stage.database.version,
        chapters=tuple(told),
        rows=tuple(rows),
        seconds=time.monotonic() - stage.began,
    )
    narrator.show(result)
    return result


@contextmanager
def set_stage(receivers: Sequence[Receiver], *, queued: Receiver | None = None) -> Iterator[Stage]:
    """
    Run PostgreSQL and *receivers*; when the block ends, however it ends, nothing of them is left.

    Args:
        queued: Whom the second part of the story is told to; None: nobody.

    Raises:
        InboxError: Something did not start.
    """
    began = time.monotonic()
    with _without_foreign_settings(), EmbeddedPostgres() as server:
        database = StoryDatabase(server)
        everyone = [*receivers, *([queued] if queued else [])]
        database.make(everyone)
        servers = [ReceiverServer(each, database=database.dsn, secret=SECRET) for each in everyone]
        workers = [
            ReceiverWorker(each, database=database.dsn, secret=SECRET) for each in everyone if each.worker
        ]
        senders = [Sender(SECRET), Sender(SECRET)]
        try:
            for each in servers:
                each.launch()
            for schema in {each.inbox_schema for each in everyone}:
                _migrate(database.dsn, schema)
            for each in servers:
                each.await_ready()
            first, second = servers[: len(receivers)], servers[len(receivers) :]
            later = None
            if second:
                later = Stage(second, database, senders[1], began=began, worker=workers[0])
            yield Stage(first, database, senders[0], began=began, later=later)
        finally:
            for process in (*servers, *workers):
                process.kill()
            for sender in senders:
                sender.close()


def _rows(stage: Stage) -> list[Row]:
    due = stage.sender.bookings_due()
    return [
        Row(
            receiver=receiver.name,
            ours=receiver.ours,
            events_sent=len(stage.sender.events),
            tally=stage.database.tally(receiver, due),
        )
        for receiver in stage.receivers
    ]


def _tell(number: int, chapter: Chapter, stage: Stage, narrator: Narrator) -> ChapterResult:
    narrator.begin(number, chapter)
    stage.turn_page()
    chapter.play(stage)
    due = stage.sender.bookings_due()
    lines = []
    for receiver in stage.receivers:
        line = Line(
            receiver=receiver.name,
            answers=answers_in_words(stage.answers[receiver.name]),
            tally=stage.database.tally(receiver, due, only=stage.invoices),
            expected=chapter.fate(receiver.name),
        )
        narrator.tell(line)
        lines.append(line)
    return ChapterResult(title=chapter.title, lines=tuple(lines))


def _migrate(database: str, schema: str) -> None:
    """Make the inbox's tables as every user does: ``webhook-inbox migrate``."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "webhook_inbox", "migrate", "--schema", schema],
        env={**outer_environment(os.environ), "DATABASE_URL": database},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=MIGRATE_SECONDS_MAX,
        check=False,
    )
    if done.returncode != 0:
        raise StoryError(f"webhook-inbox migrate failed:\n{done.stdout.decode(errors='replace')}")


def _stay(stage: Stage, narrator: Narrator) -> None:
    """Say how to look and to send, and wait for Ctrl-C."""
    psql = shutil.which("psql")
    python = shlex.quote(_shorter(sys.executable))
    ours = stage.servers[0]
    narrator.say()
    narrator.say("All of it still runs. Look around from another terminal:", "bold")
    narrator.say()
    narrator.say(f"{'psql' if psql else 'DSN:'} {shlex.quote(stage.database.dsn)}")
    narrator.say("  SELECT event_type, state, processed_at FROM webhooks.events;", "dim")
    narrator.say("  SELECT * FROM mark_first.ledger_entries;", "dim")
    narrator.say()
    narrator.say("Send another payment:", "bold")
    narrator.say()
    narrator.say(f"{python} -m webhook_inbox.demo.events |")
    narrator.say(f"  {python} -m webhook_inbox send {ours.url} \\")
    narrator.say(f"  --source stripe --secret {SECRET} /dev/stdin")
    narrator.say()
    narrator.say("Ctrl-C ends it and removes everything.", "bold")
    try:
        signal.pause()
    except KeyboardInterrupt:
        narrator.say()


def _shorter(path: str) -> str:
    """Give *path* from the current folder where that is shorter to type."""
    return min(path, os.path.relpath(path), key=len)


@contextmanager
def _without_foreign_settings() -> Iterator[None]:
    """Hide PG* from libpq in this process: those variables are for the user's own servers."""
    hidden = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("PG")}
    try:
        yield
    finally:
        os.environ.update(hidden)
