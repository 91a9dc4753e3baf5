"""``new`` writes an app that runs and whose tests pass, and the tutorial that goes on from it is true."""

from __future__ import annotations

import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.fixtures.cli import SECONDS_MAX, Cli
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.programs import eventually
from webhook_inbox.cli.main import run
from webhook_inbox.testing.plugin import DSN_VARIABLE

TUTORIAL = (Path(__file__).parents[2] / "docs" / "tutorial" / "first-payment.md").read_text(encoding="utf-8")
#: Where the page's ``dev`` listens.
LISTENS = "http://127.0.0.1:8000"


def test_its_own_tests_pass(cli: Cli, postgres: PostgresServer) -> None:
    """As a user runs them, at once."""
    assert cli.run("new", "shop").returncode == 0
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=cli.folder / "shop",
        env={**cli.environment, DSN_VARIABLE: postgres.dsn},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_every_file_is_named_and_none_is_written_twice(cli: Cli) -> None:
    """A folder that holds anything is the user's: nothing in it is touched."""
    first = cli.run("new", "deep/shop")
    assert first.returncode == 0
    written = {str(path.relative_to(cli.folder)) for path in (cli.folder / "deep" / "shop").iterdir()}
    assert set(first.stdout.split()) == written
    (cli.folder / "deep" / "shop" / "app.py").write_text("mine")
    again = cli.run("new", "deep/shop")
    assert (again.returncode, again.stdout) == (2, "")
    assert "deep/shop is not empty" in again.stderr
    assert (cli.folder / "deep" / "shop" / "app.py").read_text() == "mine"


def test_an_empty_folder_is_taken_and_a_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also one that git or an editor has just made."""
    assert run(["new", str(tmp_path)]) == 0
    (tmp_path.parent / "a-file").write_text("")
    assert run(["new", str(tmp_path.parent / "a-file")]) == 2
    assert "is a file" in capsys.readouterr().err


class Newcomer:
    """Types what the tutorial says, into two terminals, and sees what it prints."""

    def __init__(self, cli: Cli) -> None:
        self.cli = cli
        self.meant: dict[str, str] = {}

    def block(self, number: int) -> tuple[list[str], list[str]]:
        """The commands of a block of the page, and the lines that they print, with ``...`` for what differs."""
        lines = re.findall(r"```console\n(.*?)```", TUTORIAL, flags=re.DOTALL)[number].splitlines()
        commands = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        return commands, [line for line in lines if not line.startswith("$ ")]

    def types(self, *commands: str) -> str:
        """Give what *commands* print."""
        text = " && ".join(commands)
        for said, meant in self.meant.items():
            text = text.replace(said, meant)
        done = subprocess.run(
            ["bash", "-ec", text],
            cwd=self.cli.folder,
            env=self.cli.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def starts(self, command: str) -> str:
        """Run ``dev`` in the first terminal, on any free port; give what it prints until it listens."""
        log = self.cli.folder / "dev.log"
        with log.open("w") as both:
            self.cli.start(*command.split()[1:], "--port", "0", stdout=both, stderr=both)
        eventually(lambda: "starting anew whenever" in log.read_text(), what="it listens")
        told = log.read_text()
        (export,) = re.findall(r"^export .*$", told, flags=re.MULTILINE)
        (url,) = re.findall(r"listening on (\S+) for billing", told)
        self.meant = {"export WEBHOOK_INBOX_DATABASE_URL='postgresql://...'": export, LISTENS: url}
        return told.replace(url, LISTENS)


@pytest.fixture
def newcomer(cli: Cli, open_folder: Path, postgres: PostgresServer) -> Newcomer:
    """Somebody who has installed it, in a folder that the account of an embedded server may enter."""
    cli.folder = open_folder
    cli.environment |= {
        DSN_VARIABLE: postgres.dsn,
        "PATH": f"{Path(sys.executable).parent}:{cli.environment['PATH']}",
    }
    return Newcomer(cli)


def seen(printed: str, promised: list[str]) -> bool:
    """Whether every line that the page shows was printed; ``...`` stands for anything."""
    patterns = [re.sub(r"\[", "[[]", line).replace("...", "*") for line in promised if line != "..."]
    lines = printed.splitlines()
    return all(any(fnmatch(line, pattern) for line in lines) for pattern in patterns)


def test_the_tutorial_is_true(newcomer: Newcomer) -> None:
    """Every command, in its order; every line that the page shows is printed (P-ONCE: one payment, after a failure)."""
    app, dev, second, send, status, make, look, test = map(newcomer.block, range(8))
    assert seen(newcomer.types(*app[0]), app[1])
    newcomer.cli.folder /= "shop"
    newcomer.cli.environment["STRIPE_WEBHOOK_SECRET"] = "whsec_fake_for_trying_only"
    assert seen(newcomer.starts(*dev[0]), dev[1])
    go_there, *enter = second[0]
    assert go_there == "cd shop"
    assert seen(newcomer.types(*enter, *send[0]), send[1])
    eventually(lambda: seen(newcomer.types(*enter, *status[0]), status[1]), what="the handler has failed")
    assert seen(newcomer.types(*enter, *make[0]), make[1])
    eventually(lambda: seen(newcomer.types(*enter, *look[0]), look[1]), what="the retry has booked")
    assert seen(newcomer.types(*enter, *test[0]), test[1])
