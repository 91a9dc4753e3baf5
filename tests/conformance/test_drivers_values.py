"""Every driver sends the same values, whatever its own placeholders and its connection's codecs are."""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import fields
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.conformance.conftest import OpenBench
from tests.fixtures.arrivals import item, recording
from tests.fixtures.benches import AsyncpgBench
from tests.fixtures.drivers import BEGIN, Bench
from tests.fixtures.receiving import ODD_SCHEMA
from webhook_inbox.drivers.asyncpg_wire import AS_TEXT
from webhook_inbox.drivers.parameters import numbered
from webhook_inbox.model.states import Outcome
from webhook_inbox.protocol.record import record_one
from webhook_inbox.protocol.steps import Commit, One, Plan
from webhook_inbox.sql.statements import Statement, Statements
from webhook_inbox.testing.databases import apply_migrations

ID = UUID("6f1c2b0e-5c5b-4d0e-9a53-3d2f8a1f7c11")
AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone(timedelta(hours=5, minutes=30)))
TIMES = '{"2026-01-01 21:34:05.678901+00",NULL,"9999-12-31 23:59:59.999999+00"}'
#: (type, what is sent, what the server makes of it, written as text)
VALUES: dict[str, tuple[str, object, str | None]] = {
    "text": ("text", "a'b\"c % %% $1 \\ é\N{GRINNING FACE}", "a'b\"c % %% $1 \\ é\N{GRINNING FACE}"),
    "no text": ("text", None, None),
    "bytea": ("bytea", b"\x00\xff%s", "\\x00ff2573"),
    "bytea[]": ("bytea[]", [b"", b"\x00", None], '{"\\\\x","\\\\x00",NULL}'),
    "text[]": ("text[]", ['a,"b', "", None], '{"a,\\"b","",NULL}'),
    "integer": ("integer", -7, "-7"),
    "bigint": ("bigint", 2**62, str(2**62)),
    "bigint[]": ("bigint[]", [1, 2**62], f"{{1,{2**62}}}"),
    "integer[]": ("integer[]", [], "{}"),
    "float8": ("float8", 0.1, "0.1"),
    "a whole float8": ("float8", 3, "3"),
    "float8[]": ("float8[]", [0.0, 1e300], "{0,1e+300}"),
    "boolean": ("boolean", True, "true"),
    "numeric": (
        "numeric",
        Decimal("123456789012345678901234567890.1234"),
        "123456789012345678901234567890.1234",
    ),
    "timestamptz": ("timestamptz", AT, "2026-01-01 21:34:05.678901+00"),
    "timestamptz[]": ("timestamptz[]", [AT, None, datetime.max.replace(tzinfo=UTC)], TIMES),
    "uuid": ("uuid", ID, str(ID)),
    "jsonb": ("jsonb", json.dumps({"a": [1, "x"], "n": 10**30}), f'{{"a": [1, "x"], "n": {10**30}}}'),
    "a jsonb string": ("jsonb", '"quoted"', '"quoted"'),
}


def test_a_value_comes_to_the_server_as_it_is(bench: Bench) -> None:
    """Twice in one statement, beside a percent sign and a dollar; rows come as plain tuples."""
    utc = Statement("test", "SELECT set_config('timezone', 'UTC', true)", ())

    def plan() -> Plan[dict[str, Any]]:
        found = {}
        yield BEGIN
        yield One(utc)
        for name, (type_, value, _) in VALUES.items():
            text = f"SELECT %(v)s::{type_}::text, %(v)s::{type_} IS NULL, 7 %% 4, '$1'"
            found[name] = yield One(Statement("test", text, ("v",)), {"v": value})
        yield Commit()
        return found

    expected = {name: (text, value is None, 3, "$1") for name, (_, value, text) in VALUES.items()}
    assert bench.run(plan) == expected


def test_an_inbox_whose_schema_has_any_name_works(
    bench: Bench, database: str, effects: psycopg.Connection[Any]
) -> None:
    """Quotes, percent signs, placeholders and dollars in the schema's name are its name, on every driver."""
    apply_migrations(database, ODD_SCHEMA)

    def script(tx: Any, event: Any) -> Generator[Any, Any, None]:
        yield tx.emit("Booked", {"of": event.id}, aggregate_type="Invoice", aggregate_id=7)
        yield tx.review("look", details={"a": 1})
        stale = yield tx.stale("k", 7)
        assert stale is False

    to = recording(ODD_SCHEMA)
    assert bench.run(lambda: record_one(item(bench.handler(script)), to)).outcome is Outcome.PROCESSED
    duplicate = bench.run(lambda: record_one(item(bench.handler(script)), to))
    assert duplicate.outcome is Outcome.DUPLICATE
    assert duplicate.first_received_at is not None


@pytest.mark.parametrize("open_bench", [AsyncpgBench], ids=["asyncpg"], indirect=True)
def test_asyncpg_can_prepare_every_statement_of_the_product(
    open_bench: OpenBench, database: str, effects: psycopg.Connection[Any]
) -> None:
    """The server can tell the type of every parameter, and every name has one number."""
    bench: Any = open_bench(database)
    statements = Statements.of("webhooks")

    async def prepare_all() -> None:
        async with bench.pool.acquire() as conn:
            for field in fields(statements):
                statement = getattr(statements, field.name)
                text, names = numbered(statement.text, AS_TEXT)
                prepared = await conn.prepare(text)
                assert set(names) == set(statement.parameters), field.name
                assert len(prepared.get_parameters()) == len(names), field.name

    bench.loop.run(prepare_all())


async def _wrong_codecs(conn: Any) -> None:
    """Teach a connection its user's own ways with the types that applications do this with."""
    for type_, encoder, decoder in (
        ("jsonb", json.dumps, json.loads),
        ("json", json.dumps, json.loads),
        ("uuid", str, str),
        ("numeric", lambda value: str(float(value)), float),
        ("timestamptz", lambda value: f"{value.year}-01-01", lambda text: text),
    ):
        await conn.set_type_codec(type_, encoder=encoder, decoder=decoder, schema="pg_catalog")


@pytest.mark.parametrize("open_bench", [AsyncpgBench], ids=["asyncpg"], indirect=True)
def test_a_users_own_codecs_change_nothing_of_ours(
    open_bench: OpenBench, database: str, effects: psycopg.Connection[Any]
) -> None:
    """A pool whose ``init`` teaches it jsonb, uuid or timestamptz serves; our JSON is not quoted twice."""
    bench = open_bench(database, pool={"init": _wrong_codecs})

    def script(tx: Any, event: Any) -> Generator[Any, Any, None]:
        yield tx.emit("Booked", {"of": event.id})
        assert (yield tx.conn.fetchval("SELECT '{\"a\": 1}'::jsonb")) == {"a": 1}

    given = item(bench.handler(script), created_at=AT)
    assert bench.run(lambda: record_one(given, recording())).outcome is Outcome.PROCESSED
    row = effects.execute(
        "SELECT o.payload, i.created_at, b.headers FROM webhooks.outbox o JOIN webhooks.inbox i ON i.id = o.inbox_id"
        " JOIN webhooks.bodies b ON b.id = i.id"
    ).fetchone()
    assert row == ({"of": "evt_1"}, AT, [["a", "b"]])
