"""Make the effect of a webhook commit once, with the event, in the user's own PostgreSQL."""

from __future__ import annotations

from webhook_inbox._version import __version__
from webhook_inbox.inbox import Endpoint, Inbox
from webhook_inbox.model.event import Event
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.receipt import EventResult, Receipt
from webhook_inbox.model.secret import Secret
from webhook_inbox.model.states import Outcome, State
from webhook_inbox.model.steering import GiveUp, Ignore, NotYet
from webhook_inbox.protocol.handlers import Handlers
from webhook_inbox.protocol.tx import Tx

__all__ = [
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
