"""The program behaves as a program should: help, exit codes, pipes, signals, colours, completion."""

from __future__ import annotations

import os
import pty
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
import typer.main

from tests.fixtures.cli import PROGRAM, SECONDS_MAX, Cli
from webhook_inbox import __version__
from webhook_inbox.cli.main import make_app

VERBS = list(typer.main.get_command(make_app()).commands)  # type: ignore[attr-defined]  # a group has them
UNSETTLED = """INSERT INTO webhooks.inbox (provider, endpoint, event_id, event_type, state, body_sha256, body_bytes)
               VALUES ('stripe', 'shop', 'evt_1', 'invoice.paid', 'dead', '\\x00', 0)"""
#: What help and completion can do without.
HEAVY = {
    "asyncio",
    "cryptography",
    "httpx",
    "prometheus_client",
    "psycopg",
    "pydantic",
    "rich",
    "uvicorn",
    "webhook_inbox.inbox",
}


def test_help_lists_every_verb_and_fits_80_columns(cli: Cli) -> None:
    """On stdout, exit 0."""
    done = cli.run("--help")
    assert done.returncode == 0
    assert re.findall(r"^  (\w+)  ", done.stdout.partition("Commands:")[2], re.MULTILINE) == VERBS
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_that_fits_80_columns(cli: Cli, verb: str) -> None:
    """Also by ``-h``, and without a database, an application or an extra."""
    done = cli.run(verb, "-h")
    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: webhook-inbox {verb} ")
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_nothing_heavy_is_loaded_for_help(cli: Cli) -> None:
    """So it answers at once; see HEAVY."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "webhook_inbox", "--help"],
        cwd=cli.folder,
        env=cli.environment,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "webhook_inbox.cli.main" in loaded
    assert loaded & HEAVY == set()


def test_without_a_verb_it_says_how_and_exits_2(cli: Cli) -> None:
    """Nothing was asked, so stdout stays empty."""
    done = cli.run()
    assert (done.returncode, done.stdout) == (2, "")
    assert "Commands:" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["--nonsense"],
        ["migrate", "--nonsense"],
        ["migrate", "extra"],
        ["migrate", "--check", "--sql"],
        ["migrate", "--lock-wait-seconds", "soon"],
        ["send"],
        ["send", "http://127.0.0.1:1/x"],
        ["serve", "app:inbox", "--port", "99999"],
        ["status", "--max-dead", "-1"],
    ],
    ids=" ".join,
)
def test_a_mistake_in_usage_exits_2_with_one_sentence(cli: Cli, arguments: list[str]) -> None:
    """On stderr, with the way to help; never a traceback."""
    done = cli.run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("webhook-inbox")
    assert len(done.stderr.splitlines()) <= 2
    assert "Traceback" not in done.stderr


def test_the_version_is_told(cli: Cli) -> None:
    """By the script and by the module."""
    assert cli.run("--version").stdout == f"webhook-inbox {__version__}\n"
    command = [sys.executable, "-m", "webhook_inbox", "--version"]
    assert (
        subprocess.run(command, env=cli.environment, capture_output=True, text=True, check=True).stdout
        == f"webhook-inbox {__version__}\n"
    )


def test_somebody_elses_variables_are_no_options_of_the_program(cli: Cli) -> None:
    """``WEBHOOK_INBOX_VERSION`` is a likely name in a deployment."""
    assert cli.run("migrate", "--sql", WEBHOOK_INBOX_VERSION="1").stdout.startswith("-- webhook-inbox")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("webhook-inbox s", {"serve", "status", "send"}),
        ("webhook-inbox migrate --ch", {"--check"}),
        ("webhook-inbox send --source s", {"standard-webhooks", "stripe", "svix"}),
    ],
)
def test_a_shell_can_complete(cli: Cli, words: str, offered: set[str]) -> None:
    """Verbs, options and sources."""
    done = cli.run(
        _WEBHOOK_INBOX_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(words.count(" "))
    )
    assert done.returncode == 0
    assert offered <= set(done.stdout.split())


def test_a_reader_that_has_gone_is_no_error_to_talk_about(cli: Cli) -> None:
    """As after ``| head``: silence, and the code of SIGPIPE."""
    process = cli.start("migrate", "--sql")
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(SECONDS_MAX) == 128 + signal.SIGPIPE
    assert process.stderr is not None
    assert process.stderr.read() == ""


def test_output_that_cannot_be_written_is_told(cli: Cli) -> None:
    """A full disk: one sentence and exit 1."""
    with Path("/dev/full").open("w") as full:
        process = cli.start("migrate", "--sql", stdout=full)
    assert process.wait(SECONDS_MAX) == 1
    assert process.stderr is not None
    assert process.stderr.read() == "webhook-inbox: No space left on device\n"


def test_closed_standard_streams_are_survived(cli: Cli) -> None:
    """As a careless supervisor starts it."""
    for redirection, code in ((">&-", 0), ("2>&-", 0), (">&- 2>&-", 0)):
        command = ["sh", "-c", f'"$0" --version {redirection}', str(PROGRAM)]
        assert subprocess.run(command, env=cli.environment, check=False).returncode == code


def test_ctrl_c_ends_it_quietly(cli: Cli) -> None:
    """While it waits for an answer that does not come: no word, exit 130."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/x"
        process = cli.start(
            "send", url, cli.payload("evt_1"), "--source", "stripe", "--secret", "whsec_fake_cli"
        )
        silent.settimeout(SECONDS_MAX)
        connection, _ = silent.accept()
        with connection:
            process.send_signal(signal.SIGINT)
            output, talk = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, output, talk) == (130, "", "")


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_colours_are_for_a_terminal_without_no_color(shop: Cli, no_color: str, coloured: bool) -> None:
    """The same text either way; through a pipe it is plain."""
    with psycopg.connect(shop.environment["WEBHOOK_INBOX_DATABASE_URL"]) as connection:
        connection.execute(UNSETTLED)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [PROGRAM, "status"],
        env={
            **shop.environment,
            "NO_COLOR": no_color,
            "TERM": "xterm",
        },
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
    )
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 65_536):
            shown += chunk
    except OSError:  # how a pseudo-terminal says that its other end is closed
        pass
    finally:
        os.close(ours)
    _, talk = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, talk) == (0, b"")
    assert b"unprocessed" in shown
    assert (b"\x1b[" in shown) is coloured
    assert "\x1b[" not in shop.run("status").stdout


@pytest.mark.parametrize("module", ["uvicorn", "httptools", "httpx", "fastapi"])
def test_a_missing_extra_is_named_with_the_command_that_installs_it(cli: Cli, module: str) -> None:
    """Before anything else is tried; exit 2."""
    verb, extra = {"httpx": ("send", "server"), "fastapi": ("demo", "demo")}.get(module, ("serve", "server"))
    arguments = [verb, "http://127.0.0.1:1", "f", "--source", "stripe"] if verb == "send" else [verb]
    program = (
        f"import sys; sys.modules[{module!r}] = None\n"
        f"from webhook_inbox.cli.main import run; sys.exit(run({arguments!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=cli.environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"webhook-inbox: {verb} needs {module}: pip install 'webhook-inbox[{extra}]'\n"
