"""
Make the effect of a webhook commit once, with the event, in the user's own PostgreSQL.

A name is imported when it is first used (PEP 562): ``webhook-inbox --help`` and a shell's completion need none of
them, and would otherwise wait for the database driver.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from webhook_inbox._version import __version__

if TYPE_CHECKING:
    from webhook_inbox.drivers.django_database import Django
    from webhook_inbox.endpoint import Endpoint
    from webhook_inbox.inbox import Inbox
    from webhook_inbox.model.event import Event
    from webhook_inbox.model.headers import Headers
    from webhook_inbox.model.receipt import EventResult, Receipt
    from webhook_inbox.model.secret import Secret
    from webhook_inbox.model.states import Outcome, State
    from webhook_inbox.model.steering import GiveUp, Ignore, NotYet
    from webhook_inbox.protocol.handlers import Handlers
    from webhook_inbox.protocol.tx import Tx

__all__ = [
    "Django",
    "Endpoint",
    "Event",
    "EventResult",
    "GiveUp",
    "Handlers",
    "Headers",
    "Ignore",
    "Inbox",
    "NotYet",
    "Outcome",
    "Receipt",
    "Secret",
    "State",
    "Tx",
    "__version__",
]

_HOMES = {
    "drivers.django_database": ("Django",),
    "endpoint": ("Endpoint",),
    "inbox": ("Inbox",),
    "model.event": ("Event",),
    "model.headers": ("Headers",),
    "model.receipt": ("EventResult", "Receipt"),
    "model.secret": ("Secret",),
    "model.states": ("Outcome", "State"),
    "model.steering": ("GiveUp", "Ignore", "NotYet"),
    "protocol.handlers": ("Handlers",),
    "protocol.tx": ("Tx",),
}


def __getattr__(name: str) -> object:
    """Import a public *name* from its home, once: the next use finds it here."""
    for home, names in _HOMES.items():
        if name in names:
            found: object = getattr(import_module(f"{__name__}.{home}"), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names, those included that nobody has used yet."""
    return sorted({*globals(), *__all__})
