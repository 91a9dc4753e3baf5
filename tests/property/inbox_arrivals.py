"""Have deliveries come in by every way, on the database and in the model."""

from __future__ import annotations

from enum import StrEnum

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.fixtures.arrivals import arrival, recording
from tests.property.inbox_model import Inbox, Row
from tests.property.inbox_stage import (
    Says,
    handlers,
    settled,
)
from tests.property.walks import Walker
from tests.schedules.stage import clear, run
from webhook_inbox.errors import HandlerError
from webhook_inbox.model.arrival import Arrival
from webhook_inbox.model.claim import Claim, WorkerId
from webhook_inbox.model.receipt import EventResult
from webhook_inbox.model.states import Origin, Outcome, State
from webhook_inbox.protocol.enqueue import enqueue, record_leased
from webhook_inbox.protocol.record import record_one
from webhook_inbox.protocol.recording import Item, outcome_of

# Two of a key, which keep their order, and two of none.
KEYS = {"evt_1": "k", "evt_2": "k", "evt_3": None, "evt_4": None}
IDS = st.sampled_from(list(KEYS))
SAYS = st.sampled_from(Says)
INDEXES = st.integers(0, 7)
RECORDING = recording()


class Comes(StrEnum):
    """What comes in, to be recorded for a worker."""

    DELIVERY = "queued delivery"
    OTHER_BODY = "queued delivery of another body"
    RECONCILED = "reconciled copy"
    UNHANDLED = "unhandled delivery"
    UNREADABLE = "unreadable delivery"

    def as_arrival(self, event_id: str) -> Arrival:
        """Give it as the receive plans meet it."""
        match self:
            case Comes.DELIVERY | Comes.OTHER_BODY:
                body = b"{}" if self is Comes.DELIVERY else b"{ }"
                return arrival(event_id, body=body, signed_id=False, order_key=KEYS[event_id])
            case Comes.RECONCILED:
                return arrival(event_id, body=b"copy", signed_id=False, origin=Origin.RECONCILE)
            case Comes.UNHANDLED:
                return arrival(event_id, settled=State.IGNORED)
            case Comes.UNREADABLE:
                return arrival(event_type="", body=b"?", settled=State.QUARANTINED).under_digest()


class Arrivals(Walker):
    """Do to the database what is done to the model."""

    what = "events"

    def __init__(self) -> None:
        super().__init__()
        clear(self.conn)
        self.model = Inbox()
        self.claims: list[Claim] = []

    # What comes in.

    @rule(event_id=IDS, comes=st.sampled_from(Comes), revives=st.booleans())
    def a_delivery_is_queued(self, event_id: str, comes: Comes, revives: bool) -> None:
        """New, a duplicate, or another body under a known id."""
        self.count(comes)
        came = comes.as_arrival(event_id)
        revive = frozenset({"billing"} if revives else ())
        (result,) = run(self.conn, enqueue([came], RECORDING, revive=revive))
        new = Row(came.key.event_id, came.settled or State.WAITING, came.body, came.origin, came.order_key)
        new.identified = came.settled is not State.QUARANTINED
        self._told(came, result, new, revives=revives)

    @rule(event_id=IDS, says=SAYS)
    def a_delivery_is_run_inline(self, event_id: str, says: Says) -> None:
        """A failure leaves nothing."""
        self.count("inline delivery")
        came = arrival(event_id)
        try:
            result = run(self.conn, record_one(Item(came, handlers({event_id: says})), RECORDING))
        except HandlerError:
            assert event_id not in self.model.rows
            assert says in {Says.FAILS, Says.NOT_YET}
            return
        new = Row(event_id, settled(says), came.body, attempts=1)
        if event_id not in self.model.rows:
            new.processed_days = 0 if says.done else None
            new.reviews = says.reviews
            self.model.effects[event_id] += says.done
        self._told(came, result, new)

    @rule(event_id=IDS, index=INDEXES)
    def a_delivery_is_leased(self, event_id: str, index: int) -> None:
        """In hybrid mode it is claimed by who receives it, unless that one's lease has ended."""
        self.count("hybrid delivery")
        worker = self._worker(index)
        came = arrival(event_id)
        recorded = run(self.conn, record_leased(came, worker, RECORDING))
        if isinstance(recorded, EventResult):
            self._told(came, recorded, Row(event_id, State.WAITING, came.body))
            assert event_id in self.model.rows
            return
        assert event_id not in self.model.rows
        assert self.model.leases[worker].alive, "P-CLOCK: claimed under a lease that has ended"
        self.model.rows[event_id] = Row(
            event_id, State.LEASED, came.body, attempts=1, claims=1, worker=worker
        )
        self.claims.append(recorded)

    def _worker(self, index: int) -> WorkerId:
        workers = list(self.model.leases)
        return WorkerId(workers[index % len(workers)])

    def _told(self, came: Arrival, result: EventResult, new: Row, *, revives: bool = False) -> None:
        """Hold that who sent *came* is told the truth; *new* is its row where it is the first copy."""
        known = self.model.rows.setdefault(new.event_id, new)
        if known is new:
            assert (result.outcome, result.state) == (outcome_of(new.state), new.state)
            return
        conflicts = not came.signed_id and came.origin == known.origin == Origin.DELIVERY
        if conflicts and came.body != known.body:
            known.other_bodies.add(came.body)
        outcome = Outcome.DUPLICATE
        if revives and known.state is State.DEAD:
            outcome, known.state = Outcome.QUEUED, State.RETRYING
            known.due_in, known.give_up_in, known.crashes = 0, None, 0
        assert (result.outcome, result.state) == (outcome, known.state)
