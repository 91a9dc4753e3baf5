"""What every outcome of a delivery is answered with: status, headers and body."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from webhook_inbox.errors import (
    ConfigurationError,
    ConflictError,
    HandlerFailedError,
    HandlerNotYetError,
    HandlerTimeoutError,
    InboxError,
    KeyBusyError,
    SchemaVersionError,
    StatementError,
    StoreUnavailableError,
    TransactionEndedError,
    VerificationKeyError,
)
from webhook_inbox.model.receipt import EventResult, Receipt
from webhook_inbox.model.states import Outcome, State
from webhook_inbox.protocol import answers
from webhook_inbox.sources import Answer, Rejected, Stripe

PLAIN = (
    ("content-type", "application/json"),
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
)


def result(outcome: Outcome, state: State | None = None, **given: Any) -> EventResult:
    """What became of one event."""
    return EventResult(outcome=outcome, event_id=given.pop("event_id", "evt_1"), state=state, **given)


def retry_after(receipt: Receipt) -> str | None:
    """The header's value."""
    return dict(receipt.headers).get("retry-after")


def test_one_event_is_answered_with_its_outcome_id_and_state() -> None:
    """P-STATE: the answer's JSON is that of the table in the reference."""
    receipt = answers.accepted([result(Outcome.PROCESSED, State.PROCESSED)])
    assert (receipt.status, receipt.outcome, receipt.headers) == (200, Outcome.PROCESSED, PLAIN)
    assert receipt.json() == {"outcome": "processed", "event_id": "evt_1", "state": "processed"}
    assert receipt.results == (result(Outcome.PROCESSED, State.PROCESSED),)
    assert receipt.reason == ""


def test_a_type_without_a_handler_is_named() -> None:
    """Whoever tries it out sees at once that ``on(...)`` is misspelt; why a handler ignores one is its own affair."""
    ignored = EventResult(outcome=Outcome.IGNORED, event_id="evt_1", state=State.IGNORED, reason="x")
    told: Any = answers.accepted([ignored]).json()
    assert "unhandled_type" not in told
    told = answers.accepted([replace(ignored, unhandled_type="invoice.paid")]).json()
    assert told["unhandled_type"] == "invoice.paid"


def test_a_duplicate_also_hears_when_the_first_copy_came() -> None:
    """P-STATE: and what became of it."""
    first = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    receipt = answers.accepted([result(Outcome.DUPLICATE, State.DEAD, first_received_at=first)])
    assert receipt.status == 200
    assert receipt.json() == {
        "outcome": "duplicate",
        "event_id": "evt_1",
        "state": "dead",
        "first_received_at": "2026-01-02T03:04:05+00:00",
    }


def test_a_reason_is_for_logs_and_never_answered() -> None:
    """P-QUIET: a reason may come from a handler."""
    receipt = answers.accepted([result(Outcome.DEAD, State.DEAD, reason="unknown plan of customer 7")])
    assert b"customer" not in receipt.body


SETTLED_LEAST_FIRST = [
    Outcome.UNAVAILABLE,
    Outcome.QUEUED,
    Outcome.QUARANTINED,
    Outcome.DEAD,
    Outcome.PROCESSED,
    Outcome.IGNORED,
    Outcome.DUPLICATE,
]


@pytest.mark.parametrize("position", range(len(SETTLED_LEAST_FIRST) - 1))
def test_several_events_come_to_what_the_least_settled_came_to(position: int) -> None:
    """Whatever their order in the body."""
    lesser, greater = SETTLED_LEAST_FIRST[position : position + 2]
    for pair in ([lesser, greater], [greater, lesser]):
        receipt = answers.accepted([result(each, event_id=f"evt_{n}") for n, each in enumerate(pair)])
        assert receipt.outcome is lesser
        assert receipt.json() == {
            "outcome": lesser.value,
            "results": [
                {"outcome": each.value, "event_id": f"evt_{n}", "state": None} for n, each in enumerate(pair)
            ],
        }
        assert [each.outcome for each in receipt.results] == pair


