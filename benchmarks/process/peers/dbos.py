"""DBOS: durable workflows from a queue; the effect is a transaction step, whose record commits with it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import psycopg
from dbos import DBOS, AsyncSQLAlchemyDatasource, DBOSClient, DBOSConfig

from benchmarks.process.business import PERCENT, TABLES, Booking, Tally, does_business
from benchmarks.process.peers.program import bodies, run

_NAME, _VERSION, _QUEUE = "benchmark", "1", "events"


def _config(dsn: str, connections: int) -> DBOSConfig:
    return DBOSConfig(
        name=_NAME,
        system_database_url=dsn,
        application_version=_VERSION,
        sys_db_pool_size=connections,
        log_level="ERROR",
    )


def _setup(dsn: str, count: int) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute(TABLES)
    DBOS(config=_config(dsn, 4))
    DBOS.launch()
    DBOS.destroy()
    client = DBOSClient(system_database_url=dsn, application_name=_NAME)
    for some in bodies(count):
        for body in some:
            client.enqueue(
                {"workflow_name": "book", "queue_name": _QUEUE, "app_version": _VERSION}, json.loads(body)
            )
    client.destroy()


async def _work(dsn: str, settings: dict[str, Any]) -> None:
    concurrency = settings["concurrency"]
    engine = {"pool_size": concurrency, "max_overflow": 0}
    source = await AsyncSQLAlchemyDatasource.create(dsn, engine_kwargs=engine)
    DBOS(config=_config(dsn, settings["pool"]))
    tally, business = Tally(), does_business()

    @source.transaction(isolation_level="READ COMMITTED")
    async def have_effect(booking: Booking) -> None:
        connection = await source.sql_session().connection()
        for statement, params in zip(PERCENT, booking.params, strict=True):
            await connection.exec_driver_sql(statement, params)

    @DBOS.workflow(name="book")
    async def book(event: dict[str, Any]) -> None:
        if business:
            await have_effect(Booking.of(event))
        else:
            tally.count()

    DBOS.launch()
    await DBOS.register_queue_async(
        _QUEUE, worker_concurrency=concurrency, polling_interval_sec=settings["polling_ms"] / 1000
    )
    await asyncio.Event().wait()


if __name__ == "__main__":
    run(_setup, lambda dsn, settings: asyncio.run(_work(dsn, settings)))
