"""The page about proving handlers runs as it stands, and names each trial."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.test_how_to_test import TEXT as KIT
from tests.fixtures.postgres import PostgresServer
from webhook_inbox.testing.plugin import DSN_VARIABLE

pytest_plugins = ["pytester"]
TEXT = (Path(__file__).parents[2] / "docs" / "how-to" / "prove.md").read_text(encoding="utf-8")
TRIALS = {"in turn", "order", "second id", "copies at once", "at once", "crash", "outside", "set"}


def blocks(text: str) -> list[str]:
    """The examples in Python of a page."""
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_every_trial_has_its_row() -> None:
    """The table names each trial, and no other."""
    assert set(re.findall(r"^\| `([a-z ]+)` \|", TEXT, re.MULTILINE)) == TRIALS


def test_the_example_proves_the_app_of_the_page_about_tests(
    pytester: pytest.Pytester, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The app there goes by the event's id and has a key on it: a second id books twice, and the proof says so."""
    monkeypatch.setenv(DSN_VARIABLE, postgres.dsn)
    app, conftest = blocks(KIT)[:2]
    (example,) = blocks(TEXT)
    pytester.makepyfile(app=app, conftest=conftest, test_proof=example)
    found = pytester.runpytest_subprocess("-p", "no:randomly", "-p", "no:cacheprovider")
    found.stdout.re_match_lines([r".*second id: event evt_1", r".*\+ public.ledger_entries evt_1_again, 10"])
    found.assert_outcomes(failed=1)
    pytester.makepyfile(test_proof=example.replace(", database=", ", second_ids=False, database="))
    pytester.runpytest_subprocess("-p", "no:randomly", "-p", "no:cacheprovider").assert_outcomes(passed=1)
