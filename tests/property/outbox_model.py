"""
Say in plain Python what becomes of messages, whatever is done with them: what the database is compared with.

Time is counted down: minutes until a send is due and until it is given up, days since a message was published.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.property.inbox_model import Lease
from webhook_inbox.model.message import NOT_TRIED, Failed, MessageState, SendState
from webhook_inbox.model.routing import Outlet, Routing
from webhook_inbox.protocol.relay import Claimed

ATTEMPTS_MAX = 4
RETRY_MINUTES = 5
KEPT_DAYS = 10
DUE = (SendState.WAITING, SendState.RETRYING)
UNSENT = (*DUE, SendState.LEASED, SendState.DEAD)


@dataclass
class Message:
    """One message that was committed, as its row should be."""

    id: str
    event_type: str
    aggregate_id: str
    destination: str
    payload: bytes
    position: int
    state: MessageState = MessageState.WAITING
    published_days: int | None = None


@dataclass
class Send:
    """One message on its way to one destination, as its row should be; *died*: whether it has ever been dead."""

    message: Message
    outlet: Outlet
    state: SendState = SendState.WAITING
    attempts: int = 0
    claims: int = 0
    worker: int | None = None
    due_in: int = 0
    give_up_in: int | None = None
    failed: bool = False
    died: bool = False

    @property
    def order_key(self) -> str | None:
        """What it shares with those that it must not overtake."""
        ordered = self.outlet.ordered and self.message.aggregate_id
        return f"Invoice/{self.message.aggregate_id}" if ordered else None

    def confirm(self) -> None:
        """End a send that the destination has confirmed."""
        self.state, self.worker, self.failed = SendState.SENT, None, False

    def fail(self, failed: Failed, *, takes_others: bool) -> None:
        """End a send that is not known to have arrived, or was not tried."""
        counted = failed.permanent or not failed.stop
        timed = counted or (takes_others and failed is not NOT_TRIED)
        too_late = timed and self.give_up_in is not None and self.give_up_in <= 0
        if failed.permanent or too_late or (counted and self.attempts >= ATTEMPTS_MAX):
            self.state, self.died = SendState.DEAD, True
        else:
            fresh = not failed.reason and not self.failed
            self.state = SendState.WAITING if fresh else SendState.RETRYING
        if timed and self.give_up_in is None:
            self.give_up_in = RETRY_MINUTES
        self.due_in = 0 if failed.permanent else int((failed.retry_in_seconds or 0.0) / 60)
        self.attempts -= not counted
        self.failed |= bool(failed.reason)
        self.worker = None

    def take_back(self, *, blamed: bool) -> None:
        """Take it back from a relay whose lease has ended."""
        too_late = self.give_up_in is not None and self.give_up_in <= 0
        self.state = SendState.DEAD if blamed and too_late else SendState.RETRYING
        self.died |= self.state is SendState.DEAD
        if blamed and self.give_up_in is None:
            self.give_up_in = RETRY_MINUTES
        self.attempts -= not blamed
        self.worker, self.due_in, self.failed = None, 0, True


@dataclass
class Outbox:
    """
    All messages, and what they have come to.

    Attributes:
        messages: Those that were committed, by id.
        sends: By id and destination.
        arrived: How often each arrived, also one that was forgotten since.
        leases: By relay.
        audited: How many entries the audit has.
    """

    messages: dict[str, Message] = field(default_factory=dict)
    sends: dict[tuple[str, str], Send] = field(default_factory=dict)
    arrived: Counter[tuple[str, str]] = field(default_factory=Counter)
    leases: dict[int, Lease] = field(default_factory=dict)
    audited: int = 0

    @property
    def states(self) -> set[MessageState | SendState]:
        """Those in which something stands."""
        return {each.state for each in self.messages.values()} | {each.state for each in self.sends.values()}

    @property
    def alive(self) -> int:
        """How many relays have a lease that holds."""
        return sum(lease.alive for lease in self.leases.values())

    def route(self, routing: Routing) -> dict[str, int]:
        """Say where new messages go; give how many went where, those that no route names under ``""``."""
        told: Counter[str] = Counter()
        for message in self.messages.values():
            if message.state is not MessageState.WAITING:
                continue
            there = [each for each in routing.outlets if leads(routing, message, each)]
            for outlet in there:
                # Routed again, it goes on where it was.
                self.sends.setdefault((message.id, outlet.name), Send(message, outlet))
            message.state = MessageState.ROUTED if there else MessageState.UNROUTED
            told.update([each.name for each in there] or [""])
        return dict(told)

    def reroute(self, routing: Routing) -> None:
        """Have messages routed again where a route leads somewhere by now."""
        for message in self.messages.values():
            if message.state is MessageState.UNROUTED and any(
                leads(routing, message, each) for each in routing.outlets
            ):
                message.state = MessageState.WAITING

    def held(self, claimed: Claimed) -> Send | None:
        """Give the send of *claimed*, if the claim is still good (P-FENCE)."""
        send = self.sends.get((str(claimed.message.id), claimed.message.destination))
        good = send and (send.state, send.claims, send.worker) == (
            SendState.LEASED,
            claimed.token,
            claimed.worker_id,
        )
        return send if good else None

    def claimable(self, outlet: Outlet, relay: int) -> list[Send]:
        """Give what *relay* may claim: of an order key its head, while nothing of the key is under way."""
        if not self.leases[relay].alive:
            return []
        mine = [each for each in self.sends.values() if each.outlet is outlet]
        return [each for each in mine if each.state in DUE and each.due_in <= 0 and self._heads(each, mine)]

    @staticmethod
    def _heads(send: Send, mine: Iterable[Send]) -> bool:
        holding = (*DUE, SendState.DEAD) if send.outlet.dead_message == "hold" else DUE
        mates = [each for each in mine if send.order_key and each.order_key == send.order_key]
        return not any(
            each.state is SendState.LEASED
            or (each.message.position < send.message.position and each.state in holding)
            for each in mates
        )

    def claim(self, claims: Iterable[Claimed]) -> None:
        """Lease what was claimed; the attempt counts (P-COUNT)."""
        for each in claims:
            send = self.sends[str(each.message.id), each.message.destination]
            send.state, send.worker = SendState.LEASED, each.worker_id
            send.claims += 1
            send.attempts += 1

    def publish(self, ids: Iterable[str]) -> None:
        """Say of messages that they are published, where every destination has confirmed them."""
        for message in [self.messages[each] for each in ids if each in self.messages]:
            there = [each for each in self.sends.values() if each.message is message]
            if (
                there
                and all(each.state is SendState.SENT for each in there)
                and message.published_days is None
            ):
                message.published_days = 0

    def take_back(self, *, blaming: bool) -> list[Send]:
        """Take back what relays hold whose lease has ended, and give it."""
        gone = {
            relay for relay, lease in self.leases.items() if not lease.alive and (lease.stopped or blaming)
        }
        held = [each for each in self.sends.values() if each.worker in gone]
        for send in held:
            assert send.worker is not None
            send.take_back(blamed=not self.leases[send.worker].stopped)
        return held

    def retry(self, state: str, message_id: str) -> set[tuple[str, str, str]]:
        """Have an operator retry what is meant; give (id, destination, what it was) of each."""
        retrying = (state == SendState.RETRYING) or (not state and bool(message_id))
        sends = [
            each
            for each in self.sends.values()
            if (each.state is SendState.DEAD and state in {"", "dead"})
            or (each.state is SendState.RETRYING and retrying)
        ]
        unrouted = [
            each
            for each in self.messages.values()
            if each.state is MessageState.UNROUTED and state in {"", "unrouted"}
        ]
        meant = [each for each in sends if message_id in {"", each.message.id}]
        again = [each for each in unrouted if message_id in {"", each.id}]
        done = {(each.message.id, each.outlet.name, str(each.state)) for each in meant}
        done |= {(each.id, each.destination, "unrouted") for each in again}
        for send in meant:
            send.state, send.due_in, send.give_up_in, send.attempts = SendState.RETRYING, 0, None, 0
        for message in again:
            message.state = MessageState.WAITING
        self.audited += len(done)
        return done

    def pass_minutes(self, minutes: int) -> None:
        """Let time pass for what has something before it."""
        for send in self.sends.values():
            if send.state in UNSENT:
                send.due_in -= minutes
                send.give_up_in = None if send.give_up_in is None else send.give_up_in - minutes

    def prune(self, days: int) -> int:
        """Let messages grow old, and forget those that were published long ago (P-KEEP); give how many."""
        for message in self.messages.values():
            if message.published_days is not None:
                message.published_days += days
        old = [each for each in self.messages.values() if (each.published_days or 0) >= KEPT_DAYS]
        for message in old:
            del self.messages[message.id]
        self.sends = {key: each for key, each in self.sends.items() if each.message not in old}
        return len(old)


def leads(routing: Routing, message: Message, outlet: Outlet) -> bool:
    """Whether *message* is to go to *outlet*: it names it, or one of the rules does."""
    if message.destination:
        return message.destination == outlet.name
    kind = message.event_type
    return any(
        rule.to == outlet.name
        and (
            kind.startswith(rule.event_type[:-1])
            if rule.event_type.endswith("*")
            else kind == rule.event_type
        )
        for rule in routing.rules
    )
