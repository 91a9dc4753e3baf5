"""``prove`` proves the handlers of every kind of database: it finds the same faults, and has no other to tell of."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import psycopg
import pytest

from tests.fixtures.databases import GIVEN, Given
from tests.fixtures.planted import FAULTS, PAID, TABLES, Fault, books_once, inbox_with
from tests.fixtures.pooler import direct
from webhook_inbox.testing import Proof, prove

#: What only a trial of its own finds is planted here; what is found as soon as it is run, on every kind.
PLANTED_ALL = {"psycopg", "psycopg-async", "sessionmaker", "async-sessionmaker"}
ALL = [
    "in turn",
    "order",
    "second id",
    "copies at once",
    "crash",
    "at once",
]


@pytest.fixture
def shop(database: str) -> str:
    """A database with our schema and a shop's tables; a pooler before it would hide who waits."""
    with psycopg.connect(database) as conn:
        conn.execute(TABLES)
    return direct(database)


def proved(shop: str, given: Given, script: Any, **options: Any) -> Proof:
    """What a proof of *script* comes to on the database that *given* opens."""

    async def opened() -> Proof:
        async with given.open(shop) as database:
            inbox = inbox_with(script, given, database)
            return await asyncio.to_thread(prove, inbox, PAID, database=shop, **options)

    return asyncio.run(opened())


@pytest.mark.parametrize("given", GIVEN, ids=lambda given: given.label)
def test_a_good_handler_holds(shop: str, given: Given) -> None:
    """Every trial is run to its end on the user's own kind of connection, and none finds anything."""
    proof = proved(shop, given, books_once)
    assert proof.holds, str(proof)
    assert (proof.cut_short, proof.not_tried) == ([], [])
    assert list(proof.schedules) == ALL
    # The record, three statements of the handler, the commit; the reply of that one: of each event.
    assert proof.schedules["crash"] == 2 * (1 + 5 + 1), str(proof)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        pytest.param(given, fault, id=f"{given.label}-{fault.script.__name__}")
        for given in GIVEN
        for fault in FAULTS
        if (given.label in PLANTED_ALL or fault.trial == "in turn")
        and (given.is_async or fault.shows != "without await")
    ],
)
def test_a_fault_is_found(shop: str, given: Given, fault: Fault) -> None:
    """Each known fault is found by the trial that is there for it, with what is wrong in the end."""
    proof = proved(shop, given, fault.script, second_ids=fault.second_ids)
    found = {finding.trial: str(finding) for finding in proof.findings}
    assert fault.trial in found, str(proof)
    assert re.search(fault.shows, found[fault.trial])
