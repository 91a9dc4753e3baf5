"""Statements of ours as the server takes them."""

from __future__ import annotations

import pytest

from webhook_inbox.drivers.parameters import numbered


def test_names_become_numbers_each_once() -> None:
    """As the server counts its parameters; a doubled percent sign is one."""
    text = "SELECT %(a)s, %(b)s LIKE '%%x%%', %(a)s"
    assert numbered(text) == ("SELECT $1, $2 LIKE '%x%', $1", ("a", "b"))


@pytest.mark.parametrize(
    ("given", "as_is", "as_text"),
    [
        ("%(a)s::jsonb", "$1::jsonb", "$1::text::jsonb"),
        ("%(a)s::uuid[]", "$1::uuid[]", "$1::text[]::uuid[]"),
        ("%(a)s::bigint[]", "$1::bigint[]", "$1::bigint[]"),
        ("%(a)s::double precision", "$1::double precision", "$1::double precision"),
    ],
)
def test_a_cast_stays_and_what_is_sent_as_text_is_cast_from_it(given: str, as_is: str, as_text: str) -> None:
    """Each driver says which types it sends so."""
    assert numbered(given) == (as_is, ("a",))
    assert numbered(given, frozenset({"jsonb", "uuid"})) == (as_text, ("a",))
