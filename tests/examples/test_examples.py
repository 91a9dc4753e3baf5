"""Every example keeps the promise in processes of its own, whatever its framework and driver, inline and queued."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.examples.apps import APPS, EXAMPLES, Example
from tests.examples.stage import FAIL_ONCE, Stage
from tests.fixtures.cli import SECONDS_MAX, Cli
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.programs import eventually
from webhook_inbox.testing.plugin import DSN_VARIABLE

ONCE = (1, 1)
ALL = [pytest.param(example, id=example.folder) for example in APPS]


@pytest.fixture
def stage(request: pytest.FixtureRequest, cli: Cli, empty_database: str, tmp_path: Path) -> Iterator[Stage]:
    """The example and mode of the test, migrated and running."""
    example, mode = request.param
    stage = Stage(
        example, empty_database, inline=mode == "inline", environment=cli.environment, logs=tmp_path
    )
    try:
        stage.migrate()
        stage.start()
        yield stage
    finally:
        stage.close()


def eight_at_once(stage: Stage) -> None:
    """Deliver one event eight times at the same time."""
    sent = [stage.send("evt_eight") for _ in range(8)]
    answers = [each.result(SECONDS_MAX) for each in sent]
    assert {answer.status_code for answer in answers} == {200}, stage.said()
    outcomes = Counter(answer.json()["outcome"] for answer in answers)
    assert outcomes == {"processed" if stage.inline else "queued": 1, "duplicate": 7}
    eventually(lambda: stage.effects("evt_eight") == ONCE, what="the event is processed")


def killed_before_the_commit(stage: Stage) -> None:
    """Kill everything while a handler has written and not committed; then let the provider send again."""
    with stage.gate():
        sent = stage.send("evt_killed")
        eventually(stage.held, what=f"the handler has written; {stage.said()}")
        stage.kill()
    if stage.inline:
        with pytest.raises(httpx.TransportError):
            sent.result(SECONDS_MAX)
    else:
        assert sent.result(SECONDS_MAX).json()["outcome"] == "queued"
    eventually(stage.alone, what="what was under way is rolled back")
    assert stage.effects("evt_killed") == (0, 0)
    stage.start()
    assert stage.deliver("evt_killed").status_code == 200
    eventually(lambda: stage.effects("evt_killed") == ONCE, what=f"somebody takes over; {stage.said()}")


def fails_once(stage: Stage) -> None:
    """Have the handler's first run fail."""
    stage.witness.execute(FAIL_ONCE.format(table=stage.example.table).encode())
    first = stage.deliver("evt_fails")
    assert first.status_code == (500 if stage.inline else 200), stage.said()
    if stage.inline:
        assert stage.effects("evt_fails") == (0, 0)
        assert stage.deliver("evt_fails").json()["outcome"] == "processed"
    eventually(lambda: stage.effects("evt_fails") == ONCE, what="the retry")
    assert stage.witness.execute("SELECT last_value FROM runs").fetchone() == (2,)


@pytest.mark.parametrize(
    "stage",
    [
        pytest.param((example, mode), id=f"{example.folder}-{mode}")
        for example in APPS
        for mode in ("inline", "queued")
    ],
    indirect=True,
)
def test_one_effect_each(stage: Stage) -> None:
    """P-ONCE: eight copies at once, a kill between write and commit, a handler that fails: one effect, one message."""
    eight_at_once(stage)
    killed_before_the_commit(stage)
    fails_once(stage)
    for event_id in ("evt_eight", "evt_killed", "evt_fails"):
        again = stage.deliver(event_id)
        assert (again.status_code, again.json()["outcome"]) == (200, "duplicate")
        assert again.json()["state"] == "processed"
        assert stage.effects(event_id) == ONCE


@pytest.mark.parametrize("example", ALL)
def test_its_own_tests_pass(example: Example, cli: Cli, postgres: PostgresServer) -> None:
    """As a reader runs them."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=example.home,
        env={**cli.environment, DSN_VARIABLE: postgres.dsn, "DATABASE_URL": postgres.dsn},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("example", ALL)
def test_its_readme_says_how_it_is_run(example: Example) -> None:
    """Every command that these tests run, and every variable that they set; its event by ``send``."""
    readme = (example.home / "README.md").read_text(encoding="utf-8")
    serve, _, _ = example.serve.partition(" --")
    commands = [*example.migrate, serve, example.worker, example.tables]
    assert [command for command in commands if command not in readme] == []
    assert [name for name in (*example.settings, example.inline, "DATABASE_URL") if name not in readme] == []
    assert re.search(rf"webhook-inbox send http://\S+{example.path} .*events/{example.event}", readme)


@pytest.mark.parametrize("example", ALL)
def test_its_readme_can_be_followed(example: Example) -> None:
    """What ``send`` needs is installed, and what does not come back is the last line of its block."""
    readme = (example.home / "README.md").read_text(encoding="utf-8")
    assert re.search(r"pip install 'webhook-inbox\[[a-z,]*\bserver\b[^]]*\]'", readme)
    serve, _, _ = example.serve.partition(" --")
    for command in filter(None, (serve, example.worker)):
        assert re.search(rf"^    {re.escape(command)}\n\n", readme, re.MULTILINE), command


def test_every_folder_is_tested() -> None:
    """None lies there that nobody runs."""
    assert {path.name for path in EXAMPLES.iterdir() if path.is_dir()} == {each.folder for each in APPS}
