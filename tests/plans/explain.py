"""Ask the server how it would run a statement of ours, and what it read when it did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg

from webhook_inbox.sql.statements import Statement


@dataclass(frozen=True)
class Node:
    """One step of the server's plan, with what it found when it ran."""

    facts: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """For instance ``Index Scan``."""
        return str(self.facts["Node Type"])

    @property
    def relation(self) -> str:
        """The table it reads or writes; empty where it does neither."""
        return str(self.facts.get("Relation Name", ""))

    @property
    def index(self) -> str:
        """The index it uses; empty where it uses none."""
        return str(self.facts.get("Index Name", ""))

    @property
    def rows_read(self) -> int:
        """How many rows it looked at, those it filtered away included."""
        found = self.facts["Actual Rows"] + self.facts.get("Rows Removed by Filter", 0)
        return round(float(found) * float(self.facts["Actual Loops"]))


def explain(
    conn: psycopg.Connection[Any], statement: Statement, parameters: Mapping[str, object] | None = None
) -> list[Node]:
    """Run *statement* in a transaction that is rolled back; every node of its plan that was executed."""
    given = {name: (parameters or {}).get(name) for name in statement.parameters}
    with conn.transaction(force_rollback=True):
        row = conn.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.text}".encode(), given).fetchone()
    assert row is not None
    nodes = [Node(facts) for facts in _walk(row[0][0]["Plan"])]
    return [node for node in nodes if node.facts["Actual Loops"]]


def _walk(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from _walk(below)


def sequential(nodes: list[Node]) -> set[str]:
    """The tables that are read from end to end."""
    return {node.relation for node in nodes if node.kind == "Seq Scan"}


def indexes(nodes: list[Node]) -> set[str]:
    """The indexes that are used."""
    return {node.index for node in nodes if node.index}
