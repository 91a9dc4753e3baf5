"""``sources`` says what the classes say, to people and to programs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from webhook_inbox.cli.main import run
from webhook_inbox.cli.sources_page import page
from webhook_inbox.sources.catalogue import describe, providers


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """Run ``sources`` and give what it printed as data."""
    assert run(["sources", *arguments]) == code
    return capsys.readouterr().out


def test_the_list_has_a_line_for_each_provider(capsys: pytest.CaptureFixture[str]) -> None:
    """And says of each the few things that one chooses a mode by."""
    lines = said(capsys, "list").splitlines()
    assert len(lines) == 1 + len(providers())
    (github,) = [line.split() for line in lines if line.startswith("GitHub ")]
    assert github == ["GitHub", "github", "no", "no", "10", "s", "reconcile", "asks,", "3", "d", "back"]
    (stripe,) = [line.split() for line in lines if line.startswith("Stripe ")]
    assert stripe == [
        "Stripe",
        "stripe",
        "yes",
        "for",
        "3",
        "d",
        "not",
        "confirmed",
        "reconcile",
        "asks,",
        "30",
        "d",
        "back",
    ]


def test_the_list_as_json_is_what_show_gives_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever a class knows."""
    listed = json.loads(said(capsys, "list", "--json"))
    assert listed == json.loads(json.dumps([describe(each) for each in providers()]))
    for each in listed:
        assert json.loads(said(capsys, "show", each["provider"], "--json")) == each


def test_the_list_as_markdown_is_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    """To the byte, so that it can be written over the file."""
    assert said(capsys, "list", "--markdown") == page()


@pytest.mark.parametrize("name", ["GitHub", "github", "GITHUB"])
def test_a_provider_is_shown_by_either_name(capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Each fact with its source below it, what is not confirmed says so, and the weaknesses come last."""
    lines = said(capsys, "show", name).splitlines()
    assert lines[0] == "GitHub: GitHub"
    assert lines[1].startswith("signature     `X-Hub-Signature-256: sha256=HEX`")
    assert lines[2].strip().startswith("https://docs.github.com/")
    assert "order         not confirmed" in lines
    assert "reconcile     asks, 3 d back, with an `api_key`" in lines
    assert lines[-1].startswith("heed          ")


def test_it_says_of_each_provider_whether_reconcile_asks(capsys: pytest.CaptureFixture[str]) -> None:
    """How far back, where that is the provider's to say; of the others, that it does not."""
    said_of = {
        each.provider: next(
            line.partition("reconcile     ")[2]
            for line in said(capsys, "show", each.provider).splitlines()
            if line.startswith("reconcile")
        )
        for each in providers()
    }
    asked = {name: text for name, text in said_of.items() if text != "does not ask"}
    assert asked == {
        "github": "asks, 3 d back, with an `api_key`",
        "paddle": "asks, 90 d back, with an `api_key`",
        "paypal": "asks, 7 d back, with an `api_key`",
        "square": "asks, 28 d back, with an `api_key`",
        "standard-webhooks": "asks, with an `api_key`",
        "stripe": "asks, 30 d back, with an `api_key`",
    }


def test_an_unknown_name_is_answered_with_those_that_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2, and nothing on stdout."""
    assert run(["sources", "show", "nobody"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "there is no source 'nobody'; there are adyen, bitbucket" in told.err


def test_every_description_is_whole() -> None:
    """Programs find every member in each."""
    members: list[dict[str, Any]] = [describe(each) for each in providers()]
    assert len({frozenset(each) for each in members}) == 1
    assert {"name", "provider", "redelivers", "signed_id", "list_api", "weaknesses", "retries"} <= members[
        0
    ].keys()
    assert members[0]["retries"].keys() == {"text", "source", "seconds"}
