"""
Write log records whose facts are attributes, so that a filter or a JSON formatter need not read their text.

No text has a place for a payload, a secret or a signature (P-QUIET).
"""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass
from functools import cache

_log = logging.getLogger("webhook_inbox")
#: A place in a text, and the attribute that its value is in.
PLACE = re.compile(r"%\((\w+)\)s")
# What a sender chose stands in a text as JSON, so that it forges no line, and in its attribute as it is.
_AS_JSON = frozenset({"event_id", "event_type"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvent:
    """
    Describe one kind of log record.

    Attributes:
        name: Stable; what alerts are written against.
        level: Of ``logging``.
        text: With ``%(name)s`` places; each is an attribute of the record, too.
        meaning: What happened, and what to do about it.
    """

    name: str
    level: int
    text: str
    meaning: str

    @property
    def kept(self) -> bool:
        """Say whether anybody keeps records of this level; what goes into one need not be made otherwise."""
        return _log.isEnabledFor(self.level)

    @property
    def places(self) -> tuple[str, ...]:
        """Give the names of the places of the text, in order."""
        return _places(self.text)

    def log(self, *values: object, **facts: object) -> None:
        """
        Write one record.

        Args:
            values: For the places of the text, in order; an event's id and type as JSON.
            facts: What else the record says, in attributes alone.
        """
        if self.kept:
            told = dict(zip(self.places, map(_plain, values), strict=True))
            as_sent = {name: json.loads(str(told[name])) for name in _AS_JSON & told.keys()}
            extra = {"event": self.name, **told, **as_sent, **facts}
            _log.log(self.level, self.text, *([told] if told else []), extra=extra)


@cache
def _places(text: str) -> tuple[str, ...]:
    return tuple(PLACE.findall(text))


def _plain(value: object) -> str | int | float:
    """Give *value* as a record may keep it: no object that lives on, or that says more than its text."""
    return value if isinstance(value, str | int | float) else str(value)