def test_a_body_with_an_event_that_is_not_stored_shall_come_again() -> None:
    """P-ACK: 503 as long as one of them is not committed, however many are."""
    for results in (
        [result(Outcome.UNAVAILABLE)],
        [result(Outcome.PROCESSED), result(Outcome.UNAVAILABLE)],
    ):
        receipt = answers.accepted(results)
        assert (receipt.status, receipt.outcome, receipt.reason) == (503, Outcome.UNAVAILABLE, "key_busy")
        assert retry_after(receipt) == "5"
        assert receipt.results == tuple(results)


def test_a_handshake_is_answered_as_the_source_says() -> None:
    """Nothing is added to what the provider's protocol asks for."""
    given = Answer(status=202, headers=(("x-challenge", "1"),), body=b"challenge")
    receipt = answers.handshake(given)
    assert (receipt.status, receipt.outcome) == (202, Outcome.HANDSHAKE)
    assert (receipt.headers, receipt.body) == (given.headers, given.body)


def test_a_handshake_that_is_refused_counts_as_a_rejection() -> None:
    """With a code for logs and metrics."""
    receipt = answers.handshake(Answer(status=403))
    assert (receipt.status, receipt.outcome, receipt.reason) == (403, Outcome.REJECTED, "handshake_refused")


class Silent(Stripe):
    """Wants 204, and never a body."""

    success_status = 204
    empty_answers = True


def test_answers_take_the_form_that_the_provider_asks_for_and_mean_the_same() -> None:
    """Success has its status; a refusal and a 503 keep theirs; a handshake is the source's own word."""
    plain, silent = Stripe("whsec_fake_one"), Silent("whsec_fake_one")
    accepted = answers.accepted([result(Outcome.QUEUED)])
    refused = answers.rejected(Rejected("signature_mismatch", "no signature matches"))
    later = answers.unavailable("store", "send it again")
    assert [answers.suited(each, plain) for each in (accepted, refused, later)] == [accepted, refused, later]
    for receipt, status in ((accepted, 204), (refused, 400), (later, 503)):
        suited = answers.suited(receipt, silent)
        assert (suited.status, suited.body, suited.outcome) == (status, b"", receipt.outcome)
        assert suited.headers == tuple(pair for pair in receipt.headers if pair[0] != "content-type")
        assert (suited.results, suited.reason) == (receipt.results, receipt.reason)
    shaken = answers.handshake(Answer(body=b"challenge"))
    assert answers.suited(shaken, silent) == shaken


def test_a_rejection_says_why_in_one_sentence() -> None:
    """The code is stable, the sentence constant, the status the source's own."""
    receipt = answers.rejected(Rejected("signature_mismatch", "no signature matches", status=401))
    assert (receipt.status, receipt.outcome, receipt.reason) == (401, Outcome.REJECTED, "signature_mismatch")
    assert receipt.json() == {
        "outcome": "rejected",
        "reason": "signature_mismatch",
        "error": "no signature matches",
    }
    assert (receipt.headers, receipt.results) == (PLAIN, ())


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("", ""),
        ("bill-ing.1~_", " 'bill-ing.1~_'"),
        ("a" * 100, f" '{'a' * 100}'"),
        ("a" * 101, ""),
        ("<script>", ""),
        ("a b", ""),
        ("a\n", ""),
    ],
)
def test_an_unknown_path_is_answered_without_telling_which_are_known(name: str, shown: str) -> None:
    """P-CALM: a name is shown only where it could be one; nothing a stranger writes comes back otherwise."""
    receipt = answers.unknown_endpoint(name)
    assert (receipt.status, receipt.reason) == (404, "unknown_endpoint")
    assert receipt.json() == {
        "outcome": "rejected",
        "reason": "unknown_endpoint",
        "error": f"no endpoint{shown} here; deliveries are posted to /{{endpoint}}",
    }


