"""Say what a check is, and what can come of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from webhook_inbox.testing.audit.bench import Bench

Weight: TypeAlias = Literal["critical", "serious", "minor"]
State: TypeAlias = Literal["passed", "failed", "untried", "inapplicable"]
#: What is said of a receiver that can do nothing while it waits for a client.
SERIAL = "it serves one connection at a time"


@dataclass(frozen=True, slots=True)
class Verdict:
    """
    Hold what came of one check.

    Attributes:
        saw: What was seen, or why nothing was tried; never a secret, a signature or a payload (P-QUIET).
    """

    state: State
    saw: str


@dataclass(frozen=True, slots=True)
class Check:
    """
    Describe one check.

    Attributes:
        id: Its name.
        weight: ``critical``: events are lost, doubled or forged; ``serious``: so they are when more goes wrong.
        title: What a receiver that passes does.
        why: What becomes of one that does not.
        remedy: What to do.
        probe: Tries it.
        mistake: What the way in which it fails is known as, where it has a name.
    """

    id: str
    weight: Weight
    title: str
    why: str
    remedy: str
    probe: Callable[[Bench], Verdict]
    mistake: str = ""


def passed(saw: str) -> Verdict:
    """Give the verdict that all is well."""
    return Verdict("passed", saw)


def failed(saw: str) -> Verdict:
    """Give the verdict that it is not."""
    return Verdict("failed", saw)


def untried(why: str) -> Verdict:
    """Give the verdict that nobody knows: something was missing that a user can give."""
    return Verdict("untried", why)


def inapplicable(why: str) -> Verdict:
    """Give the verdict that the question does not arise for this source."""
    return Verdict("inapplicable", why)
