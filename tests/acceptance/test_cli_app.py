"""APP is found as a user expects, and where it is not, the program says what it found in its place."""

from __future__ import annotations

import pytest

from tests.fixtures.cli import SHOP, Cli

DSN = "postgresql:///nowhere?host=/nowhere"


def said(cli: Cli, reference: str, text: str = SHOP, **environment: str) -> str:
    """What ``status APP`` says about a module with *text*; exit 2."""
    cli.app(text)
    done = cli.run("status", *([reference] if reference else []), "--json", DATABASE_URL=DSN, **environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    return done.stderr


def test_an_inbox_is_found_in_the_current_folder(shop: Cli) -> None:
    """By argument and by variable, in a module, in a package, and behind dots."""
    package = shop.folder / "billing"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "app.py").write_text(SHOP + "\nclass Wired:\n    inbox = inbox\n")
    assert shop.json("status", "shop:inbox")["schema"] == "webhooks"
    assert shop.json("status", "billing.app:Wired.inbox")["schema"] == "webhooks"
    assert shop.json("status", WEBHOOK_INBOX_APP="billing.app:inbox")["schema"] == "webhooks"


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("shop", "is not module:attribute"),
        (":inbox", "is not module:attribute"),
        ("shop:", "is not module:attribute"),
        (".shop:inbox", "is not module:attribute"),
        ("shop.:inbox", "is not module:attribute"),
        ("shop:inbox.", "is not module:attribute"),
        ("shopp:inbox", "there is no module 'shopp'"),
        ("shop.app:inbox", "there is no module 'shop.app'"),
        ("shop:inboxx", "has no attribute 'inboxx'; its Inbox is shop:inbox"),
        ("shop:inbox.nope", "has no attribute 'inbox.nope'"),
        ("shop:Inbox", "shop:Inbox is a type, not an Inbox; its Inbox is shop:inbox"),
        ("shop:book", "shop:book is a function, not an Inbox"),
        ("shop:shop", "shop:shop is an Endpoint, not an Inbox"),
        ("shop:inbox\x1b[31m", "\\x1b[31m"),
    ],
)
def test_a_reference_that_leads_nowhere_says_where_it_ended(cli: Cli, reference: str, words: str) -> None:
    """And names the Inbox that is there."""
    assert words in said(cli, reference)


def test_a_missing_reference_says_how_to_give_one(cli: Cli) -> None:
    """Exit 2, with the variable's name."""
    done = cli.run("serve")
    assert done.returncode == 2
    assert "WEBHOOK_INBOX_APP" in done.stderr


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "import nonesuch\n",
            ["  shop.py:1 in <module>", "  ModuleNotFoundError: No module named 'nonesuch'"],
        ),
        (
            "def ready():\n    return {}['shop']\n\nready()\n",
            ["  shop.py:4 in <module>", "  shop.py:2 in ready", "  KeyError: 'shop'"],
        ),
        ("import sys\n\nsys.exit('not now')\n", ["  shop.py:3 in <module>", "  SystemExit: not now"]),
        ("inbox = = 1\n", ["  SyntaxError: invalid syntax at shop.py:1"]),
    ],
    ids=["import", "error", "exit", "syntax"],
)
def test_a_module_that_fails_shows_the_end_of_the_users_traceback(
    cli: Cli, text: str, lines: list[str]
) -> None:
    """The user's own frames, nearest last, then the exception; none of ours."""
    first, *rest = said(cli, "shop:inbox", text).splitlines()
    assert first == "webhook-inbox: importing 'shop' failed:"
    assert rest[: len(lines)] == lines


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ("Inbox(schema='')", "schema"),
        (
            "Inbox('postgresql:///shop').endpoint('code', GitHub('fake'), mode='inline')",
            "endpoint code: github does not send again",
        ),
    ],
    ids=["inbox", "endpoint"],
)
def test_a_mistake_in_a_call_of_ours_is_its_sentence_and_its_place(
    cli: Cli, call: str, sentence: str
) -> None:
    """One line, without a word about imports; the place is the user's, however deep the refusal."""
    imports = "from webhook_inbox import Inbox\nfrom webhook_inbox.sources import GitHub\n\n"
    [line] = said(cli, "shop:inbox", f"{imports}inbox = {call}\n").splitlines()
    assert line.startswith(f"webhook-inbox: {sentence}")
    assert line.endswith(" (shop.py:4)")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            "Inbox('postgresql:///shop').endpoint('a', Stripe(secret='canary'))",
            "Stripe takes no secret; did you mean secrets?",
        ),
        (
            "Inbox('postgresql:///shop').endpoint('a', Paddle('canary', leeway=9))",
            "Paddle takes no leeway; it takes secrets, tolerance_seconds",
        ),
        (
            "Inbox('postgresql:///shop').destination('a', call=print)",
            "destination takes no call; it takes name,",
        ),
        ("Theirs(secret='canary')", "its text is not shown"),
    ],
    ids=["near", "far", "method", "theirs"],
)
def test_a_misspelt_argument_of_ours_is_named(cli: Cli, call: str, sentence: str) -> None:
    """With the one that was meant, or all there are; what others refuse stays untold."""
    imports = "from webhook_inbox import Inbox\nfrom webhook_inbox.sources import Paddle, Stripe\n\n"
    theirs = "class Theirs:\n    def __init__(self, secrets): pass\n\n"
    lines = said(cli, "shop:inbox", f"{imports}{theirs}inbox = {call}\n").splitlines()
    assert lines[:2] == ["webhook-inbox: importing 'shop' failed:", "  shop.py:7 in <module>"]
    assert lines[2].startswith("  TypeError")
    assert sentence in lines[2]
    assert "canary" not in "".join(lines)
