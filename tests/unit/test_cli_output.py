"""What the command line prints cannot command a terminal, and reads well on one."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, strategies as st

from webhook_inbox.cli.output import duration, styled, table, visible

HOSTILE = [
    "\x1b[31m",
    "\x07",
    "\r",
    "\n",
    "\x00",
    "\x7f",
    "\x9b31m",
    "\u2028",
    "\u202e",
    "\u2066",
    "\u200b",
    "\udc80",
]


class Terminal(io.StringIO):
    """A stream that a person reads."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_what_a_terminal_would_obey_is_shown_as_an_escape(text: str) -> None:
    """Colours, bells, line ends, C1 controls, bidi overrides, invisible characters, surrogates."""
    shown = visible(f"evt_{text}1")
    assert shown.isprintable()
    assert shown.startswith("evt_\\")
    assert shown.endswith("1")


@given(st.text())
def test_whatever_is_printed_is_printable(text: str) -> None:
    """For any text there is; what is printable stays as it is."""
    assert visible(text).isprintable()
    if text.isprintable():
        assert visible(text) == text


def test_a_table_lines_up_and_escapes_its_cells() -> None:
    """Numbers to the right; wide characters take two columns; nothing trails a line."""
    lines = table(["name", "n"], [["a\x1b", "1"], ["日本", "10"]], numbers=[1])
    assert lines == ["name    n", "a\\x1b   1", "日本   10"]


def test_a_table_fits_a_terminal_and_goes_whole_through_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal a long cell is cut in the middle; a program gets all of it."""
    rows = [["x" * 200, "evt_1", "processed"]]
    assert "x" * 200 in table(["file", "event", "outcome"], rows)[1]
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    fitted = table(["file", "event", "outcome"], rows)
    assert max(map(len, fitted)) == 80
    assert fitted[1].endswith("evt_1  processed")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.04, "0.0 s"),
        (9.99, "10.0 s"),
        (12.7, "12 s"),
        (252, "4 min 12 s"),
        (3_600 * 3 + 300, "3 h 5 min"),
        (86_400 * 2 + 3_600 * 7, "2 d 7 h"),
    ],
)
def test_durations_read_as_people_say_them(seconds: float | None, text: str) -> None:
    """Two units at most."""
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_colours_are_for_terminals_that_want_them(
    environment: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Source: no-color.org, "when present and not an empty string"."""
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert (styled("bad", "red", stream=Terminal()) != "bad") is coloured
    assert styled("bad", "red", stream=io.StringIO()) == "bad"
