"""
List the ways that a delivery can go through the receiver, each with the end state it must reach, whatever dies on it.

A *path* makes *stories*: what is delivered before, the letter under which the receiver dies, and what must be true of
each event once the sender has heard an answer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.faults.sender import Letter, forged_headers, hmac_headers
from webhook_inbox.testing.points import Passing

PARTS = ("first", "second")


@dataclass(frozen=True, slots=True)
class Expected:
    """
    Say what must be there of one event.

    Attributes:
        state: Of the inbox row; empty: there must be no row.
        body: Its bytes.
        kept: Whether they must be there still; their digest must be in any case.
        applied: How often the handler's effect, with its outbox row, must be there.
        reviews: How many reviews.
        evidence: Bodies that must be kept as conflicting.
    """

    event_id: str
    state: str
    body: bytes = field(repr=False)
    applied: int = 0
    reviews: int = 0
    kept: bool = True
    evidence: tuple[bytes, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Story:
    """
    Hold one letter under which the receiver dies.

    Attributes:
        before: Delivered in peace.
        letter: Delivered until acknowledged; the receiver dies during the first attempt.
        first: Headers of that first attempt alone.
        rival: The event id whose key a rival transaction holds during the first attempt, on the letter's endpoint.
        held_at: Where the receiver is held until the rival has that key; None: the rival is there before.
        expected: What must be true in the end.
    """

    letter: Letter
    expected: tuple[Expected, ...]
    before: tuple[Letter, ...] = ()
    first: dict[str, str] = field(default_factory=dict)
    rival: str = ""
    held_at: Passing | None = None


Make: TypeAlias = Callable[[str, str], Story]


@dataclass(frozen=True, slots=True)
class Path:
    """
    Name one way through the receiver.

    Attributes:
        make: Gives a story for a kind of handler and a name that no other story has.
        kinds: The kinds of handlers for which it differs.
        fresh: Whether it is the way of the first delivery after a start.
        first_status: What the first attempt is answered where nobody dies.
    """

    name: str
    make: Make
    kinds: tuple[str, ...] = ("sync", "async")
    fresh: bool = False
    first_status: int = 200


def stripe_letter(event_id: str, event_type: str, kind: str, **data: object) -> Letter:
    """Make a Stripe event of *event_type*."""
    event = {"id": event_id, "object": "event", "type": event_type, "livemode": False, **data}
    return Letter(event_id, f"/stripe-{kind}", json.dumps(event).encode())


def unsigned_letter(event_id: str, kind: str, *, content: str) -> Letter:
    """Make a delivery whose event id stands in a header that the signature does not cover."""
    body = json.dumps({"type": "test.paid", "content": content}).encode()
    headers = {"x-event-id": event_id}
    return Letter(event_id, f"/unsigned-{kind}", body, headers, hmac_headers)


def batch_letter(name: str, kind: str, items: list[bytes]) -> Letter:
    """Make a body of several events."""
    return Letter(name, f"/batch-{kind}", b'{"events": [' + b", ".join(items) + b"]}", {}, hmac_headers)


def item(event_id: str, event_type: str) -> bytes:
    """Make one event of such a body."""
    return json.dumps({"id": event_id, "type": event_type}).encode()


def digest_id(body: bytes) -> str:
    """The id under which an unusable body is quarantined."""
    return "sha256:" + hashlib.sha256(body).hexdigest()


def applied(letter: Letter) -> Expected:
    """Expect *letter* to be processed, once."""
    return Expected(letter.event, "processed", letter.body, applied=1)


def _processed(kind: str, name: str) -> Story:
    letter = stripe_letter(f"evt_{name}", "test.paid", kind)
    return Story(letter, (applied(letter),))


def _duplicate(kind: str, name: str) -> Story:
    letter = stripe_letter(f"evt_{name}", "test.paid", kind)
    return Story(letter, (applied(letter),), before=(letter,))


def _ignored(kind: str, name: str) -> Story:
    letter = stripe_letter(f"evt_{name}", "test.ignore", kind)
    return Story(letter, (Expected(letter.event, "ignored", letter.body, reviews=1),))


def _dead(kind: str, name: str) -> Story:
    letter = stripe_letter(f"evt_{name}", "test.give_up", kind)
    return Story(letter, (Expected(letter.event, "dead", letter.body, reviews=1),))


def _failed(kind: str, name: str) -> Story:
    letter = stripe_letter(f"evt_{name}", "test.paid", kind)
    return Story(letter, (applied(letter),), first={"x-fault-handler": "fail"})


def _not_yet(kind: str, name: str) -> Story:
    letter = stripe_letter(f"evt_{name}", "test.paid", kind)
    return Story(letter, (applied(letter),), first={"x-fault-handler": "not-yet"})


def _unhandled(kind: str, name: str) -> Story:
    letter = stripe_letter(f"evt_{name}", "other.created", kind)
    return Story(letter, (Expected(letter.event, "ignored", letter.body),))


def _quarantined(kind: str, name: str) -> Story:
    body = f'{{"type": "test.paid", "note": "no id, {name}"}}'.encode()
    letter = Letter(digest_id(body), f"/stripe-{kind}", body)
    return Story(letter, (Expected(letter.event, "quarantined", body),))


def _conflicting(kind: str, name: str) -> Story:
    first = unsigned_letter(f"evt_{name}", kind, content="one")
    other = unsigned_letter(f"evt_{name}", kind, content="another")
    expected = Expected(first.event, "processed", first.body, applied=1, evidence=(other.body,))
    return Story(other, (expected,), before=(first,))


def _rejected(kind: str, name: str) -> Story:
    body = stripe_letter(f"evt_{name}", "test.paid", kind).body
    letter = Letter(
        f"evt_{name}", f"/stripe-{kind}", body, {}, forged_headers, answered=lambda status: status == 400
    )
    return Story(letter, (Expected(letter.event, "", b""),))


def _batch(kind: str, name: str) -> Story:
    duplicate = item(f"evt_{name}_b", "test.paid")
    unusable = f'{{"type": "test.paid", "note": "{name}"}}'.encode()
    items = [
        item(f"evt_{name}_a", "test.paid"),
        duplicate,
        item(f"evt_{name}_c", "test.fail"),
        item(f"evt_{name}_d", "test.give_up"),
        unusable,
        item(f"evt_{name}_e", "other.created"),
        item(f"evt_{name}_f", "test.paid"),
    ]
    expected = (
        Expected(f"evt_{name}_a", "processed", items[0], applied=1),
        Expected(f"evt_{name}_b", "processed", duplicate, applied=1),
        Expected(f"evt_{name}_c", "waiting", items[2]),
        Expected(f"evt_{name}_d", "dead", items[3], reviews=1),
        Expected(digest_id(unusable), "quarantined", unusable),
        Expected(f"evt_{name}_e", "ignored", items[5]),
        Expected(f"evt_{name}_f", "processed", items[6], applied=1),
    )
    before = (batch_letter(f"{name}-before", kind, [duplicate]),)
    return Story(batch_letter(name, kind, items), expected, before=before)


def _batch_with_rival(kind: str, name: str) -> Story:
    items = [item(f"evt_{name}_a", "test.paid"), item(f"evt_{name}_b", "test.paid")]
    expected = (
        Expected(f"evt_{name}_a", "processed", items[0], applied=1),
        Expected(f"evt_{name}_b", "processed", items[1], applied=1),
    )
    return Story(batch_letter(name, kind, items), expected, rival=f"evt_{name}_b")


def _batch_overtaken(kind: str, name: str) -> Story:
    items = [item(f"evt_{name}_a", "test.paid"), item(f"evt_{name}_b", "test.give_up")]
    expected = (
        Expected(f"evt_{name}_a", "processed", items[0], applied=1),
        Expected(f"evt_{name}_b", "dead", items[1], reviews=1),
    )
    letter = batch_letter(name, kind, items)
    # With its savepoint the event gives up its key.
    held_at = Passing("record_batch.rollback_to.after")
    first = {"x-fault-hold": str(held_at)}
    return Story(letter, expected, first=first, rival=f"evt_{name}_b", held_at=held_at)


PATHS = (
    Path("processed", _processed),
    Path("first after a start", _processed, fresh=True),
    Path("duplicate", _duplicate),
    Path("ignored by the handler", _ignored),
    Path("dead", _dead),
    Path("failed", _failed, first_status=500),
    Path("not yet", _not_yet, first_status=503),
    Path("batch", _batch),
    Path("batch with a rival", _batch_with_rival, first_status=503),
    Path("batch overtaken by a rival", _batch_overtaken, kinds=("async",), first_status=503),
    Path("conflicting body", _conflicting),
    Path("unhandled", _unhandled, kinds=("sync",)),
    Path("quarantined", _quarantined, kinds=("sync",)),
    Path("rejected", _rejected, kinds=("sync",), first_status=400),
)
CASES = [(path, kind) for path in PATHS for kind in path.kinds]
CASE_IDS = [f"{path.name}-{kind}" for path, kind in CASES]
