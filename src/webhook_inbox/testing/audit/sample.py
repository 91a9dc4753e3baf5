"""
Make new events out of a sample: the same bytes, but for the members that must differ.

Every new value says that it is an audit's, as far as its form allows: ``evt_audit_1f2e3d4c_7``, a UUID that begins with
``a0d17``, a whole number that begins with 9 and has as many digits, but nine at least. Nothing else is written anew, so
that the receiver gets the provider's own spelling.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Literal, Self, TypeAlias
from uuid import UUID

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.testing.audit.leaves import Leaf, leaves

Id: TypeAlias = str | int
_PREFIX = re.compile(r"[A-Za-z]{1,8}_")
_TRUNK = 0xA0D17
# What PostgreSQL's integer and bigint hold: a number that fits in there is replaced by one that does.
_INTEGER_MAX = 2**31 - 1
_INTEGER_DIGITS, _BIGINT_DIGITS = 9, 18
# A number of fewer digits may be a count as well.
_TELLING_DIGITS = 6
NamedBy: TypeAlias = Literal["body", "text", "uuid"]


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """
    Hold one event that no receiver has seen.

    Attributes:
        id: For sources that name the event outside its body.
        body: What is sent, before it is signed.
        names: The fresh members' values by their names, and the event's id as ``event_id``.
    """

    id: str
    body: bytes
    names: Mapping[str, str]

    def with_member(self, text: str) -> bytes:
        """Give the body with one more member, written as *text*, at the head of its first object."""
        start = self.body.index(b"{") + 1
        comma = b"" if self.body[start:].lstrip().startswith(b"}") else b","
        return self.body[:start] + text.encode() + comma + self.body[start:]


@dataclass(frozen=True, slots=True)
class _Template:
    """
    Hold a payload, and what of it is new in each event.

    Attributes:
        fresh: The values of the fresh members, by their names.
        places: Where something new is written, in the order in which it stands.
    """

    text: str
    fresh: Mapping[str, Id]
    places: Sequence[Leaf]

    @classmethod
    def of(cls, body: bytes, names: Sequence[str]) -> Self:
        """
        Look for the members *names* in *body*.

        Raises:
            ConfigurationError: It is no JSON, or has no object in it.
        """
        try:
            text = body.decode()
            payload = json.loads(text)
        except (ValueError, RecursionError):
            raise ConfigurationError(
                "a payload is no JSON; an audit makes new events out of JSON only"
            ) from None
        if not isinstance(payload, dict | list) or "{" not in text:
            raise ConfigurationError("a payload is neither a JSON object nor an array of them")
        ids = [leaf for leaf in leaves(text) if _is_id(leaf.value)]
        named = {leaf.path: leaf.value for leaf in ids if leaf.path in names}
        telling = {value for value in named.values() if _is_telling(value)}
        places = [leaf for leaf in ids if leaf.path in named or leaf.value in telling]
        return cls(text, {name: named[name] for name in names if name in named}, places)

    def written(self, new: Callable[[Id], Id]) -> bytes:
        """Write the payload with *new* of each value that must differ."""
        parts, done = [], 0
        for leaf in self.places:
            parts += [self.text[done : leaf.start], json.dumps(new(leaf.value))]
            done = leaf.stop
        return "".join([*parts, self.text[done:]]).encode()


class Samples:
    """
    Make events out of *payloads*.

    Args:
        payloads: In the order in which they happen.
        fresh: The members that are made new; a name that one of them does not have is left out there.
        seed: Chooses the values.
        named_by: ``body``: the first of *fresh* is the event's id; ``text`` or ``uuid``: the source sends an id of this
            form in a header.

    Raises:
        ConfigurationError: A payload is no JSON, or holds no id that can be made new.
    """

    def __init__(
        self, payloads: Sequence[bytes], fresh: Sequence[str], *, seed: int, named_by: NamedBy
    ) -> None:
        self._run = sha256(f"audit {seed}".encode()).hexdigest()[:8]
        self._templates = [_Template.of(body, fresh) for body in payloads]
        self._named_by = named_by
        self._number = 0
        if named_by == "body" and not all(fresh and fresh[0] in each.fresh for each in self._templates):
            raise ConfigurationError(
                f"a payload has no member {fresh[0] if fresh else 'id'!r} that is a text or a whole number: "
                "name the one with the event's id, --fresh"
            )

    @property
    def run(self) -> str:
        """Give what the texts that this audit makes have in them."""
        return f"audit_{self._run}"

    @property
    def several(self) -> bool:
        """Say whether there is more than one payload, and so an order."""
        return len(self._templates) > 1

    def peek(self) -> AuditEvent:
        """Give the event that ``one`` will make next."""
        return self._made(0, self._number + 1)

    def one(self) -> AuditEvent:
        """Make a new event out of the first payload."""
        self._number += 1
        return self._made(0, self._number)

    def story(self) -> list[AuditEvent]:
        """Make a new event out of each payload; what they have in common, they have in common again."""
        self._number += 1
        return [self._made(place, self._number) for place in range(len(self._templates))]

    def _made(self, place: int, tale: int) -> AuditEvent:
        template = self._templates[place]
        new = partial(self._new, tale=tale)
        names = {name: str(new(old)) for name, old in template.fresh.items()}
        match self._named_by:
            case "body":
                event_id = next(iter(names.values()))
            case "text":
                event_id = str(new(f"event {place}"))
            case "uuid":
                event_id = str(new(str(UUID(int=place))))
        return AuditEvent(event_id, template.written(new), {**names, "event_id": event_id})

    def _new(self, old: Id, tale: int) -> Id:
        """Give the new value for *old*: the same for the same value of the same tale, else another."""
        number = int(sha256(f"{self._run} {tale} {old}".encode()).hexdigest(), 16)
        if isinstance(old, int):
            digits = _INTEGER_DIGITS if old <= _INTEGER_MAX else min(len(str(old)), _BIGINT_DIGITS)
            return int(f"9{number}"[:digits])
        if _is_uuid(old):
            return str(UUID(int=_TRUNK << 108 | number % (1 << 108), version=4))
        prefix = _PREFIX.match(old)
        return f"{prefix[0] if prefix else ''}{self.run}_{tale}_{number % 16**6:06x}"


def _is_id(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool) and bool(value)


def _is_telling(value: Id) -> bool:
    """Say whether *value* is the same thing wherever it stands, and not only where it was named."""
    digits = str(value).removeprefix("-")
    return not digits.isdecimal() or len(digits) >= _TELLING_DIGITS


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False
