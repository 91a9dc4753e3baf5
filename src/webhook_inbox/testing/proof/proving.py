"""Prove the handlers of an inbox on a database that nobody else needs."""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Sequence
from contextlib import closing

import psycopg
from psycopg.conninfo import conninfo_to_dict

from webhook_inbox.drivers.psycopg_settings import WHICH_SERVER, libpq_dsn, place
from webhook_inbox.errors import ConfigurationError, StoreUnavailableError
from webhook_inbox.inbox import Inbox
from webhook_inbox.model.settings import Settings
from webhook_inbox.protocol.probe import no_probe
from webhook_inbox.protocol.recording import Item, Recording
from webhook_inbox.runtime.database import drivers_for
from webhook_inbox.sql.statements import Statements
from webhook_inbox.testing.databases import apply_migrations
from webhook_inbox.testing.proof.places import Places
from webhook_inbox.testing.proof.report import Finding, Proof
from webhook_inbox.testing.proof.samples import Sample, sampled_items
from webhook_inbox.testing.proof.tables import Connection, Tables
from webhook_inbox.testing.proof.trials import Trials
from webhook_inbox.testing.schedules import Explorer
from webhook_inbox.testing.witness import is_for_tests

_WAIT_SECONDS = 5.0
_HANDLER_SECONDS_MAX = 30.0


def prove(
    inbox: Inbox,
    samples: Sequence[Sample],
    *,
    database: str | None = None,
    tables: Collection[str] = (),
    ignore: Collection[str] = (),
    second_ids: bool = True,
    orders_max: int = 24,
    seed: int = 0,
    seconds_max: float = 60.0,
) -> Proof:
    """
    Run the handlers of *inbox* with *samples* under duplicates, orders, concurrency and crashes.

    Args:
        inbox: Given a DSN, its handlers get connections to *database*; given a pool, an engine or Django's name, they
            get such as that makes, on event loops of their own.
        database: DSN of a throw-away database with the tables that the handlers write to: its name has the word
            ``test`` in it, and it holds no event of ours. It is left as it was. The user must be a superuser. None:
            that of *inbox*.
        tables: Those to compare; empty: all outside of our schema. The messages of the outbox always are.
        ignore: ``table.column`` that is not compared; see ``Tables``.
        second_ids: Whether an event under a second id must have no second effect.
        orders_max: How many orders to try.
        seed: Chooses the orders where there are more.
        seconds_max: How long to go on; what was left out is told.

    Returns:
        What was tried, and at most one finding of each kind.

    Raises:
        ConfigurationError: It is no such database, *inbox* is on another, or a sample cannot be used; the text says
            why.
        StoreUnavailableError: Nobody answers there.
    """
    if not samples:
        raise ConfigurationError("there is nothing to prove without a sample event")
    proof, started = Proof(seed=seed), time.monotonic()
    outside: dict[str, str] = {}
    items = sampled_items(inbox, samples, outside.setdefault)
    dsn = libpq_dsn(database or _own_dsn(inbox))
    with (
        closing(_throw_away(dsn, inbox.schema)) as conn,
        closing(Places(inbox, dsn)) as places,
        Explorer(dsn) as explorer,
    ):
        # What leads elsewhere is refused before anything is put aside.
        places.at(*{item.handlers[0].kind for item in items})
        kept = Tables(conn, inbox.schema, only=tables, ignore=ignore)
        try:
            trials = Trials(
                explorer, places, kept, items, proof=proof, ends_at=started + seconds_max, to=_to(inbox)
            )
            trials.run(random.Random(seed), orders_max, second_ids=second_ids)  # noqa: S311 - a choice, no secret
        finally:
            kept.forget()
    proof.not_tried += _not_tried(items)
    for handler, what in outside.items():
        said = f"{handler} calls {what}: it cannot be rolled back, and comes again with each attempt; use tx.emit"
        proof.findings.append(Finding("outside", said))
    proof.seconds = time.monotonic() - started
    return proof


def _own_dsn(inbox: Inbox) -> str:
    """Say where *inbox* connects to."""
    given = inbox._database  # noqa: SLF001 - as for its places
    dsn = drivers_for(given, settings=Settings(), probe=no_probe).find_dsn()
    if dsn is None:
        raise ConfigurationError(
            "what the inbox was given does not tell where it connects to: say database=..."
        )
    return dsn


def _to(inbox: Inbox) -> Recording:
    return Recording(
        sql=Statements.of(inbox.schema),
        wait_seconds=_WAIT_SECONDS,
        handler_seconds_max=_HANDLER_SECONDS_MAX,
    )


def _not_tried(items: Sequence[Item]) -> list[str]:
    """Name the handlers that cannot be stopped before each of their statements."""
    names = dict.fromkeys(each.name for item in items for each in item.handlers if each.pipeline)
    return [f"a stop before each statement of {name}, which has pipeline=True" for name in names]


def _throw_away(database: str, schema: str) -> Connection:
    """Give a connection to a database that may be written to, with our schema."""
    name = conninfo_to_dict(database).get("dbname")
    if not is_for_tests(str(name)):
        raise ConfigurationError(
            f"the database {name!r} is not named as one for tests (test_shop, shop_test): a proof writes to its tables"
        )
    try:
        conn: Connection = psycopg.Connection.connect(database, autocommit=True)
    except psycopg.OperationalError as error:
        raise StoreUnavailableError(f"no connection to {place(database)}") from error
    try:
        refusal = _refusal(conn, database, schema)
    except BaseException:
        conn.close()
        raise
    if refusal:
        conn.close()
        raise ConfigurationError(refusal)
    return conn


def _refusal(conn: Connection, database: str, schema: str) -> str:
    """Say why the database cannot be proved on; empty where it can be, and has our schema."""
    server = conn.execute(WHICH_SERVER).fetchone()
    if server != (conn.info.backend_pid,):
        return "a pooler stands before the database, behind which nobody sees who waits for whom: name the server"
    if conn.info.parameter_status("is_superuser") != "on":
        return f"the user {conn.info.user!r} is no superuser, so the tables cannot be put back past their triggers"
    apply_migrations(database, schema)
    if conn.execute(Statements.of(schema).witness_events.text.encode()).fetchone() is not None:
        return f"the database {conn.info.dbname!r} has events in it, which a proof would delete"
    return ""
