"""A commit is believed only if it is the transaction that was begun, on every driver and however a handler ends it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

import psycopg
import pytest

from tests.conformance.test_drivers_pool import assert_idle
from tests.fixtures.arrivals import item, recording
from tests.fixtures.drivers import Bench, Script
from tests.fixtures.worlds import DATABASE_ERRORS, constraint_of, savepoint_of, say, sqlstate_of
from webhook_inbox.errors import HandlerFailedError, TransactionEndedError
from webhook_inbox.model.states import Outcome
from webhook_inbox.protocol.record import record_batch, record_one

Steps: TypeAlias = Generator[Any, Any, None]
EFFECT = "INSERT INTO effect VALUES (1)"
OTHER_EFFECT = "INSERT INTO effect VALUES (2)"


def committed(witness: psycopg.Connection[Any]) -> dict[str, int]:
    """How many rows were committed to the user's table and to ours."""
    tables = {"effect": "effect", "inbox": "webhooks.inbox", "bodies": "webhooks.bodies"}
    counts = ", ".join(f"(SELECT count(*) FROM {table})" for table in tables.values())
    row = witness.execute(f"SELECT {counts}").fetchone()
    assert row is not None
    return dict(zip(tables, row, strict=True))


def says(*statements: str, swallow: bool = False) -> Script:
    """A handler that runs *statements*; with *swallow* it goes on after an error."""
    swallowed = DATABASE_ERRORS if swallow else ()

    def script(tx: Any, event: Any) -> Steps:
        for statement in statements:
            with suppress(*swallowed):
                yield say(tx.conn, statement)

    return script


#: Each of them ends, breaks or hides the transaction that it was given.
CRIMES: dict[str, Script] = {
    "COMMIT": says(EFFECT, "COMMIT"),
    "end, with a comment": says(EFFECT, "/* done */ end;"),
    "COMMIT AND CHAIN": says(EFFECT, "COMMIT AND CHAIN"),
    "COMMIT and go on": says(EFFECT, "COMMIT", EFFECT, swallow=True),
    "several in one": says(f"{EFFECT}; COMMIT; BEGIN; {EFFECT}"),
    "ROLLBACK": says(EFFECT, "ROLLBACK"),
    "ROLLBACK and go on": says("ROLLBACK", EFFECT),
    "ROLLBACK; BEGIN": says(EFFECT, f"ROLLBACK; BEGIN; {EFFECT}"),
    "ROLLBACK AND CHAIN": says("ROLLBACK AND CHAIN", EFFECT),
    "PREPARE TRANSACTION": says(EFFECT, "PREPARE TRANSACTION 'mine'", swallow=True),
    "RESET ALL; COMMIT": says(EFFECT, "RESET ALL", "COMMIT", swallow=True),
    "SET CONSTRAINTS ALL IMMEDIATE": says(EFFECT, "SET CONSTRAINTS ALL IMMEDIATE"),
    "swallow an error": says(EFFECT, "SELECT 1 / 0", swallow=True),
    "swallow an error and go on": says("SELECT 1 / 0", EFFECT, swallow=True),
    "an unknown savepoint, swallowed": says(EFFECT, "ROLLBACK TO SAVEPOINT nowhere", swallow=True),
}

#: What a handler may do with its transaction, and the event is processed.
RIGHTS: dict[str, Script] = {
    "nothing but write": says(EFFECT),
    "a savepoint left open": says("SAVEPOINT mine", EFFECT),
    "a savepoint undone and used again": says(
        "SAVEPOINT mine", OTHER_EFFECT, "ROLLBACK TO mine", EFFECT, "RELEASE mine"
    ),
    "an error contained in a savepoint": says(
        "SAVEPOINT mine", "SELECT 1 / 0", "ROLLBACK TO mine", EFFECT, swallow=True
    ),
    "constraints named": says(EFFECT, "SET CONSTRAINTS later IMMEDIATE"),
    "settings of its own": says(
        EFFECT, "SET LOCAL lock_timeout = '1s'", "SET LOCAL synchronous_commit = off"
    ),
    "every setting reset": says(EFFECT, "RESET ALL"),
    "nothing written any more": says(EFFECT, "SET TRANSACTION READ ONLY"),
    "another isolation level for what comes later": says(
        EFFECT, "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE"
    ),
}


