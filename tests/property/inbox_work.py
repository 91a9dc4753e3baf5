"""Have workers claim, run, fail, die and stop, on the database and in the model."""

from __future__ import annotations

from enum import StrEnum

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from tests.property.inbox_arrivals import INDEXES, SAYS, Arrivals
from tests.property.inbox_model import CRASHES_MAX, Lease
from tests.property.inbox_stage import (
    TO,
    DiedError,
    Says,
    dying,
    settled,
    work,
)
from tests.schedules.stage import SQL, Connection, claiming, run
from webhook_inbox.errors import HandlerError, HandlerNotYetError
from webhook_inbox.model.claim import Claim, WorkerId
from webhook_inbox.model.failure import describe
from webhook_inbox.model.states import State
from webhook_inbox.protocol.batch import process_batch
from webhook_inbox.protocol.lease import end, reap, register, renew
from webhook_inbox.protocol.process import RunOutcome, fail, give_back, process

_EXPIRE = "UPDATE webhooks.workers SET lease_ends_at = clock_timestamp() - interval '1 s' WHERE id = %s"


class Does(StrEnum):
    """What becomes of a worker."""

    DIES = "a lease ends"
    STOPS = "a worker stops"
    COMES_BACK = "a lease is renewed"

    def befall(self, conn: Connection, worker: WorkerId, lease: Lease) -> None:
        """Have it come over *worker* on the database, and over its *lease* in the model."""
        match self:
            case Does.DIES:
                conn.execute(_EXPIRE, [worker])
                lease.alive = False
            case Does.STOPS:
                run(conn, end(worker, SQL))
                lease.alive, lease.stopped = False, True
            case Does.COMES_BACK:
                assert run(conn, renew(worker, 120.0, SQL)) is not lease.stopped
                lease.alive = not lease.stopped


class Work(Arrivals):
    """Do what workers do."""

    # Workers.

    @initialize()
    def two_workers_begin(self) -> None:
        """Most walks need some."""
        for _ in range(2):
            self.a_worker_begins()

    @rule()
    def a_worker_begins(self) -> None:
        """In place of those that are no more."""
        if sum(lease.alive for lease in self.model.leases.values()) < 2:
            self.model.leases[run(self.conn, register("worker", 120.0, SQL))] = Lease()

    @rule(index=INDEXES, limit=st.integers(1, 3))
    def due_events_are_claimed(self, index: int, limit: int) -> None:
        """As many as are wanted, of those that the model has for claimable."""
        self.count("claim")
        worker = self._worker(index)
        may = {row.event_id for row in self.model.claimable(worker)}
        claims = run(self.conn, claiming(worker, limit))
        ids = {each.event.id for each in claims}
        assert ids <= may, f"claimed {ids - may}, which nobody may"
        assert len(claims) == min(limit, len(may)), f"claimed {ids} of {may}"
        self.model.claim(claims)
        self.claims += claims

    @precondition(lambda self: self.claims)
    @rule(index=INDEXES, says=SAYS, retry_in=st.integers(0, 2))
    def a_claim_is_run(self, index: int, says: Says, retry_in: int) -> None:
        """Also one that is lost by now: then nothing happens (P-FENCE)."""
        claim = self._claim(index)
        row = self.model.held(claim)
        self.count("run" if row else "run of a lost claim")
        try:
            outcome = run(self.conn, process(work(claim, says), TO))
        except HandlerError as error:
            assert row is not None, "P-FENCE: the handler of a lost claim was called"
            counts = not isinstance(error, HandlerNotYetError)
            self._failed(claim, error, costs_attempt=counts, retry_in=retry_in)
            return
        if row is None:
            assert outcome is RunOutcome.LEASE_LOST
            return
        assert str(outcome) == settled(says)
        row.settle(settled(says))
        row.reviews += says.reviews
        self.model.effects[row.event_id] += says.done

    @precondition(lambda self: self.claims)
    @rule(index=INDEXES, says=st.lists(SAYS, min_size=4, max_size=4))
    def claims_are_run_together(self, index: int, says: list[Says]) -> None:
        """All of one worker; whoever fails or steers takes itself back, and stays claimed."""
        self.count("batch")
        worker = self._claim(index).worker_id
        mine = [each for each in self.claims if each.worker_id == worker]
        batch = list({each.id: each for each in mine}.values())[:4]
        told = dict(zip([each.event.id for each in batch], says, strict=False))
        works = [work(each, told[each.event.id]) for each in batch]
        for each, outcome in zip(batch, run(self.conn, process_batch(works, TO)), strict=True):
            row = self.model.held(each)
            if row is not None and told[row.event_id].done:
                assert outcome is RunOutcome.PROCESSED
                row.settle(State.PROCESSED)
                row.reviews += told[row.event_id].reviews
                self.model.effects[row.event_id] += 1
            else:
                assert outcome is RunOutcome.NOT_RUN or isinstance(outcome, HandlerError)

    @precondition(lambda self: self.claims)
    @rule(index=INDEXES, after=st.integers(0, 2))
    def a_worker_dies_at_work(self, index: int, after: int) -> None:
        """Wherever that is before the commit, nothing of the run is left."""
        claim = self._claim(index)
        if self.model.held(claim) is None:
            return
        self.count("death")
        with pytest.raises(DiedError):
            run(self.conn, dying(process(work(claim, Says.ASKS), TO), after))

    @precondition(lambda self: self.claims)
    @rule(index=INDEXES)
    def a_claim_is_given_back(self, index: int) -> None:
        """Unrun, without cost."""
        self.count("give back")
        claim = self._claim(index)
        assert not run(self.conn, give_back([claim], TO))
        if (row := self.model.held(claim)) is not None:
            row.give_back()

    @rule(index=INDEXES, does=st.sampled_from(Does), reaped=st.booleans())
    def a_worker_is_away(self, index: int, does: Does, reaped: bool) -> None:
        """Its lease ends, with or without a word; or it comes back."""
        self.count(does)
        worker = self._worker(index)
        does.befall(self.conn, worker, self.model.leases[worker])
        if reaped:
            self.count("reap")
            run(self.conn, reap(CRASHES_MAX, SQL))
            self.model.reap()

    def _claim(self, index: int) -> Claim:
        """Give one that is held, or one that was lost of late."""
        held = [each for each in self.claims if self.model.held(each) is not None]
        lost = [each for each in self.claims if self.model.held(each) is None]
        some = held + lost[-2:]
        return some[index % len(some)]

    def _failed(self, claim: Claim, error: HandlerError, *, costs_attempt: bool, retry_in: int) -> None:
        row = self.model.rows[claim.event.id]
        row.fail(costs_attempt=costs_attempt, retry_in=retry_in)
        outcome = run(
            self.conn,
            fail(
                claim,
                describe(error),
                shown="it failed",
                seconds=0.1,
                retry_in_seconds=60.0 * retry_in,
                costs_attempt=costs_attempt,
                to=TO,
            ),
        )
        assert str(outcome) == row.state
