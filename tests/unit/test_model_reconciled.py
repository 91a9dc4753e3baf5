"""Until when everything is here is never said to be later than it is, and no list that nobody asks holds it back."""

from __future__ import annotations

import pytest

from webhook_inbox.model.reconciled import Completeness, Tally, WalkRecord


def record(complete: float | None, ended: float | None = 10.0) -> WalkRecord:
    """What is remembered of a list."""
    return WalkRecord(
        endpoint="billing",
        account="",
        tally=Tally(),
        since_seconds=100.0,
        ended_seconds=ended,
        complete_seconds=complete,
        last_error="",
    )


@pytest.mark.parametrize(
    ("records", "seconds"),
    [
        ([], None),
        ([record(20.0)], 20.0),
        ([record(20.0), record(300.0)], 300.0),
        ([record(20.0), record(None)], None),
        ([record(20.0), record(None, ended=None)], None),
        ([record(20.0), record(9000.0, ended=7300.0)], 20.0),
        ([record(9000.0, ended=7300.0), record(9500.0, ended=7300.0)], 9500.0),
    ],
)
def test_the_list_that_is_furthest_behind_decides(records: list[WalkRecord], seconds: float | None) -> None:
    """One that was left off, such as of an account that is gone, does not, unless nothing was asked of late."""
    assert Completeness.of("billing", records, asked_seconds=7200.0).seconds == seconds
