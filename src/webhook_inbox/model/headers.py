"""Read HTTP headers without losing a repeated one and without ever keeping a secret one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

HeaderPairs: TypeAlias = Iterable[tuple[str, str]]

# Credentials whatever the provider; sources add their own (P-QUIET).
SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization", "x-api-key"})


class Headers(Mapping[str, str]):
    """
    Look headers up without regard to letter case, in the order in which they were sent.

    Args:
        pairs: (name, value) in sending order; values decoded as latin-1, as HTTP servers hand them on.
    """

    __slots__ = ("_pairs",)

    def __init__(self, pairs: HeaderPairs = ()) -> None:
        self._pairs = tuple(
            [(name.lower(), value) for name, value in pairs]
        )  # a list is read faster than a generator

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Give every pair, names in lower case, repeated names included."""
        return self._pairs

    def all(self, name: str) -> tuple[str, ...]:
        """Give every value sent under *name*, in order; empty where there is none."""
        wanted = name.lower()
        return tuple(value for key, value in self._pairs if key == wanted)

    def without(self, names: Iterable[str]) -> Headers:
        """Give the headers that are not named in *names* (lower case)."""
        dropped = frozenset(names)
        left = Headers()
        left._pairs = tuple([pair for pair in self._pairs if pair[0] not in dropped])
        return left

    def __getitem__(self, name: str) -> str:
        wanted = name.lower()
        for key, value in self._pairs:
            if key == wanted:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(key for key, _ in self._pairs))

    def __len__(self) -> int:
        return len({key for key, _ in self._pairs})

    def __repr__(self) -> str:
        return f"Headers({', '.join(self)})"  # names only: a value may be a credential
