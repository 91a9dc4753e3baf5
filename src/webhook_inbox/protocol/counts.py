"""
Keep what leaves no row of its own as a few rows for every ten minutes.

They are about: what a process had counted and not written when it was killed is missing, and what it wrote is there
twice where it could not hear that it was committed. No promise rests on them.
"""

from __future__ import annotations

from collections.abc import Sequence

from webhook_inbox.model.count import Count
from webhook_inbox.protocol.lease import bookkeeping
from webhook_inbox.protocol.steps import Commit, One, Plan
from webhook_inbox.sql.statements import Statements


def add_counts(counts: Sequence[Count], sql: Statements) -> Plan[None]:
    """Add *counts*, of which no two are of one kind, to those of the ten minutes that are running."""
    yield bookkeeping(sql)
    yield One(
        sql.add_counts,
        {
            "endpoints": [count.endpoint for count in counts],
            "outcomes": [str(count.outcome) for count in counts],
            "reasons": [count.reason for count in counts],
            "numbers": [count.number for count in counts],
        },
    )
    yield Commit()
