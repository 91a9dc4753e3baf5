"""
Answer the question "who is told?": one file a destination of the relay.

``destination.py`` says what a destination is, and what it must do to keep the promises. What a destination needs beside
the standard library is an extra, imported where it is first used.
"""

from __future__ import annotations

from webhook_inbox.destinations.call import Call
from webhook_inbox.destinations.destination import Destination
from webhook_inbox.destinations.http import Http
from webhook_inbox.destinations.kafka import Kafka
from webhook_inbox.destinations.nats import Nats
from webhook_inbox.destinations.rabbitmq import RabbitMQ
from webhook_inbox.destinations.redis import RedisStream
from webhook_inbox.model.message import Failed, Limits, Message, Sent, Verdict

__all__ = [
    "Call",
    "Destination",
    "Failed",
    "Http",
    "Kafka",
    "Limits",
    "Message",
    "Nats",
    "RabbitMQ",
    "RedisStream",
    "Sent",
    "Verdict",
]
