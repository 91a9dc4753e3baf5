"""Each promise is written down, enforced and proven; none is only one or two of these."""

from __future__ import annotations

import re

from tests.repo.tree import tracked_texts

PAGE = "docs/explanation/promises.md"
HERE = "tests/repo/test_promises.py"
_TAG = re.compile(r"\bP-[A-Z]{2,6}\b")
_PROOF = re.compile(r'def test_[^"]*?"""(.*?)"""', re.DOTALL)


def documented() -> list[str]:
    """The tags of the page's headings."""
    return re.findall(r"^## (P-[A-Z]+): ", tracked_texts()[PAGE], re.MULTILINE)


def tags_in(*prefixes: str, suffixes: tuple[str, ...]) -> set[str]:
    """Every tag in the tracked files that begin and end so."""
    return {
        tag
        for name, text in tracked_texts().items()
        if name.startswith(prefixes) and name.endswith(suffixes) and name != HERE
        for tag in _TAG.findall(text)
    }


def proven() -> set[str]:
    """The tags in the docstrings of tests."""
    return {
        tag
        for name, text in tracked_texts().items()
        if name.startswith("tests/") and "/test_" in name and name != HERE
        for docstring in _PROOF.findall(text)
        for tag in _TAG.findall(docstring)
    }


def test_promises_are_documented_enforced_and_proven() -> None:
    """The tags of the page, of the code and of the tests are the same."""
    assert len(documented()) == len(set(documented())), "a promise has two headings"
    assert set(documented()) == tags_in("src/webhook_inbox/", suffixes=(".py", ".sql"))
    assert set(documented()) == proven()


def test_no_tag_is_misspelled() -> None:
    """A tag that a page, an example or a helper of the tests names is one that exists."""
    assert tags_in("docs/", "tests/", "examples/", suffixes=(".md", ".py", ".sql")) <= set(documented())
