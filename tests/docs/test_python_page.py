"""The page of the public names is what their docstrings say, and has every one of them."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

from tests.docs.python_reference import MODULES, page
from webhook_inbox import NotYet

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "python.md"


def test_the_page_is_made_from_the_code() -> None:
    """After a change: ``python -m tests.docs.python_reference > docs/reference/python.md``."""
    assert PAGE.read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_its_heading(module: str) -> None:
    """Once, below its module; and every method that a class adds to it."""
    text = PAGE.read_text(encoding="utf-8")
    section = text.partition(f"\n## `{module}`\n")[2].partition("\n## ")[0]
    headings = re.findall(r"^### `?(\w+)`?$", section, re.MULTILINE)
    assert headings == importlib.import_module(module).__all__
    assert " at 0x" not in section


def test_what_a_user_calls_is_there() -> None:
    """Methods, properties and what an inbox has from the rooms behind it; nothing that begins with an underscore."""
    text = PAGE.read_text(encoding="utf-8")
    for each in (
        "Inbox.endpoint",
        "Inbox.receive",
        "Inbox.emit",
        "Inbox.schema",
        "Tx.emit",
        "Handlers.on_batch",
    ):
        assert f"\n#### {each}\n" in text
    assert not re.search(r"^#### \w+[.]_", text, re.MULTILINE)
    assert (inspect.getdoc(NotYet) or "").partition("\n")[0].replace("``", "`") in text
