"""What the command line prints cannot command a terminal, and reads well on one."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, strategies as st

from webhook_inbox.cli.output import duration, say, styled, table, visible

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


class Unread(io.StringIO):
    """A stream whose reader has gone."""

    def flush(self) -> None:
        raise BrokenPipeError


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


def test_wide_characters_are_cut_by_the_columns_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of them fits a terminal as any other does, and a character is never halved."""
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    _, cut = table(["file", "event"], [["日本" * 30, "evt_1"]])
    assert cut == f"{'日本' * 4}…{'日本' * 4}  evt_1"


@pytest.mark.parametrize("stream", [None, Unread()], ids=["closed", "unread"])
def test_talk_that_nobody_reads_stops_nothing(
    stream: Unread | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor does it come out where the data does."""
    monkeypatch.setattr("sys.stderr", stream)
    say("stopping")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("columns", [60, 80, 100, 200])
def test_what_another_verb_is_told_is_never_cut(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a narrow terminal it goes on a line of its own, the rest indented below; every line fits."""
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    rows = [["i" * 36, "d" * 20, "dead", "e" * 90]]
    lines = table(["id", "destination", "state", "error"], rows, whole=(0, 2), first=(0, 3))
    assert max(map(len, lines)) <= columns
    assert sum("i" * 36 in line for line in lines) == 1
    assert len(lines) == (2 if columns >= 80 else 4)
    assert all(line.startswith("    d") for line in lines[1::2] if len(lines) == 4)


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
