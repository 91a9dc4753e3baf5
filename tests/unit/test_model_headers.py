"""Headers lose no repeated one, know no letter case and show no value."""

from __future__ import annotations

import pytest

from webhook_inbox.model.headers import SECRET_HEADERS, Headers

HEADERS = Headers([("Host", "a"), ("X-Two", "1"), ("x-TWO", "2"), ("Authorization", "Bearer fake")])


def test_a_name_is_found_whatever_its_letter_case() -> None:
    """HTTP header names are case-insensitive (RFC 9110, section 5.1)."""
    assert HEADERS["host"] == HEADERS["HOST"] == "a"
    assert "hOsT" in HEADERS
    assert "absent" not in HEADERS
    assert HEADERS.get("absent") is None
    with pytest.raises(KeyError, match=r"^'Absent'$"):
        HEADERS["Absent"]


def test_a_repeated_name_keeps_every_value_in_order() -> None:
    """Whoever asks for all of them learns that there are two; a lookup gives the first."""
    assert HEADERS.all("X-TWO") == ("1", "2")
    assert HEADERS.all("absent") == ()
    assert HEADERS["x-two"] == "1"
    assert HEADERS.pairs == (("host", "a"), ("x-two", "1"), ("x-two", "2"), ("authorization", "Bearer fake"))


def test_as_a_mapping_each_name_counts_once() -> None:
    """Iteration and length agree."""
    assert list(HEADERS) == ["host", "x-two", "authorization"]
    assert len(HEADERS) == 3
    assert len(Headers()) == 0


def test_named_headers_can_be_left_out() -> None:
    """P-QUIET: what carries credentials is dropped with every copy of it."""
    assert HEADERS.without(SECRET_HEADERS).pairs == (("host", "a"), ("x-two", "1"), ("x-two", "2"))
    assert HEADERS.without(["x-two"]).all("x-two") == ()
    assert frozenset({"authorization", "cookie", "proxy-authorization", "x-api-key"}) == SECRET_HEADERS


def test_printing_shows_names_only() -> None:
    """P-QUIET: a value may be a credential."""
    assert repr(HEADERS) == "Headers(host, x-two, authorization)"
