"""
Whatever is done with messages, in whatever order, the database is what a model of it in plain Python says.

``make test`` takes a few walks, the same each time; ``WEBHOOK_INBOX_TEST_WALKS=5000`` takes that many, and others.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Any
from uuid import UUID

import psycopg
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from tests.fixtures.arrivals import SCHEMA
from tests.fixtures.moves import MOVES, check_moves, watch
from tests.property.inbox_stage import passing
from tests.property.outbox_model import KEPT_DAYS, Message, Send
from tests.property.outbox_work import INDEXES, TO, Relays
from tests.property.walks import WALKS, walk
from tests.schedules.stage import SQL, TABLES, rows, run
from webhook_inbox.model.message import MessageState, SendState
from webhook_inbox.protocol.lease import bookkeeping
from webhook_inbox.protocol.messages import MessageFilter, retry_messages
from webhook_inbox.protocol.operate import Operator
from webhook_inbox.protocol.outbox import derived_id, message_params
from webhook_inbox.protocol.relay import prune_outbox
from webhook_inbox.protocol.steps import Commit, One, Plan, Rollback

BY = Operator("somebody", "a reason")
#: Moves that are not walked here; ``test_erase`` is about them.
ELSEWHERE = {"erase_events"}
NUMBERS = st.integers(1, 8)
STATES = st.sampled_from(["", SendState.DEAD, SendState.RETRYING, SendState.UNROUTED])
_AGE = "UPDATE webhooks.outbox SET published_at = published_at - interval '{} days'"
_MESSAGES = (
    "SELECT id::text, state, published_at IS NOT NULL AS published FROM webhooks.outbox ORDER BY position"
)
_SENDS = """
    SELECT message_id::text AS id, destination, order_key, state, attempts, claims, worker_id,
           available_at <= clock_timestamp() AS due, give_up_at <= clock_timestamp() AS over,
           last_error IS NOT NULL AS failed
    FROM webhooks.sends ORDER BY position, destination
"""


class Fate(StrEnum):
    """What becomes of a message at once."""

    COMMITTED = "write"
    ROUTED = "write, and route"
    ROLLED_BACK = "write, and roll back"


class Kind(StrEnum):
    """What a message tells: two kinds that are always routed, one of them to both places, and one that may not be."""

    BOOKED = "Booked"
    BOOKED_LATE = "BookedLate"
    STRAY = "Stray"


def writing(params: dict[str, object], *, commits: bool) -> Plan[None]:
    """Write a message in a transaction of its own, as ``inbox.emit`` does in the user's."""
    yield bookkeeping(SQL)
    yield One(SQL.insert_outbox, params)
    yield Commit() if commits else Rollback()


