"""The page about audits says what the code does: its checks, its grades, its options, the names of the mistakes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer.main

from webhook_inbox.cli.main import make_app
from webhook_inbox.testing.audit import report
from webhook_inbox.testing.audit.catalogue import CHECKS, table

TEXT = (Path(__file__).parents[2] / "docs" / "how-to" / "audit.md").read_text(encoding="utf-8")


def test_the_page_has_every_check() -> None:
    """As the code has it, word for word."""
    assert table() in TEXT


@pytest.mark.parametrize("grade", ["A", "B", "C", "D", "F"])
def test_the_page_has_the_rule_of_each_grade(grade: str) -> None:
    """The sentence that stands beside the code."""
    rule = re.search(rf"^    {grade}   (.+)$", report.__doc__ or "", re.MULTILINE)
    assert rule
    assert f"| {grade} | {rule[1]} | {int(grade not in 'AB')} |" in TEXT


def test_every_command_of_the_page_is_understood() -> None:
    """Its options exist, and its checks too."""
    command = typer.main.get_command(make_app()).commands["audit"]  # type: ignore[attr-defined]  # a group
    blocks = re.findall(r"^\$ webhook-inbox audit ((?:.*\\\n)*.*)$", TEXT, re.MULTILINE)
    assert len(blocks) == 2
    for block in blocks:
        command.make_context("audit", shlex.split(block.replace("\\\n", " ")))
    only = re.search(r"`--only (\S+)`", TEXT)
    assert only
    assert set(only[1].split(",")) <= {check.id for check in CHECKS}


def test_every_mistake_has_its_name_on_the_page() -> None:
    """And no other is called one."""
    assert set(re.findall(r"\*(mark first|mark after|any error)\*", TEXT)) == {
        check.mistake for check in CHECKS if check.mistake
    }
