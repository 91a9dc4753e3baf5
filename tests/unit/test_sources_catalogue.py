"""A program pays for the providers that it uses, and none is left out of the catalogue."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from webhook_inbox import sources
from webhook_inbox.sources import Source
from webhook_inbox.sources.catalogue import HOMES, describe, providers, source_class
from webhook_inbox.sources.facts import Facts

ROOM = Path(sources.__file__).parent


def test_a_provider_is_imported_when_it_is_asked_for_and_not_before() -> None:
    """In an interpreter of its own: the room, then one provider, then a look at what was loaded."""
    program = (
        "import sys, webhook_inbox.sources as room; room.GitHub; "
        "print(*sorted(name.rpartition('.')[2] for name in sys.modules if name.startswith('webhook_inbox.sources.')))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(ran.stdout.split())
    assert "github" in loaded
    assert loaded & (set(HOMES.values()) - {"github"}) == set()


def test_every_file_with_facts_is_in_the_catalogue() -> None:
    """And each name leads to a class of that name, in its file."""
    with_facts = {path.stem for path in ROOM.glob("*.py") if "\n    facts = Facts(" in path.read_text()}
    assert with_facts == set(HOMES.values()) - {"generic"}
    for name in HOMES:
        found = source_class(name)
        assert found.__name__ == name
        assert issubclass(found, Source)
        assert getattr(sources, name) is found


def test_a_name_that_is_none_is_an_attribute_error() -> None:
    """As of any module; its own names are all that it lists."""
    with pytest.raises(AttributeError, match=r"module 'webhook_inbox.sources' has no attribute 'Nobody'"):
        sources.Nobody  # noqa: B018 - what is tested
    with pytest.raises(KeyError):
        source_class("Nobody")
    assert dir(sources) == sources.__all__


def test_a_description_holds_what_the_class_says() -> None:
    """Whatever a program decides by: does it send again, for how long, is its id signed."""
    github = describe(source_class("GitHub"))
    assert (github["name"], github["provider"], github["redelivers"], github["signed_id"]) == (
        "GitHub",
        "github",
        False,
        False,
    )
    assert (github["body_bytes_max"], github["success_status"]) == (26_214_400, 200)
    assert github["retries"]["seconds"] == 0
    assert [each.__name__.lower() for each in providers()] == sorted(
        each.__name__.lower() for each in providers()
    )
    assert all(isinstance(each.facts, Facts) for each in providers())
