"""The command line and its reference say the same, both ways."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from webhook_inbox.cli.main import make_app
from webhook_inbox.testing.key_pairs import PAIRS
from webhook_inbox.testing.signers import SIGNERS, TYPE_IN_HEADER, Draft

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text()
GROUP: Any = typer.main.get_command(make_app())
#: Verbs that stand below another (``sources list``) by both words.
VERBS: dict[str, Any] = {
    name if sub is None else f"{name} {sub}": command
    for name, verb in GROUP.commands.items()
    for sub, command in getattr(verb, "commands", {None: verb}).items()
}
#: A value for each option that is no flag.
# Secrets of a form; every other is any text.
FORMED = {
    **{name: make().private for name, make in PAIRS.items()},
    "adyen": "AB",
    "standard-webhooks": "whsec_AAAA",
    "svix": "whsec_AAAA",
}
#: What a verb wants beside its options.
TYPED = {
    "prove": ["shop:inbox", "f"],
    "import": ["shop:inbox", "shop", "f"],
    "reconcile": ["shop:inbox", "shop"],
    "endpoints pause": ["shop"],
    "endpoints resume": ["shop"],
    "endpoints limit": ["shop"],
    "events show": ["evt_1"],
    "reviews resolve": ["1"],
    "reviews show": ["1"],
    "outbox show": ["an id"],
    "sources show": ["github"],
}
ODD_VALUES = {"log_format": "json", "log_level": "debug"}


def documented(section: str) -> dict[str, tuple[str, str]]:
    """The table of a section: name, variable and default of each row."""
    text = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert text, section
    rows = re.findall(
        r"^\| `([^`]+)`(?:, `-h`)? \|([^|]*)\|([^|]*)\|", text[1].replace("\\|", "/"), re.MULTILINE
    )
    return {name.split()[0]: (variable.strip(), default.strip()) for name, variable, default in rows}


def options(verb: str) -> Iterator[tuple[str, Any]]:
    """Each parameter of a verb by the name that people type."""
    for param in VERBS[verb].params:
        is_argument = param.param_type_name == "argument"
        yield (param.metavar if is_argument else param.opts[0]), param


def variables(verb: str, param: Any) -> list[str]:
    """The variables that stand for a parameter, as the page says them."""
    if param.envvar:
        return [param.envvar] if isinstance(param.envvar, str) else list(param.envvar)
    return (
        []
        if param.param_type_name == "argument"
        else [f"WEBHOOK_INBOX_{verb.replace(' ', '_')}_{param.name}".upper()]
    )


def test_the_verbs_are_these() -> None:
    """Each has a section, in this order, and no other is told of."""
    assert list(VERBS) == [
        "demo",
        "new",
        "dev",
        "migrate",
        "roles",
        "serve",
        "worker",
        "relay",
        "status",
        "doctor",
        "prune",
        "erase",
        "reconcile",
        "send",
        "prove",
        "audit",
        "import",
        "events list",
        "events show",
        "events retry",
        "events replay",
        "events discard",
        "reviews list",
        "reviews show",
        "reviews resolve",
        "endpoints list",
        "endpoints pause",
        "endpoints resume",
        "endpoints limit",
        "outbox list",
        "outbox show",
        "outbox retry",
        "sources list",
        "sources show",
        "metrics alerts",
        "metrics dashboard",
    ]
    assert re.findall(r"^## (.*)$", PAGE, re.MULTILINE) == ["webhook-inbox", *VERBS]


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_is_documented_and_no_other(verb: str) -> None:
    """With its variable and its default."""
    expected = {}
    for name, param in options(verb):
        unset = param.required or param.default is None or param.default is False or param.default == ""
        default = "" if unset else f"`{param.default}`"
        expected[name] = (", then ".join(f"`{each}`" for each in variables(verb, param)), default)
    assert documented(verb) == expected


def test_every_option_of_the_program_is_documented_and_no_other() -> None:
    """Help is Typer's own, and is not among the parameters."""
    assert set(documented("webhook-inbox")) == {param.opts[0] for param in GROUP.params} | {"--help"}


@pytest.mark.parametrize(
    ("verb", "name"),
    [(verb, param.name) for verb in VERBS for _, param in options(verb) if variables(verb, param)],
)
def test_every_option_can_be_given_by_its_variable(
    verb: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable does what the option does."""
    for each in ("WEBHOOK_INBOX_DATABASE_URL", "DATABASE_URL", "WEBHOOK_INBOX_APP"):
        monkeypatch.delenv(each, raising=False)
    param = next(each for each in VERBS[verb].params if each.name == name)
    number = (
        isinstance(param.default, int | float)
        or "N" in str(param.metavar).split()
        or param.metavar == "SECONDS"
    )
    flag = isinstance(param.default, bool)
    text, value = ("1", True) if flag else ("7", 7) if number else (ODD_VALUES.get(name, "x"),) * 2
    several = param.multiple and param.param_type_name == "option"
    needed = {"url": "http://h/x", "files": "f", "source": "stripe"}
    signs = verb in {"send", "audit"}
    typed = [needed["url"], needed["files"]] if signs else []
    if signs and name != "source":
        typed += ["--source", needed["source"]]
    typed += TYPED.get(verb, ())
    monkeypatch.setenv(variables(verb, param)[-1], text)
    command = VERBS[verb]
    context = command.make_context(verb, typed, **command.context_settings)
    assert context.params[name] == ([value] if several else value)
    assert context.get_parameter_source(name).name == "ENVIRONMENT"


def test_sources_that_need_a_type_or_a_body_written_anew_are_named() -> None:
    """In the help and on the page."""
    help_text = next(param.help for _, param in options("send") if param.name == "event_type")
    for source in TYPE_IN_HEADER:
        assert source in help_text
        assert f"`{source}`" in PAGE
    written = {name for name in SIGNERS if name not in TYPE_IN_HEADER and writes_the_body_anew(name)}
    assert written == {"linear", "mailgun", "adyen", "sns"}
    assert all(name in VERBS["send"].help and f"`{name}`" in PAGE for name in written)


def writes_the_body_anew(name: str) -> bool:
    """Sign a body that is written as no program writes it."""
    secret = FORMED.get(name, "fake")
    body = b'{ "notificationItems" : [] }'
    draft = Draft(body=body, secret=secret, event_id="e", timestamp=0, event_type="t")
    return SIGNERS[name](draft).body != body


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_and_option_explains_itself(verb: str) -> None:
    """In a sentence that ends."""
    assert VERBS[verb].help
    for name, param in options(verb):
        assert param.help, name
        assert param.help.endswith("."), name
