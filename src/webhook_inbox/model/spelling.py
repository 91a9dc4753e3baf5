"""Find what somebody meant who has misspelt a name."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

# Below this, names that merely have a word in common would be taken for each other: ``concurrency_max`` and an option
# of the command line's, ``serve_concurrency_max``, are 0.83 alike; ``attemps_max`` and ``attempts_max`` 0.96.
_ALIKE = 0.84


def meant_by(name: str, known: Iterable[str]) -> str | None:
    """Give the one of *known* that *name* is most like, or that has its words in another order; None where none is."""
    names = list(known)
    words = sorted(name.split("_"))
    found = [each for each in names if sorted(each.split("_")) == words]
    found = found or get_close_matches(name, names, n=1, cutoff=_ALIKE)
    return found[0] if found else None
