"""The page of states is made of the tables that the statements are held to."""

from __future__ import annotations

from pathlib import Path

from tests.docs.states import page

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "states.md"


def test_the_page_is_made_from_the_tables() -> None:
    """After a change: ``python -m tests.docs.states > docs/explanation/states.md``."""
    assert PAGE.read_text(encoding="utf-8") == page()
