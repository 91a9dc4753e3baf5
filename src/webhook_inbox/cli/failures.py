"""
Turn whatever ended a verb into one clear sentence and an exit code.

| code | means |
| --- | --- |
| 0 | good |
| 1 | the answer is bad: unhealthy, not acknowledged, the database cannot be used |
| 2 | usage or configuration: nothing was tried |
| 130 | interrupted from the keyboard |
| 141 | whoever read our output has gone |
"""

from __future__ import annotations

from webhook_inbox.cli.output import PROGRAM, say, visible
from webhook_inbox.errors import ConfigurationError, InboxError
from webhook_inbox.model.failure import describe

GOOD, BAD, USAGE = 0, 1, 2
INTERRUPTED, PIPE_CLOSED = 130, 141

# What our own statements may meet that an operator can mend; by SQLSTATE.
_REMEDIES = {
    "42501": "the database user lacks a privilege; to migrate, it needs CREATE on the database",
    "42P07": "the schema holds a table of that name that is not ours; choose another with --schema",
}


def report(error: InboxError) -> int:
    """Say *error*, whose text holds no secret and no payload, in one sentence; give the exit code."""
    states = [getattr(each, "sqlstate", None) for each in (error, error.__cause__)]
    remedy = next((_REMEDIES[state] for state in states if state in _REMEDIES), "")
    sentence = ": ".join(part for part in (PROGRAM, str(error), remedy) if part)
    for line in sentence.split("\n"):
        say(visible(line))
    return USAGE if isinstance(error, ConfigurationError) else BAD


def report_defect(error: BaseException) -> int:
    """Say where an unexpected exception came from; its text may quote anything, so it is left out (P-QUIET)."""
    failure, root = describe(error), error.__cause__ or error
    # The name of a module is Python's own word, and often all that whoever installed us needs.
    module = f" ({root.name})" if isinstance(root, ModuleNotFoundError) and root.name else ""
    say(
        f"{PROGRAM}: unexpected {failure.type}{visible(module)}; this is a defect, please report these lines:"
    )
    for frame in failure.frames:
        say(f"  {visible(frame)}")
    return BAD
