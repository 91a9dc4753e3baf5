"""
Whatever is done with events, in whatever order, the database is what a model of it in plain Python says.

``make test`` takes a few walks, the same each time; ``WEBHOOK_INBOX_TEST_WALKS=5000`` takes that many, and others.
"""

from __future__ import annotations

from collections import Counter

import psycopg
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from tests.fixtures.arrivals import SCHEMA
from tests.fixtures.moves import MOVES, check_moves, watch
from tests.property.inbox_arrivals import IDS, INDEXES
from tests.property.inbox_stage import (
    RETENTION,
    age,
    found,
    passing,
    wanted,
)
from tests.property.inbox_work import Work
from tests.property.walks import WALKS, walk
from tests.schedules.stage import TABLES, claiming, rows, run
from webhook_inbox.model.event_filter import EventFilter
from webhook_inbox.model.states import State
from webhook_inbox.protocol.lease import pause, resume
from webhook_inbox.protocol.operate import DISCARD, REPLAY, REPLAY_PROCESSED, RETRY, Action, Operator, operate
from webhook_inbox.protocol.prune import prune
from webhook_inbox.protocol.reviews import resolve_reviews

ACTIONS = st.sampled_from([RETRY, REPLAY, REPLAY_PROCESSED, DISCARD])
BY = Operator("somebody", "a reason")
#: Moves that are not walked here; ``test_import``, ``test_erase`` and ``test_rehearse`` are about them.
ELSEWHERE = {"import_events", "erase_events", "rehearse_event"}


class InboxMachine(Work):
    """Do what operators do, let time pass, and compare the model with the database."""

    # Operators, and time.

    @rule(action=ACTIONS, event_id=st.none() | IDS)
    def an_operator_acts(self, action: Action, event_id: str | None) -> None:
        """With one event, or with all that the action is for."""
        self.count(action.name)
        meant = {event_id} if event_id else set(self.model.rows)
        done = run(self.conn, operate(action, EventFilter(event_id=event_id or ""), BY, SCHEMA))
        assert done.changed == self.model.operate(action, meant)

    @rule(index=INDEXES)
    def the_endpoint_is_paused(self, index: int) -> None:
        """Nothing is claimed until it is resumed."""
        self.count("pause")
        assert run(self.conn, pause("billing", "somebody", SCHEMA))
        assert not run(self.conn, pause("billing", "somebody else", SCHEMA))
        assert not run(self.conn, claiming(self._worker(index)))
        assert run(self.conn, resume("billing", "somebody", SCHEMA))
        assert not run(self.conn, resume("billing", "somebody else", SCHEMA))
        self.model.audited += 2

    @rule()
    def reviews_are_resolved(self) -> None:
        """All of them."""
        self.count("resolve")
        found = rows(self.conn, "SELECT id FROM webhooks.reviews WHERE resolved_at IS NULL")
        closed = run(self.conn, resolve_reviews([row["id"] for row in found], BY, SCHEMA))
        assert len(closed) == sum(row.reviews for row in self.model.rows.values())
        self.model.audited += len(closed)
        for row in self.model.rows.values():
            row.reviews = 0

    @rule(minutes=st.integers(1, 3))
    def minutes_pass(self, minutes: int) -> None:
        """What is to happen comes nearer."""
        self.count("minutes")
        run(self.conn, passing(minutes))
        self.model.pass_minutes(minutes)

    @rule(days=st.sampled_from([5, 10, 20]))
    def days_pass(self, days: int) -> None:
        """Bytes of what is old are forgotten, then keys; nothing that is not settled (P-KEEP)."""
        self.count("days, and prune")
        age(self.conn, days)
        self.model.pass_days(days)
        done = run(self.conn, prune(RETENTION, SCHEMA))
        assert (done.bodies, done.events) == self.model.prune()

    # What must hold.

    @invariant()
    def the_database_is_as_the_model(self) -> None:
        """Each row, what belongs to it, and the effects (P-ONCE, P-COUNT, P-STATE, P-KEEP)."""
        assert found(self.conn) == wanted(self.model)
        effects = rows(self.conn, "SELECT event_id, count(*) AS number FROM effects GROUP BY 1")
        assert {row["event_id"]: row["number"] for row in effects} == +self.model.effects
        # A message has one id for its event, handler and position: a second effect writes the same one.
        told = rows(self.conn, "SELECT payload ->> 'event' AS event_id FROM webhooks.outbox ORDER BY 1")
        assert [row["event_id"] for row in told] == sorted(+self.model.effects)
        (audited,) = rows(self.conn, "SELECT count(*) AS number FROM webhooks.audit")
        assert audited["number"] == self.model.audited

    @invariant()
    def a_key_runs_one_event_at_a_time(self) -> None:
        """And none that is behind one that is not settled."""
        mates = [row for row in self.model.rows.values() if row.order_key == "k"]
        assert sum(row.state is State.LEASED for row in mates) <= 1


def test_events_are_what_the_model_says(database: str, tally: Counter[str]) -> None:
    """Deliveries, workers, deaths, operators and time; and every move of an event is one of its table's."""
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute(TABLES)
        watch(conn)
        walk(InboxMachine, conn, tally)
        moved = check_moves(conn)["inbox"]
    unseen = set(MOVES["inbox"]) - set(moved) - ELSEWHERE
    assert len(unseen) <= (0 if WALKS else 3), f"{unseen} were never seen to move an event"