class OutboxMachine(Relays):
    """Write messages, do what operators do, let time pass, and compare the model with the database."""

    def __init__(self) -> None:
        super().__init__()
        self.written_late: dict[str, Any] | None = None
        self.late_number = 0

    def teardown(self) -> None:
        """End the transaction that is open."""
        self.late.rollback()

    # Who writes.

    @rule(
        number=NUMBERS,
        kind=st.sampled_from(Kind),
        aggregate=st.sampled_from(["", "in_1", "in_2"]),
        destination=st.sampled_from(["", "", "mail", "gone"]),
        fate=st.sampled_from(Fate),
    )
    def a_message_is_written(
        self, number: int, kind: Kind, aggregate: str, destination: str, fate: Fate
    ) -> None:
        """Under its own id: a second one is the same; of a transaction that rolls back there is nothing (P-OUT)."""
        self.count(fate)
        commits = fate is not Fate.ROLLED_BACK
        # What may be routed late keeps no order with what was routed before.
        params = _params(f"m{number}", kind, "" if kind is Kind.STRAY else aggregate, destination)
        run(self.conn, writing(params, commits=commits))
        if commits:
            self._committed(params)
        if fate is Fate.ROUTED and MessageState.WAITING in self.model.states:
            self.messages_are_routed(wide=False)

    @precondition(lambda self: self.written_late is None)
    @rule(kind=st.sampled_from(Kind))
    def a_slow_transaction_writes(self, kind: Kind) -> None:
        """What comes after it may be committed, routed and sent before it."""
        self.count("write slowly")
        self.late_number += 1
        self.written_late = _params(f"late{self.late_number}", kind, "", "")
        self.late.execute(SQL.insert_outbox.text.encode(), self.written_late)

    @precondition(lambda self: self.written_late is not None)
    @rule(commits=st.booleans())
    def the_slow_transaction_ends(self, commits: bool) -> None:
        """It is not passed over (P-OUT)."""
        self.count("slow commit" if commits else "slow rollback")
        params, self.written_late = self.written_late, None
        assert params is not None
        if commits:
            self.late.commit()
            self._committed(params)
        else:
            self.late.rollback()

    # Operators, and time.

    @precondition(lambda self: self.model.states & {SendState.DEAD, SendState.RETRYING, SendState.UNROUTED})
    @rule(state=STATES, index=st.none() | INDEXES)
    def an_operator_retries(self, state: str, index: int | None) -> None:
        """One message, or all that are meant."""
        self.count("retry")
        ids = list(self.model.messages)
        message_id = ids[index % len(ids)] if index is not None and ids else ""
        meant = MessageFilter(state=state, message_id=message_id)
        done = run(self.conn, retry_messages(meant, BY, SCHEMA))
        assert set(done) == self.model.retry(state, message_id)

    @precondition(lambda self: self.model.states & {SendState.RETRYING, SendState.LEASED, SendState.DEAD})
    @rule(minutes=st.integers(1, 3))
    def minutes_pass(self, minutes: int) -> None:
        """What is to happen comes nearer."""
        self.count("minutes")
        run(self.conn, passing(minutes))
        self.model.pass_minutes(minutes)

    @precondition(lambda self: any(m.published_days is not None for m in self.model.messages.values()))
    @rule(days=st.sampled_from([5, 10]))
    def days_pass(self, days: int) -> None:
        """What was published long ago is forgotten, and nothing else (P-KEEP)."""
        self.count("days, and prune")
        self.conn.execute(_AGE.format(days).encode())
        assert run(self.conn, prune_outbox(86_400.0 * KEPT_DAYS, TO)) == self.model.prune(days)

    # What must hold.

    @invariant()
    def the_database_is_as_the_model(self) -> None:
        """Each message that was committed and no other, and each send of it (P-OUT, P-COUNT, P-KEEP)."""
        by_position = sorted(self.model.messages.values(), key=lambda message: message.position)
        assert rows(self.conn, _MESSAGES) == [
            {"id": each.id, "state": each.state, "published": each.published_days is not None}
            for each in by_position
        ]
        sends = sorted(self.model.sends.values(), key=lambda send: (send.message.position, send.outlet.name))
        assert rows(self.conn, _SENDS) == [_wanted(each) for each in sends]
        (audited,) = rows(self.conn, "SELECT count(*) AS number FROM webhooks.audit")
        assert audited["number"] == self.model.audited

    @invariant()
    def what_is_marked_has_arrived(self) -> None:
        """At least once, wherever it was to go; what is published, everywhere (P-OUT)."""
        for (message_id, destination), send in self.model.sends.items():
            if send.state is SendState.SENT:
                assert self.model.arrived[message_id, destination]
            elif send.message.published_days is not None:
                raise AssertionError(f"{message_id} is published, and {send.state} at {destination}")

    def _committed(self, params: dict[str, Any]) -> None:
        message_id = str(params["id"])
        if message_id in self.model.messages:
            return
        query = f"SELECT position FROM webhooks.outbox WHERE id = '{UUID(message_id)}'"
        (row,) = rows(self.conn, query)
        self.model.messages[message_id] = Message(
            id=message_id,
            event_type=params["event_type"],
            aggregate_id=params["aggregate_id"],
            destination=params["destination"],
            payload=params["payload"].encode(),
            position=row["position"],
        )


def _params(key: str, kind: Kind, aggregate: str, destination: str) -> dict[str, Any]:
    payload = {"told": f"{key} {kind} {aggregate}"}
    return message_params(
        derived_id(key),
        kind.value,
        payload,
        aggregate_type="Invoice" if aggregate else "",
        aggregate_id=aggregate,
        to=destination,
        headers={},
        inbox_id=None,
        what="a test",
    )


def _wanted(send: Send) -> dict[str, Any]:
    return {
        "id": send.message.id,
        "destination": send.outlet.name,
        "order_key": send.order_key,
        "state": send.state,
        "attempts": send.attempts,
        "claims": send.claims,
        "worker_id": send.worker,
        "due": send.due_in <= 0,
        "over": None if send.give_up_in is None else send.give_up_in <= 0,
        "failed": send.failed,
    }


def test_messages_are_what_the_model_says(database: str, tally: Counter[str]) -> None:
    """Writers, relays, deaths, operators and time; every move of a message is one of its tables' (P-OUT, P-FENCE)."""
    with psycopg.connect(database, autocommit=True) as conn, psycopg.connect(database) as late:

        class Machine(OutboxMachine):
            """On these two sessions."""

        Machine.late = late
        conn.execute(TABLES)
        watch(conn)
        walk(Machine, conn, tally)
        moved = check_moves(conn)
    for table in ("sends", "outbox"):
        unseen = set(MOVES[table]) - set(moved[table]) - ELSEWHERE
        assert len(unseen) <= (0 if WALKS else 3), f"{unseen} were never seen to move a row of {table}"
