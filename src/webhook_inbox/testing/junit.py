"""Write JUnit's XML, which build servers read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

# What XML 1.0 has no way to write, section 2.2: a statement or a row may hold it.
_NO_CHARACTER = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Case:
    """
    Hold one test case.

    Attributes:
        name: Of what was tried.
        failure: What was found; empty: nothing.
        skipped: Why it was not tried; empty: it was.
    """

    name: str
    failure: str = ""
    skipped: str = ""

    def __str__(self) -> str:
        inner = ""
        if self.failure:
            inner = f"<failure>{escape(_written(self.failure))}</failure>"
        elif self.skipped:
            inner = f"<skipped message={quoteattr(_written(self.skipped))}/>"
        return f"<testcase name={quoteattr(_written(self.name))}>{inner}</testcase>"


def suite(name: str, cases: Sequence[Case]) -> str:
    """Give *cases* as the suite *name*; what XML cannot hold is written as U+FFFD."""
    failures = sum(bool(case.failure) for case in cases)
    skipped = sum(bool(case.skipped) and not case.failure for case in cases)
    totals = f'tests="{len(cases)}" failures="{failures}" skipped="{skipped}"'
    return f"<testsuite name={quoteattr(name)} {totals}>{''.join(map(str, cases))}</testsuite>"


def _written(text: str) -> str:
    return _NO_CHARACTER.sub("\ufffd", text)