@pytest.mark.parametrize("crime", CRIMES.values(), ids=CRIMES)
def test_a_handler_that_ends_its_transaction_fails_by_name(
    bench: Bench, effects: psycopg.Connection[Any], crime: Script
) -> None:
    """P-ONCE: nothing is applied, the failure says which handler, and the connections serve the next events."""
    handler = bench.handler(crime)
    with pytest.raises(TransactionEndedError) as caught:
        bench.run(lambda: record_one(item(handler), recording()))
    assert handler.name in str(caught.value)
    assert committed(effects) == {"effect": 0, "inbox": 0, "bodies": 0}
    serves_on(bench, effects)


@pytest.mark.parametrize("crime", ["COMMIT", "COMMIT AND CHAIN", "COMMIT and go on"])
def test_without_the_servers_own_refusal_a_handlers_commit_is_not_believed_either(
    bench: Bench, effects: psycopg.Connection[Any], crime: str
) -> None:
    """P-ONCE: where somebody has disabled our trigger, the seal still asks for the transaction of the mark."""
    effects.execute("ALTER TABLE webhooks.inbox DISABLE TRIGGER refuse_unsealed_effect")
    with pytest.raises(TransactionEndedError):
        bench.run(lambda: record_one(item(bench.handler(CRIMES[crime])), recording()))
    assert committed(effects) == {"effect": 1, "inbox": 1, "bodies": 1}, "what it committed has its mark"


@pytest.mark.parametrize("right", RIGHTS.values(), ids=RIGHTS)
def test_a_handler_that_keeps_its_transaction_is_believed(
    bench: Bench, effects: psycopg.Connection[Any], right: Script
) -> None:
    """P-ONCE: savepoints and settings are the handler's own affair; its effect commits, once, with the event."""
    effects.execute("ALTER TABLE once ADD CONSTRAINT later UNIQUE (n) DEFERRABLE INITIALLY DEFERRED")
    result = bench.run(lambda: record_one(item(bench.handler(right)), recording()))
    assert result.outcome is Outcome.PROCESSED
    assert effects.execute("SELECT n FROM effect").fetchall() == [(1,)]
    assert committed(effects) == {"effect": 1, "inbox": 1, "bodies": 1}
    serves_on(bench, effects)


@pytest.mark.parametrize("right", RIGHTS.values(), ids=RIGHTS)
def test_the_next_event_of_a_body_finds_nothing_of_what_a_handler_set(
    bench: Bench, effects: psycopg.Connection[Any], right: Script
) -> None:
    """P-FLOW: each handler's rights are its own; its mates are processed in the same transaction."""
    effects.execute("ALTER TABLE once ADD CONSTRAINT later UNIQUE (n) DEFERRABLE INITIALLY DEFERRED")
    scripts = [says(EFFECT), right, says(EFFECT)]
    items = [item(bench.handler(script), event_id=f"evt_{n}") for n, script in enumerate(scripts)]
    results = bench.run(lambda: record_batch(items, recording()))
    assert [result.outcome for result in results] == [Outcome.PROCESSED] * 3
    assert committed(effects) == {"effect": 3, "inbox": 3, "bodies": 3}
    serves_on(bench, effects)


@pytest.mark.parametrize("crime", CRIMES.values(), ids=CRIMES)
def test_no_event_of_a_body_is_acknowledged_where_one_handler_ended_the_transaction(
    bench: Bench, effects: psycopg.Connection[Any], crime: Script
) -> None:
    """P-ONCE: the savepoint around each event goes with the transaction; nothing of the body is stored by this run."""
    mates = [item(bench.handler(says(EFFECT)), event_id=event_id) for event_id in ("evt_0", "evt_2")]
    bad = item(bench.handler(crime), event_id="evt_1")
    with pytest.raises(TransactionEndedError):
        bench.run(lambda: record_batch([*mates, bad], recording()))
    assert committed(effects) == {"effect": 0, "inbox": 0, "bodies": 0}
    serves_on(bench, effects)


