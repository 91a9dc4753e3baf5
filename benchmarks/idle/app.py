"""Open as many endpoints as ``BENCHMARK_ENDPOINTS`` says; their handler writes down when it began."""

from __future__ import annotations

import os
from typing import Any

import psycopg

from benchmarks.harness.events import SECRET
from webhook_inbox import Event, Inbox, Tx
from webhook_inbox.sources import Stripe

ENDPOINTS_VARIABLE = "BENCHMARK_ENDPOINTS"
TABLES = "CREATE TABLE begun (event_id text NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp())"


def make_inbox(dsn: str | None = None) -> Inbox:
    """Make the inbox; its endpoints are called ``endpoint-0`` and so on."""
    made = Inbox(dsn)
    for number in range(int(os.environ.get(ENDPOINTS_VARIABLE, "1"))):
        made.endpoint(f"endpoint-{number}", Stripe(SECRET)).on("*")(write_down)
    return made


async def write_down(tx: Tx[psycopg.AsyncConnection[Any]], event: Event) -> None:
    """Write the time of the server's clock: no time of the transaction's, which began before."""
    await tx.conn.execute("INSERT INTO begun (event_id) VALUES (%s)", (event.id,))


def __getattr__(name: str) -> Inbox:
    """Make ``inbox`` when a worker asks for it; whoever imports this for the rest needs no database."""
    if name != "inbox":
        raise AttributeError(name)
    return make_inbox()
