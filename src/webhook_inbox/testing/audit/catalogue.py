"""List every check, in the order in which they are run; ``docs/how-to/audit.md`` shows them as they stand here."""

from __future__ import annotations

from webhook_inbox.testing.audit import (
    checks_body,
    checks_connection,
    checks_failure,
    checks_http,
    checks_repeats,
    checks_signature,
)
from webhook_inbox.testing.audit.verdict import Check

CHECKS: tuple[Check, ...] = (
    checks_body.GENUINE,
    checks_connection.ALONE,
    *checks_signature.CHECKS,
    *checks_body.CHECKS,
    *checks_repeats.CHECKS,
    *checks_connection.CHECKS,
    *checks_http.CHECKS,
    *checks_failure.CHECKS,
    *checks_http.LAST,
    *checks_connection.LAST,
    checks_signature.WITHOUT_EFFECT,
)


def table() -> str:
    """Give the checks as a table in Markdown."""
    rows = [f"| `{each.id}` | {each.weight} | {each.title} | {each.why} {each.remedy} |" for each in CHECKS]
    return "\n".join(
        [
            "| check | weight | a receiver that passes | else, and what to do |",
            "| --- | --- | --- | --- |",
            *rows,
        ]
    )
