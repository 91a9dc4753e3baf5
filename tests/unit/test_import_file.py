"""What a file names is read line by line: one bad line is told, and swallows no other."""

from __future__ import annotations

from io import BytesIO

import pytest

from webhook_inbox.cli.import_file import Unfit, named_events


def read(text: bytes, form: str = "csv") -> tuple[list[str], dict[int, str]]:
    """The ids that are named, and the lines that name none."""
    told = Unfit()
    events = list(named_events(BytesIO(text), form, {}, unfit=lambda _: "", told=told))
    return [event.event_id for event in events], told.lines


def test_a_quote_that_is_never_closed_is_one_bad_line() -> None:
    """The ids below it are read: else their redeliveries would have their effect a second time (P-ONCE)."""
    ids, bad = read(b'id,type\nevt_1,"paid\nevt_2,paid\nevt_3,"a ""quoted"" type"\n')
    assert ids == ["evt_2", "evt_3"]
    assert bad == {2: "no line of CSV"}


@pytest.mark.parametrize("account", [b"acct\x00", b"acct\xff", b"acct\x1b[0m"])
def test_an_account_that_could_not_be_stored_is_told_by_its_line(account: bytes) -> None:
    """And stops nothing."""
    ids, bad = read(b"id,account\nevt_1," + account + b"\nevt_2,acct_1\n")
    assert ids == ["evt_2"]
    assert bad == {2: "account holds characters that none has"}


def test_a_time_of_very_many_digits_is_no_time() -> None:
    """Whatever Python makes of such a number."""
    ids, bad = read(b"id,received_at\nevt_1," + b"9" * 5_000 + b"\nevt_2,1893456000\n")
    assert (ids, list(bad)) == (["evt_2"], [2])