@pytest.mark.parametrize("statement", ["RELEASE SAVEPOINT", "ROLLBACK TO SAVEPOINT"])
def test_a_handler_that_ends_our_savepoint_fails_by_name(
    bench: Bench, effects: psycopg.Connection[Any], statement: str
) -> None:
    """P-ONCE: the savepoint around an event of a body is ours; without it nothing can be undone alone."""

    def script(tx: Any, event: Any) -> Steps:
        yield say(tx.conn, f'{statement} "{savepoint_of(tx.conn)}"')

    bad = item(bench.handler(script))
    with pytest.raises(TransactionEndedError):
        bench.run(lambda: record_batch([bad, item(event_id="evt_2")], recording()))
    assert committed(effects) == {"effect": 0, "inbox": 0, "bodies": 0}
    serves_on(bench, effects)


def test_a_deferred_constraint_that_fails_at_the_commit_is_the_handlers_failure(
    bench: Bench, effects: psycopg.Connection[Any]
) -> None:
    """P-ONCE: the user's own constraint refuses the COMMIT; the failure names the handler and the constraint."""
    effects.execute("ALTER TABLE effect ADD CONSTRAINT later UNIQUE (n) DEFERRABLE INITIALLY DEFERRED")
    handler = bench.handler(says(EFFECT, EFFECT))
    with pytest.raises(HandlerFailedError) as caught:
        bench.run(lambda: record_one(item(handler), recording()))
    assert handler.name in str(caught.value)
    assert (sqlstate_of(caught.value), constraint_of(caught.value)) == ("23505", "later")
    assert committed(effects) == {"effect": 0, "inbox": 0, "bodies": 0}
    effects.execute("ALTER TABLE effect DROP CONSTRAINT later")
    serves_on(bench, effects)


def test_a_handler_that_leaves_a_lesser_role_fails_by_name(
    bench: Bench, effects: psycopg.Connection[Any]
) -> None:
    """P-ONCE: a role that is not the one it was called with is named; with RESET ROLE the same handler is believed."""
    role = f"lesser_{effects.info.backend_pid}"
    effects.execute(f"CREATE ROLE {role}")
    try:
        effects.execute(f"GRANT INSERT ON effect TO {role}")
        leaves = bench.handler(says(f"SET LOCAL ROLE {role}", EFFECT))
        with pytest.raises(HandlerFailedError, match="RESET ROLE"):
            bench.run(lambda: record_one(item(leaves), recording()))
        assert committed(effects) == {"effect": 0, "inbox": 0, "bodies": 0}
        resets = bench.handler(says(f"SET LOCAL ROLE {role}", EFFECT, "RESET ROLE"))
        assert bench.run(lambda: record_one(item(resets), recording())).outcome is Outcome.PROCESSED
    finally:
        effects.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_the_commit_is_durable_whatever_the_handler_set(
    bench: Bench, effects: psycopg.Connection[Any]
) -> None:
    """P-ACK: a handler that turns synchronous_commit off turns it off for itself; the COMMIT waits for the disk."""
    effects.execute(
        """
        CREATE TABLE seen (synchronous_commit text);
        CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO seen VALUES (current_setting('synchronous_commit'));
            RETURN NULL;
        END $$;
        CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON effect DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION see();
        """
    )
    for level in ("off", "local", "remote_apply"):
        handler = bench.handler(says(f"SET LOCAL synchronous_commit = {level}", EFFECT))
        bench.run(partial(record_one, item(handler, event_id=level), recording()))
    assert effects.execute("SELECT * FROM seen").fetchall() == [("on",), ("on",), ("remote_apply",)]


def serves_on(bench: Bench, witness: psycopg.Connection[Any]) -> None:
    """See that the pool's connections record further events, and that none is left in a transaction."""
    before = committed(witness)["inbox"]
    for number in range(3):
        good = item(bench.handler(says(EFFECT)), event_id=f"evt_after_{number}")
        result = bench.run(partial(record_one, good, recording()))
        assert result.outcome is Outcome.PROCESSED
    assert committed(witness)["inbox"] == before + 3
    assert_idle(witness)
