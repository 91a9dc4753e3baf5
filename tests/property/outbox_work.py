"""Have relays route, claim, send, fail, die and stop, on the database and in the model."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import psycopg
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from tests.fixtures.arrivals import SCHEMA
from tests.property.inbox_model import Lease
from tests.property.inbox_work import Does
from tests.property.outbox_model import ATTEMPTS_MAX, DUE, RETRY_MINUTES, Outbox, Send
from tests.property.walks import Walker
from tests.schedules.stage import SQL, clear, run
from webhook_inbox.model.claim import Retry, WorkerId
from webhook_inbox.model.message import NOT_TRIED, Failed, Limits, MessageState, Sent, Verdict
from webhook_inbox.model.routing import Outlet, Route, Routing
from webhook_inbox.protocol.lease import register
from webhook_inbox.protocol.relay import (
    Claimed,
    Relaying,
    claim_messages,
    reroute_messages,
    return_messages,
    route_messages,
    settle_messages,
)

#: A dead message holds its aggregate at the one, and lets the others pass at the other.
MAIL = Outlet(name="mail", limits=Limits(), ordered=True)
AUDIT = Outlet(name="audit", limits=Limits(), ordered=True, dead_message="skip")
OUTLETS = (MAIL, AUDIT)
NARROW = Routing(OUTLETS, [Route("Booked", "mail"), Route("Booked*", "audit")])
WIDE = Routing(OUTLETS, [Route("Booked", "mail"), Route("*", "audit")])
# No jitter: what is to be tried again is due at once, or when the destination says.
TO = Relaying(
    sql=SQL,
    schema=SCHEMA,
    retry=Retry(backoff_seconds_max=0.0, retry_seconds_max=60.0 * RETRY_MINUTES, attempts_max=ATTEMPTS_MAX),
)
INDEXES = st.integers(0, 7)


class Answers(StrEnum):
    """What becomes of a message that is sent, or is to be sent; a relay that dies settles nothing."""

    CONFIRMS = "it arrives and is confirmed"
    LOSES_ACK = "it arrives and the confirmation is lost"
    IS_FORGOTTEN = "it arrives and nobody settles it"
    REFUSES = "it is refused"
    REFUSES_FOR_GOOD = "it is refused for good"
    ASKS_TO_WAIT = "it is to come later"
    IS_DOWN = "the destination is down"
    IS_LEFT = "it is not tried"

    @property
    def arrives(self) -> bool:
        """Whether the destination has it then."""
        return self in {Answers.CONFIRMS, Answers.LOSES_ACK, Answers.IS_FORGOTTEN}

    @property
    def verdict(self) -> Verdict:
        """What the relay makes of it."""
        verdicts: dict[Answers, Verdict] = {
            Answers.CONFIRMS: Sent(),
            Answers.LOSES_ACK: Failed("no answer in time"),
            Answers.REFUSES: Failed("answered 500"),
            Answers.REFUSES_FOR_GOOD: Failed("answered 400", permanent=True),
            Answers.ASKS_TO_WAIT: Failed("answered 429", retry_in_seconds=120.0),
            Answers.IS_DOWN: Failed("connection refused", stop=True),
            Answers.IS_LEFT: NOT_TRIED,
        }
        return verdicts[self]


class Relays(Walker):
    """
    Do what relays do.

    Attributes:
        late: A second session, whose transaction may stay open while relays look.
    """

    what = "messages"
    late: psycopg.Connection[Any]

    def __init__(self) -> None:
        super().__init__()
        self.late.rollback()
        clear(self.conn)
        self.model = Outbox()
        self.claims: list[Claimed] = []
        self.last: dict[tuple[str, str], int] = {}

    @initialize()
    def two_relays_begin(self) -> None:
        """Most walks need some."""
        for _ in range(2):
            self.a_relay_begins(wide=False)

    @precondition(lambda self: self.model.alive < 2 or MessageState.UNROUTED in self.model.states)
    @rule(wide=st.booleans())
    def a_relay_begins(self, wide: bool) -> None:
        """In place of those that are no more; of a release that may have one route more."""
        if self.model.alive < 2:
            self.model.leases[run(self.conn, register("relay", 120.0, SQL))] = Lease()
        self.count("reroute")
        routing = WIDE if wide else NARROW
        assert run(self.conn, reroute_messages(routing, TO)) == {}
        self.model.reroute(routing)

    @precondition(lambda self: MessageState.WAITING in self.model.states)
    @rule(wide=st.booleans())
    def messages_are_routed(self, wide: bool) -> None:
        """All that are new."""
        self.count("route")
        routing = WIDE if wide else NARROW
        assert run(self.conn, route_messages(routing, TO)) == self.model.route(routing)

    @precondition(lambda self: self.model.states & {*DUE})
    @rule(index=INDEXES, outlet=st.sampled_from(OUTLETS), limit=st.integers(1, 3), trial=st.booleans())
    def due_messages_are_claimed(self, index: int, outlet: Outlet, limit: int, trial: bool) -> None:
        """As many as are wanted, of those that the model has for claimable; each as it was written (P-OUT)."""
        self.count("trial" if trial else "claim")
        relay, limit = self._relay(index), 1 if trial else limit
        may = {each.message.id: each for each in self.model.claimable(outlet, relay)}
        claims = run(self.conn, claim_messages(outlet, limit, relay, TO, trial=trial))
        ids = [str(each.message.id) for each in claims]
        assert set(ids) <= may.keys(), f"claimed {set(ids) - may.keys()}, which nobody may"
        assert len(ids) == min(limit, len(may)), f"claimed {ids} of {list(may)}"
        sends = [may[each] for each in ids]
        assert sends == sorted(sends, key=lambda send: send.message.position)
        for claimed, send in zip(claims, sends, strict=True):
            _check_written(claimed, send)
        if trial and sends:
            assert sends[0].claims == min(each.claims for each in may.values())
        self.model.claim(claims)
        self.claims += claims

    @precondition(lambda self: self.claims)
    @rule(
        index=INDEXES,
        answers=st.lists(st.sampled_from(Answers), min_size=3, max_size=3),
        others=st.booleans(),
    )
    def messages_are_sent(self, index: int, answers: list[Answers], others: bool) -> None:
        """Those of one relay and destination; who has lost the claim neither sends nor settles (P-FENCE)."""
        first = self._claim(index)
        outlet = next(each for each in OUTLETS if each.name == first.message.destination)
        batch = [each for each in self.claims if self._is_beside(each, first)]
        told = list(zip({each.message.id: each for each in batch}.values(), answers, strict=False))
        for claimed, answer in told:
            send = self.model.held(claimed)
            self.count(answer if send else "settling of a lost claim")
            if send and answer.arrives:
                self._arrives(send)
        settling = [(each, answer.verdict) for each, answer in told if answer is not Answers.IS_FORGOTTEN]
        self.claims = [each for each in self.claims if all(each is not done for done, _ in settling)]
        if settling:
            self._settle(outlet, settling, takes_others=others)

    def _settle(
        self, outlet: Outlet, settling: Sequence[tuple[Claimed, Verdict]], *, takes_others: bool
    ) -> None:
        held = [self.model.held(claimed) for claimed, _ in settling]
        settled = run(self.conn, settle_messages(outlet, settling, TO, takes_others=takes_others))
        for (_, verdict), send in zip(settling, held, strict=True):
            if send and isinstance(verdict, Sent):
                send.confirm()
            elif send and isinstance(verdict, Failed):
                send.fail(verdict, takes_others=takes_others)
        self.model.publish(str(each.message.id) for each, verdict in settling if isinstance(verdict, Sent))
        assert [each.state for each in settled] == [send and send.state for send in held]

    @precondition(lambda self: self.claims or not self.model.alive)
    @rule(index=INDEXES, does=st.sampled_from(Does), blaming=st.none() | st.booleans())
    def a_relay_is_away(self, index: int, does: Does, blaming: bool | None) -> None:
        """Its lease ends, with or without a word, or it comes back; then somebody may take back what it held."""
        self.count(does)
        relay = self._relay(index)
        does.befall(self.conn, relay, self.model.leases[relay])
        if blaming is not None:
            self.count("take back")
            returned = run(self.conn, return_messages(TO, blaming=blaming))
            sends = self.model.take_back(blaming=blaming)
            assert {row[:3] for row in returned} == {
                (each.outlet.name, each.message.id, each.state) for each in sends
            }

    def _relay(self, index: int) -> WorkerId:
        relays = list(self.model.leases)
        return WorkerId(relays[index % len(relays)])

    def _claim(self, index: int) -> Claimed:
        """Give one that is held, or one that was lost of late."""
        held = [each for each in self.claims if self.model.held(each) is not None]
        lost = [each for each in self.claims if self.model.held(each) is None]
        some = held + lost[-2:]
        return some[index % len(some)]

    @staticmethod
    def _is_beside(claimed: Claimed, other: Claimed) -> bool:
        return (claimed.worker_id, claimed.message.destination) == (
            other.worker_id,
            other.message.destination,
        )

    def _arrives(self, send: Send) -> None:
        """Hold that it overtakes nothing of its key, but for what was dead where the dead hold nobody."""
        self.model.arrived[send.message.id, send.outlet.name] += 1
        if send.order_key is None:
            return
        key = send.outlet.name, send.order_key
        in_order = send.message.position >= self.last.get(key, 0)
        assert in_order or (send.died and send.outlet.dead_message == "skip"), "a later one came first"
        self.last[key] = max(self.last.get(key, 0), send.message.position)


def _check_written(claimed: Claimed, send: Send) -> None:
    """Hold that it is the message that was committed, under its id, and that its attempt is counted."""
    message = claimed.message
    assert (message.event_type, message.aggregate_id, message.payload, message.attempt) == (
        send.message.event_type,
        send.message.aggregate_id,
        send.message.payload,
        send.attempts + 1,
    )
