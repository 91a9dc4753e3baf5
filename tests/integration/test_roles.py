"""A delivery is received, worked, relayed, looked at and run again by users of whom each may do its part alone."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import psycopg
import pytest
from psycopg import sql

from tests.fixtures.postgres import PostgresServer
from tests.fixtures.receiving import STRIPE_SECRET, stripe, stripe_event
from webhook_inbox import Inbox
from webhook_inbox.cli.database import run_plan
from webhook_inbox.destinations import Call
from webhook_inbox.model.event_filter import EventFilter
from webhook_inbox.model.states import State
from webhook_inbox.protocol.look import list_events, show_event
from webhook_inbox.protocol.operate import RETRY, Operator, operate
from webhook_inbox.protocol.reviews import list_reviews, resolve_reviews
from webhook_inbox.protocol.status import read_backlog
from webhook_inbox.sql.roles import PARTS, role_names, roles_script
from webhook_inbox.testing.databases import apply_migrations, uri
from webhook_inbox.testing.signing import sign_stripe

As: TypeAlias = Callable[[str], str]


@pytest.fixture
def as_(postgres: PostgresServer) -> Iterator[As]:
    """Gives the DSN of a new database as the user has it who does one part and no other."""
    name, prefix = postgres.create(), f"t{secrets.token_hex(4)}"
    dsn = postgres.direct_dsn_of(name)
    apply_migrations(dsn)
    users = {part: f"{prefix}_{part}_user" for part in PARTS}
    with psycopg.connect(dsn, autocommit=True) as conn:
        for user in users.values():
            conn.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(user)))
        conn.execute(roles_script("webhooks", prefix=prefix, members=users.items()).encode())
        conn.execute("CREATE TABLE effect (event_id text)")
        conn.execute(sql.SQL("GRANT INSERT ON effect TO {}").format(sql.Identifier(users["worker"])))
    given = psycopg.conninfo.conninfo_to_dict(dsn)
    yield lambda part: uri(**{**given, "user": users[part]}) if part in users else dsn
    with psycopg.connect(dsn, autocommit=True) as conn:
        for role in (*users.values(), *role_names(prefix).values()):
            conn.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(sql.Identifier(role)))
            conn.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))
    postgres.drop(name)


def shop(dsn: str, told: list[str]) -> Inbox:
    """The same app for each; its handler has an effect, tells of it, and asks a person to look."""
    inbox = Inbox(dsn)
    endpoint = inbox.endpoint("shop", stripe(), attempts_max=1)

    @endpoint.on("invoice.*")
    async def book(tx: Any, event: Any) -> None:
        await tx.conn.execute("INSERT INTO effect VALUES (%s)", [event.id])
        await tx.emit("Booked", {"event": event.id})
        await tx.review("look at it")
        if event.type == "invoice.bad" and not told:
            raise ValueError

    inbox.destination("ledger", Call(lambda message: told.append(message.event_type)))
    inbox.route("Booked", to="ledger")
    return inbox


async def receive(inbox: Inbox, body: bytes) -> int:
    """The status that a delivery is answered."""
    headers = sign_stripe(body, STRIPE_SECRET, int(time.time()))
    return (await inbox.receive("shop", headers=headers, body=body)).status


def test_each_part_is_done_by_a_user_who_may_do_no_other(as_: As) -> None:
    """From the 200 to the effect, the message, the review, and a retry of what failed."""
    told: list[str] = []

    async def received() -> list[int]:
        inbox = shop(as_("receiver"), told)
        async with inbox.running():
            return [
                await receive(inbox, stripe_event()),
                await receive(inbox, stripe_event()),
                await receive(inbox, stripe_event("evt_2", type_="invoice.bad")),
                await receive(inbox, b'{"object": "event"}'),
            ]

    async def worked() -> None:
        inbox = shop(as_("worker"), told)
        async with inbox.running():
            await inbox.work(drain=True)

    async def relayed() -> None:
        inbox = shop(as_("relay"), told)
        async with inbox.running():
            await inbox.relay(drain=True)

    assert asyncio.run(received()) == [200] * 4
    asyncio.run(worked())
    asyncio.run(relayed())
    assert told == ["Booked"]
    backlog = run_plan(as_("reader"), lambda: read_backlog("webhooks"))
    (endpoint,) = backlog.endpoints
    assert endpoint.counts == {"dead": 1, "quarantined": 1}
    assert [(each.outcome, each.number) for each in backlog.last_hour] == [("duplicate", 1)]
    meant = EventFilter(states=(State.DEAD,))
    (dead,) = run_plan(as_("reader"), lambda: list_events(meant, "webhooks", limit=5))
    assert run_plan(as_("reader"), lambda: show_event(dead, "webhooks")).body is not None
    run_plan(as_("operator"), lambda: operate(RETRY, meant, Operator("ada", "mended"), "webhooks"))
    (review,) = run_plan(as_("operator"), lambda: list_reviews("webhooks", limit=5))
    run_plan(as_("operator"), lambda: resolve_reviews([review.id], Operator("ada"), "webhooks"))
    asyncio.run(worked())
    with psycopg.connect(as_("superuser")) as conn:
        effects = conn.execute("SELECT event_id FROM effect ORDER BY 1").fetchall()
        audited = conn.execute("SELECT action FROM webhooks.audit ORDER BY id").fetchall()
    assert effects == [("evt_1",), ("evt_2",)]
    assert audited == [("retry",), ("resolve",)]
