"""Statements of ours as libpq takes them."""

from __future__ import annotations

from webhook_inbox.drivers.psycopg_flight import positional


def test_names_become_numbers_each_once() -> None:
    """As the server counts its parameters; a doubled percent sign is one."""
    text = "SELECT %(a)s, %(b)s LIKE '%%x%%', %(a)s"
    assert positional(text) == ("SELECT $1, $2 LIKE '%x%', $1", ("a", "b"))
