"""Bound the transactions in which handlers run, by limits that the server itself holds."""

from __future__ import annotations

from webhook_inbox.protocol.steps import Begin
from webhook_inbox.sql.statements import Statements


def handling(sql: Statements, *, handler_seconds_max: float, wait_seconds: float) -> Begin:
    """
    Give the step that opens a transaction for handlers.

    Args:
        handler_seconds_max: How long one of them may take.
        wait_seconds: How long our own statements may wait for somebody else's lock.
    """
    # The server's limit comes a second after ours, which can say better what happened.
    limit = handler_seconds_max + 1
    params = {"handler_ms": round(limit * 1000), "wait_ms": lock_ms(wait_seconds)}
    return Begin(sql.begin, params, seconds_max=limit)


def lock_ms(wait_seconds: float) -> int:
    """Give *wait_seconds* as the server's lock_timeout has it; 0 would mean "wait for ever"."""
    return max(1, round(wait_seconds * 1000))