def test_a_wrong_method_hears_which_are_right() -> None:
    """``Allow`` as RFC 9110 asks for it, POST first."""
    assert dict(answers.wrong_method(frozenset()).headers)["allow"] == "POST"
    receipt = answers.wrong_method(frozenset({"HEAD", "GET"}))
    assert (receipt.status, receipt.reason) == (405, "method")
    assert receipt.headers == (*PLAIN, ("allow", "POST, GET, HEAD"))
    assert receipt.json() == {
        "outcome": "rejected",
        "reason": "method",
        "error": "deliveries come by POST; allowed here: POST, GET, HEAD",
    }


def test_too_large_a_body_hears_the_limit_and_its_setting() -> None:
    """Whoever runs the endpoint can find the setting from the provider's log."""
    receipt = answers.body_too_large(1024)
    assert (receipt.status, receipt.reason) == (413, "body_too_large")
    assert receipt.json() == {
        "outcome": "rejected",
        "reason": "body_too_large",
        "error": "the body is over 1024 bytes (setting body_bytes_max)",
    }


@pytest.mark.parametrize(("seconds", "header"), [(5, "5"), (0.1, "1"), (0, "1"), (1.01, "2"), (30.0, "30")])
def test_retry_after_is_a_whole_number_of_seconds_from_one(seconds: float, header: str) -> None:
    """RFC 9110, section 10.2.3; 0 would be an invitation to hammer."""
    receipt = answers.unavailable("code", "a sentence", retry_after=seconds)
    assert receipt.headers == (*PLAIN, ("retry-after", header))
    assert (receipt.status, receipt.outcome, receipt.reason) == (503, Outcome.UNAVAILABLE, "code")
    assert receipt.json() == {"outcome": "unavailable", "reason": "code", "error": "a sentence"}


FAILURES: list[tuple[InboxError, int, Outcome, str, str | None]] = [
    (
        HandlerNotYetError("secret", retry_in_seconds=30),
        503,
        Outcome.UNAVAILABLE,
        "not possible yet; send it again",
        "30",
    ),
    (
        HandlerTimeoutError("secret"),
        500,
        Outcome.FAILED,
        "the handler ran out of time; nothing is applied, send it again",
        None,
    ),
    (
        TransactionEndedError("secret"),
        500,
        Outcome.FAILED,
        "the handler ended its transaction; send it again",
        None,
    ),
    (
        HandlerFailedError("secret"),
        500,
        Outcome.FAILED,
        "the handler failed; nothing is applied, send it again",
        None,
    ),
    (
        KeyBusyError("secret"),
        503,
        Outcome.UNAVAILABLE,
        "the first copy is still in flight; send it again",
        "5",
    ),
    *(
        (error, 503, Outcome.UNAVAILABLE, "the database is not usable right now; send it again", "5")
        for error in (
            StoreUnavailableError("secret"),
            StatementError("secret"),
            ConflictError("secret"),
            SchemaVersionError("secret"),
        )
    ),
    (
        VerificationKeyError("secret"),
        503,
        Outcome.UNAVAILABLE,
        "the provider's key cannot be fetched right now; send it again",
        "5",
    ),
    (
        ConfigurationError("secret"),
        503,
        Outcome.UNAVAILABLE,
        "this endpoint is not set up; send it again",
        "5",
    ),
]


@pytest.mark.parametrize(
    ("error", "status", "outcome", "sentence", "after"),
    FAILURES,
    ids=[type(failure[0]).__name__ for failure in FAILURES],
)
def test_a_failure_is_answered_by_its_kind_with_a_constant_sentence(
    error: InboxError, status: int, outcome: Outcome, sentence: str, after: str | None
) -> None:
    """P-ACK, P-QUIET, P-CALM: never 2xx, and never what the exception says."""
    receipt = answers.failed(error)
    assert (receipt.status, receipt.outcome, receipt.reason) == (status, outcome, error.code)
    assert receipt.json() == {"outcome": outcome.value, "reason": error.code, "error": sentence}
    assert retry_after(receipt) == after
    assert receipt.headers[:3] == PLAIN
