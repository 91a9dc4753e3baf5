"""A build server reads of a proof what people read."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from webhook_inbox.testing.junit import Case, suite
from webhook_inbox.testing.proof import Finding, Proof


def cases(proof: Proof) -> dict[str, str]:
    """Each test case with what is in it."""
    parsed = ET.fromstring(proof.as_junit())  # noqa: S314 - our own
    return {
        str(case.get("name")): "".join(f"{each.tag}: {each.text or each.get('message')}" for each in case)
        for case in parsed
    }


def test_what_was_found_beside_the_trials_is_a_case_too() -> None:
    """What handlers do outside is of no schedule, and one finding for each of them; what was not tried is no pass."""
    proof = Proof(
        seed=1,
        schedules={"in turn": 1, "order": 2},
        findings=[Finding("outside", "book calls open"), Finding("outside", "tell calls socket.connect")],
        cut_short=["order", "crash"],
    )
    assert cases(proof) == {
        "in turn": "",
        "order": "skipped: not tried to the end, for want of time",
        "outside": "failure: outside: book calls open\noutside: tell calls socket.connect",
        "crash": "skipped: not tried to the end, for want of time",
    }
    totals = ET.fromstring(proof.as_junit()).attrib  # noqa: S314 - our own
    assert (totals["tests"], totals["failures"], totals["skipped"]) == ("4", "1", "2")


def test_a_trial_that_found_something_has_failed_though_it_was_cut_short() -> None:
    """Also one that came to no schedule."""
    proof = Proof(seed=1, findings=[Finding("in turn", "it stands still")], cut_short=["in turn"])
    assert cases(proof) == {"in turn": "failure: in turn: it stands still"}


def test_what_xml_cannot_hold_is_replaced() -> None:
    """A row or a statement may hold any character; a file that cannot be read says nothing."""
    text = "".join(map(chr, [0, 8, 9, 27, 0x41, 0xD800, 0xFFFE, 0x1F600])) + "<&\"'>"
    parsed = ET.fromstring(suite("s", [Case("n", failure=text), Case("m", skipped=text)]))  # noqa: S314 - our own
    shown = "\ufffd\ufffd\t\ufffdA\ufffd\ufffd\U0001f600<&\"'>"
    assert parsed.findtext("testcase[@name='n']/failure") == shown
    found = parsed.find("testcase[@name='m']/skipped")
    assert found is not None
    assert found.get("message") == shown
