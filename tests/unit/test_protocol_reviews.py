"""What is asked of the reviews, and of the endpoints that the database knows; and how their rows are told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.fixtures.plans import play
from tests.unit.test_protocol_look import SERVED
from webhook_inbox.model.endpoint_record import EndpointRecord
from webhook_inbox.model.limit import Limit
from webhook_inbox.protocol.endpoints import list_endpoints
from webhook_inbox.protocol.operate import Operator
from webhook_inbox.protocol.reviews import ReviewRecord, list_reviews, resolve_reviews

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
REVIEW = (4, 7, "shop", "evt_1", "look", '{"a": [1]}', 1_000_000, 2_000_000, "ada", "refunded")


def test_reviews_are_asked_for_by_what_is_said() -> None:
    """Open ones of any endpoint from the beginning, unless it is said otherwise."""
    played = play(list_reviews("a b"), [*SERVED, [REVIEW, (*REVIEW[:7], None, "", "")], None])
    assert played.names[4:] == ["begin", "list_reviews", "rollback"]
    usual = {"review_id": 0, "open": True, "endpoint": "", "after": 0, "limit": 1000}
    assert played.params("list_reviews") == [usual]
    said = {"review_id": 3, "only_open": False, "endpoint": "shop", "after": 2, "limit": 5}
    other = play(list_reviews("a b", **said), [*SERVED, [], None])  # type: ignore[arg-type]  # of several types
    assert other.params("list_reviews") == [
        {"review_id": 3, "open": False, "endpoint": "shop", "after": 2, "limit": 5}
    ]
    closed, still_open = played.value or ()
    assert closed == ReviewRecord(
        id=4,
        row=7,
        endpoint="shop",
        event_id="evt_1",
        summary="look",
        details={"a": [1]},
        created_at=EPOCH + timedelta(seconds=1),
        resolved_at=EPOCH + timedelta(seconds=2),
        resolved_by="ada",
        resolution="refunded",
    )
    assert (still_open.resolved_at, still_open.resolved_by) == (None, "")


def test_reviews_are_closed_in_one_transaction() -> None:
    """By whom, and with what came of it; those that were open are told."""
    played = play(resolve_reviews((4, 5), Operator("ada", "refunded"), "a b"), [*SERVED, [(5,)], None])
    assert played.names[4:] == ["begin", "resolve_reviews", "commit"]
    assert played.params("resolve_reviews") == [{"reviews": [4, 5], "actor": "ada", "reason": "refunded"}]
    assert played.value == frozenset({5})


def test_endpoints_are_told_with_their_pauses_and_limits() -> None:
    """One that nothing has come to has no provider; one that is not paused, or not limited, has no time."""
    rows = [
        ("billing", "stripe", None, None, 2_000_000, "bob", 4, 30, 60),
        ("new", "", 1_000_000, "ada", None, "", None, None, None),
        ("other", "github", *[None] * 7),
    ]
    played = play(list_endpoints("a b"), [*SERVED, rows, None])
    assert played.names[4:] == ["begin", "list_endpoints", "rollback"]
    assert played.value == (
        EndpointRecord(
            name="billing",
            provider="stripe",
            limit=Limit(concurrency=4, rate_events=30, rate_seconds=60),
            limited_at=EPOCH + timedelta(seconds=2),
            limited_by="bob",
        ),
        EndpointRecord(name="new", provider="", paused_at=EPOCH + timedelta(seconds=1), paused_by="ada"),
        EndpointRecord(name="other", provider="github"),
    )
