"""P-QUIET on the command line: whatever goes wrong, no password and no secret is printed."""

from __future__ import annotations

import subprocess

import pytest

from tests.fixtures.cli import SHOP, Cli
from webhook_inbox.cli.main import run

CANARY = "canary-7f3a"
DSNS = {
    "nobody there": f"postgresql://bob:{CANARY}@127.0.0.1:1/shop",
    "no such host": f"postgresql://bob:{CANARY}@db.invalid/shop",
    "pairs": f"host=127.0.0.1 port=1 user=bob password={CANARY} dbname=shop",
    "at sign": f"postgresql://bob:p@{CANARY}@127.0.0.1:1/shop",
    "slash": f"postgresql://bob:p/{CANARY}@127.0.0.1:1/shop",
    "question mark": f"postgresql://bob:p?{CANARY}@127.0.0.1:1/shop",
    "hash": f"postgresql://bob:p#{CANARY}@127.0.0.1:1/shop",
    "port": f"postgresql://bob@127.0.0.1:{CANARY}/shop",
    "no scheme": f"bob:{CANARY}@127.0.0.1:1/shop",
    "another scheme": f"mysql://bob:{CANARY}@127.0.0.1:1/shop",
    "unknown key": f"postgresql://bob@127.0.0.1:1/shop?pasword={CANARY}",
}
VERBS = [["migrate"], ["migrate", "--check"], ["status"], ["status", "--json"]]
APP_VERBS = [
    ["status", "shop:inbox"],
    ["doctor", "shop:inbox"],
    ["serve", "shop:inbox", "--port", "0"],
    ["worker", "shop:inbox", "--drain"],
    ["dev", "shop:inbox", "--port", "0"],
]


def refused(done: subprocess.CompletedProcess[str]) -> None:
    """It failed, in words that hold nothing of the secret."""
    assert done.returncode in (1, 2)
    assert done.stderr
    assert CANARY not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("dsn", DSNS)
def test_no_error_about_the_database_holds_its_password(
    dsn: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """By option or by variable; ill-formed DSNs hold their password in odd places."""
    codes = [run(["migrate", "--database", DSNS[dsn]])]
    monkeypatch.setenv("WEBHOOK_INBOX_DATABASE_URL", DSNS[dsn])
    codes += [run(arguments) for arguments in VERBS]
    assert set(codes) <= {1, 2}
    shown = "".join(capfd.readouterr())
    assert shown.count("webhook-inbox: ") >= len(codes)
    assert CANARY not in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize("dsn", ["nobody there", "at sign", "port"])
@pytest.mark.parametrize("arguments", APP_VERBS, ids=" ".join)
def test_no_pool_and_no_log_tells_the_password(cli: Cli, arguments: list[str], dsn: str) -> None:
    """Where the user's Inbox has the DSN, the driver's pool logs why it got no connection."""
    cli.app()
    cli.environment["WEBHOOK_INBOX_CONNECTION_WAIT_SECONDS"] = "0.5"
    refused(cli.run(*arguments, DATABASE_URL=DSNS[dsn]))


def test_a_usage_error_does_not_quote_a_password(cli: Cli) -> None:
    """The DSN given where none is expected, the secret given twice, options misspelt."""
    dsn = DSNS["nobody there"]
    refused(cli.run("migrate", dsn))
    refused(cli.run("serve", dsn))
    refused(cli.run("status", dsn, "--database", dsn))
    refused(cli.run("migrate", f"--databse={dsn}"))
    refused(cli.run("send", "http://127.0.0.1:1/x", "nofile", "--source", "stripe", "--secret", CANARY))
    refused(cli.run("send", f"http://bob:{CANARY}@127.0.0.1:1/x", "nofile", "--source", "stripe"))
    refused(cli.run("send", f"ftp://bob:{CANARY}@127.0.0.1:1/x", "nofile", "--source", "stripe"))


@pytest.mark.parametrize("source", ["standard-webhooks", "svix"])
def test_a_secret_of_the_wrong_form_is_refused_unseen(cli: Cli, source: str) -> None:
    """Before anything is sent; exit 2."""
    done = cli.run(
        "send",
        "http://127.0.0.1:1/x",
        cli.payload("evt_1"),
        "--source",
        source,
        WEBHOOK_INBOX_SECRET=f"whsk_{CANARY}",
    )
    refused(done)
    assert done.returncode == 2
    assert "form" in done.stderr


def test_an_exception_of_the_users_module_is_shown_without_the_secrets_it_quotes(cli: Cli) -> None:
    """The traceback is the user's, the password is nobody's."""
    dsn = DSNS["nobody there"]
    cli.app(f"import os\n\nraise RuntimeError(os.environ['DATABASE_URL'] + ' and {CANARY}')\n")
    done = cli.run("serve", "shop:inbox", DATABASE_URL=dsn)
    refused(done)
    assert "shop.py:3 in <module>" in done.stderr
    assert "RuntimeError" in done.stderr


def test_a_configuration_error_does_not_show_the_source_line_that_holds_a_secret(cli: Cli) -> None:
    """Where in the user's code, by line; the line itself may say ``secrets="..."``."""
    line = f"inbox.endpoint('other', Stripe(secrets='{CANARY} '), mode='inline')\n"
    cli.app(SHOP + line)
    done = cli.run("serve", "shop:inbox", DATABASE_URL="postgresql:///x")
    refused(done)
    assert done.returncode == 2
    assert "white space" in done.stderr
    cli.app(f"secret = = '{CANARY}'\n")
    done = cli.run("serve", "shop:inbox")
    refused(done)
    assert "shop.py:1" in done.stderr
