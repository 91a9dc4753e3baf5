"""A worker that is killed amid an event of a limited endpoint takes its place along, and only until its lease ends."""

from __future__ import annotations

from tests.faults.invariants import until
from tests.faults.worker_bench import WorkerBench
from webhook_inbox.cli.database import run_plan
from webhook_inbox.model.limit import Limit
from webhook_inbox.protocol.limits import limit_endpoint
from webhook_inbox.protocol.operate import Operator

AT_ONCE = 2
#: The server itself keeps book of each moment at which more are leased; whoever claims sees what was committed before.
WATCH = f"""
CREATE TABLE too_many (events bigint);
CREATE FUNCTION count_leased() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO too_many SELECT count(*) FROM webhooks.inbox WHERE state = 'leased' HAVING count(*) > {AT_ONCE};
    RETURN NULL;
END $$;
CREATE TRIGGER count_leased AFTER UPDATE ON webhooks.inbox FOR EACH STATEMENT EXECUTE FUNCTION count_leased();
"""


def test_a_killed_worker_gives_its_place_up_with_its_lease(workers: WorkerBench) -> None:
    """Four workers, two places, SIGKILL of one that holds one: never more at once, and all is done (P-COUNT)."""
    bench = workers.on("one-sync", lease_seconds=1.0, poll_seconds=0.1, batch_events_max=1)
    bench.connection.execute(WATCH.encode())
    letters = [bench.letter("one-sync", f"evt_{number}", "test.wait_once") for number in range(6)]
    for letter in letters:
        bench.receive(letter)
        bench.expect(letter)
    limit = Limit(concurrency=AT_ONCE)
    assert run_plan(bench.dsn, lambda: limit_endpoint("one-sync", limit, Operator("ada"), "webhooks"))
    with bench.workers(4, drain=False) as servers:
        until(lambda: len(bench.journal()) == AT_ONCE, "as many begin as may", 20)
        (victim,) = [each for each in servers if each.pid == bench.journal()[0]["pid"]]
        victim.kill()
        until(lambda: len(bench.journal()) > AT_ONCE, "another begins in its place", 20)
        for letter in letters:
            bench.go(letter)
        until(lambda: not bench.unsettled(), "all is done", 30)
    assert bench.connection.execute("SELECT events FROM too_many").fetchall() == []
    bench.check()
