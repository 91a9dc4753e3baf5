"""The tables of moves and the statements are one: each that touches a state is in one, with its states."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from tests.fixtures.moves import MOVES, Pair
from webhook_inbox.model.message import MessageState, SendState
from webhook_inbox.model.moves import EVENT_MOVES
from webhook_inbox.model.states import State
from webhook_inbox.sql.statements import Statement, Statements

SQL = Statements.of("webhooks")
STATEMENTS: tuple[Statement, ...] = tuple(getattr(SQL, field.name) for field in fields(SQL))
#: ``empty_tables`` is for tests; ``seal_effect`` calls a function that does it.
ELSEWHERE = {"empty_tables"}
BY_A_FUNCTION = {("inbox", "seal_effect")}
#: Messages are deleted with their sends.
BY_CASCADE = {("sends", "prune_outbox"), ("sends", "erase_events")}


def writers(table: str) -> set[str]:
    """The statements that insert rows into *table*, delete them, or set their state."""
    name = rf'"webhooks"\.{table}\b'
    writes = re.compile(
        rf"INSERT INTO {name}|DELETE FROM {name}|UPDATE {name}(?: \w+)?\s+SET\s[^;]*?\bstate = "
    )
    sets_state = {each.name for each in STATEMENTS if writes.search(_updates_apart(each.text))}
    return sets_state - ELSEWHERE


def _updates_apart(text: str) -> str:
    """Put an end behind what each UPDATE sets: a state that is asked for in its WHERE is not set."""
    return re.sub(r"\b(WHERE|FROM|RETURNING)\b", r"; \1", text).replace("DELETE ; FROM", "DELETE FROM")


@pytest.mark.parametrize("table", MOVES)
def test_every_statement_that_touches_a_state_is_in_the_table(table: str) -> None:
    """And no other is: neither a new statement nor one that is gone goes unnoticed."""
    elsewhere = {statement for of, statement in BY_A_FUNCTION | BY_CASCADE if of == table}
    assert set(MOVES[table]) - elsewhere == writers(table)


@pytest.mark.parametrize(
    ("table", "states"),
    [("inbox", set(State)), ("sends", set(SendState) - {SendState.UNROUTED}), ("outbox", set(MessageState))],
)
def test_every_state_can_be_reached(table: str, states: set[str]) -> None:
    """From nothing, by the moves of its table; ``unrouted`` is a message's that has no send."""
    moves = frozenset[Pair]().union(*MOVES[table].values())
    reached: set[str | None] = {None}
    while more := {after for before, after in moves if before in reached} - reached:
        reached |= more
    assert reached - {None} == states


def test_what_is_settled_moves_only_where_somebody_says_so() -> None:
    """P-KEEP, P-STATE: what leads out of an end state is an operator, a redelivery, or retention; no worker."""
    ends = {State.PROCESSED, State.IGNORED, State.DEAD, State.QUARANTINED}
    out = {move.by for move in EVENT_MOVES if ends & set(move.begins)}
    said = {"operate_events", "erase_events", "revive_dead", "prune_events"}
    within_one_transaction = {"seal_effect", "rehearse_event"}
    assert out == said | within_one_transaction
    assert {before for move in EVENT_MOVES if not move.ends for before in move.begins} == {
        State.PROCESSED,
        State.IGNORED,
    }
