"""P-QUIET, the last line: whatever the command line says, no password and no secret is in it."""

from __future__ import annotations

import pytest

from webhook_inbox.cli.masking import mask

CANARY = "canary-7f3a"


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://bob:{CANARY}@db/shop",
        f"postgresql+asyncpg://bob:{CANARY}@db:5432/shop?sslmode=require",
        f"got unexpected extra argument (postgres://bob:{CANARY}@db/shop)",
        f"postgresql://bob:p@ss/{CANARY}?x@db/shop",
        f"host=db user=bob password={CANARY} dbname=shop",
        f"host=db password = '{CANARY} \\' more' dbname=shop",
        f"connection failed: dsn 'PASSWORD={CANARY}'",
        f"https://user:{CANARY}@hooks.example/billing",
    ],
)
def test_credentials_are_masked_wherever_they_stand(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a URL, in key=value pairs, in a sentence that quotes either."""
    monkeypatch.setattr("sys.argv", ["webhook-inbox"])
    assert CANARY not in mask(text)
    assert "***" in mask(text)


@pytest.mark.parametrize(
    ("argv", "environment"),
    [
        (["send", "--secret", CANARY], {}),
        (["send", f"--secret={CANARY}"], {}),
        (["send"], {"WEBHOOK_INBOX_SECRET": CANARY}),
        (["migrate", "--database", f"postgresql://bob:{CANARY}@db/shop"], {}),
        (["migrate", f"--database=password={CANARY}"], {}),
        (["status"], {"WEBHOOK_INBOX_DATABASE_URL": f"postgresql://bob:{CANARY}@db/shop"}),
        (["status"], {"DATABASE_URL": f"host=db password='{CANARY}'"}),
    ],
)
def test_a_secret_that_was_given_is_masked_in_any_sentence(
    argv: list[str], environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception of somebody else's may hold the bare value."""
    monkeypatch.setattr("sys.argv", ["webhook-inbox", *argv])
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert mask(f"KeyError: '{CANARY}' is odd") == "KeyError: '***' is odd"


def test_an_escaped_password_is_masked_decoded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver decodes it, and may then speak of it."""
    monkeypatch.setattr("sys.argv", ["webhook-inbox", "--database", "postgresql://bob:can%40ary-9@db/x"])
    assert mask("no host can@ary-9") == "no host ***"


def test_ordinary_sentences_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short password does not blacken half of what is said, nor is the form of a DSN hidden that we teach."""
    monkeypatch.setattr("sys.argv", ["webhook-inbox"])
    monkeypatch.setenv("DATABASE_URL", "postgresql://inbox:inbox@db/inbox")
    for text in (
        "set WEBHOOK_INBOX_DATABASE_URL to postgresql://user:password@host/name",
        "listening on http://127.0.0.1:8000 for billing",
        "webhook_inbox.errors",
    ):
        assert mask(text) == text
