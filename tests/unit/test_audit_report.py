"""A grade follows from a rule, and is told alike to people, programs and JUnit."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pytest

from webhook_inbox.testing.audit import CHECKS, Report
from webhook_inbox.testing.audit.verdict import Check, State, Verdict

SAW = 'answered <200> & "more"'


def report(**states: State) -> Report:
    """All passed, but for the checks that are named, ``_`` for ``-``."""
    given = {name.replace("_", "-"): state for name, state in states.items()}
    assert given.keys() <= {check.id for check in CHECKS}
    verdicts: dict[Check, Verdict] = {each: Verdict(given.get(each.id, "passed"), SAW) for each in CHECKS}
    return Report(verdicts=verdicts, seed=7, marked="audit_7", requests=100, seconds=1.5)


@pytest.mark.parametrize(
    ("states", "grade"),
    [
        ({}, "A"),
        ({"order": "untried", "timestamp_stale": "inapplicable"}, "A"),
        ({"signature_altered": "inapplicable"}, "A"),
        ({"slow_body": "failed", "methods": "failed"}, "B"),
        ({"duplicate_at_once": "untried"}, "B"),
        ({"calm": "failed", "duplicate_at_once": "untried"}, "C"),
        ({"calm": "failed", "order": "failed", "slow_body": "failed"}, "D"),
        ({"duplicate_at_once": "failed"}, "F"),
    ],
)
def test_the_grade_is_the_rule(states: dict[str, State], grade: str) -> None:
    """Nothing else counts than which checks failed or were not tried, and how much they weigh; from C on it is bad."""
    told = report(**states)
    assert (told.grade, told.good) == (grade, grade in "AB")


def test_people_read_what_to_do() -> None:
    """What failed comes with why and a remedy; what was not tried in one line for each reason."""
    told = report(failure_redelivered="failed", order="untried", slow_body="untried")
    lines = list(told.lines())
    place = next(place for place, line in enumerate(lines) if line.startswith("FAIL failure-redelivered"))
    assert [line.split()[0] for line in lines[place + 1 : place + 4]] == ["critical:", "why:", "do:"]
    assert f"-    not tried ({SAW}): order, slow-body" in lines
    assert "the mistake is known as: mark first" in lines
    assert lines[-1].startswith("its events have audit_7")


def test_programs_read_the_same() -> None:
    """As JSON, and as a JUnit test case for each check."""
    told = report(failure_redelivered="failed", order="untried")
    facts = json.loads(json.dumps(told.as_json()))
    assert (facts["grade"], facts["good"], facts["mistakes"]) == ("F", False, ["mark first"])
    assert [each["check"] for each in facts["checks"] if each["state"] == "failed"] == told.failed()
    suite = ET.fromstring(told.as_junit())  # noqa: S314 - our own
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == (str(len(CHECKS)), "1", "1")
    assert SAW in (suite.findtext("testcase[@name='failure-redelivered']/failure") or "")


def test_every_check_has_a_name_of_its_own() -> None:
    """By which ``--only`` and the page know it."""
    assert len({check.id for check in CHECKS}) == len(CHECKS)
