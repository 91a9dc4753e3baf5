"""Build the bytes that a provider signs from a template such as ``v0:{timestamp}:{body}``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias, get_args

from webhook_inbox.errors import ConfigurationError

Slot: TypeAlias = Literal["body", "timestamp", "id", "method", "url"]
SLOTS: tuple[Slot, ...] = get_args(Slot)
_PIECES = re.compile(r"\{([^{}]*)\}|([^{}]+)|[{}]")


@dataclass(frozen=True, slots=True)
class Template:
    """
    Hold the pieces of a signed content in order.

    Attributes:
        pieces: Literal bytes, and names of slots.
    """

    pieces: tuple[bytes | Slot, ...]

    def has(self, slot: Slot) -> bool:
        """Say whether the signature covers *slot*."""
        return slot in self.pieces

    def after(self, slot: Slot) -> bytes | None:
        """Give the literal that follows *slot*; None where it is not there, is last, or another slot follows."""
        for piece, following in pairwise(self.pieces):
            if piece == slot and isinstance(following, bytes):
                return following
        return None

    def touches(self, slot: Slot) -> bool:
        """Say whether another slot stands right before or right after *slot*, with no literal between."""
        return any(
            slot in {piece, following} and not isinstance(piece, bytes) and not isinstance(following, bytes)
            for piece, following in pairwise(self.pieces)
        )

    def fill(self, values: dict[Slot, bytes]) -> bytes:
        """Give the signed bytes; *values* has every slot of the template."""
        return b"".join([piece if isinstance(piece, bytes) else values[piece] for piece in self.pieces])


def template_of(text: str, *, setting: str) -> Template:
    """
    Read a template.

    Raises:
        ConfigurationError: An unknown or repeated slot, a stray brace, or no ``{body}``.
    """
    pieces: list[bytes | Slot] = []
    for piece in _PIECES.finditer(text):
        name, literal = piece.groups()
        slot = next((slot for slot in SLOTS if slot == name), None)
        if literal is not None:
            pieces.append(literal.encode())
        elif slot is not None and slot not in pieces:
            pieces.append(slot)
        else:
            known = ", ".join(f"{{{slot}}}" for slot in SLOTS)
            raise ConfigurationError(f"{setting} may hold each of {known} once, and no other braces")
    if "body" not in pieces:
        raise ConfigurationError(
            f"{setting} must hold {{body}}: a signature that leaves the body out proves nothing"
        )
    return Template(tuple(pieces))
