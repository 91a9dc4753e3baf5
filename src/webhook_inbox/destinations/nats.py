"""
Publish messages to NATS JetStream, each under its id.

    PUB billing.events                           a request; the stream that takes the subject answers it
    Nats-Msg-Id: <message id>                    the stream drops what it has under this id, for its duplicate window
    <payload>
    ◄── {"stream": "BILLING", "seq": 17}         stored, as often as the stream has replicas: this is the confirmation

The *duplicate window* is the stream's own (two minutes, unless it was created with another). A message that is sent
again later than that, after an hour's outage of the database say, is stored twice, under the same id.

Source: NATS documentation, "JetStream", "Message Deduplication", "NATS API Reference: Error Response".
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from webhook_inbox.destinations.broker import (
    BATCH_MESSAGES_MAX,
    Naming,
    headers_of,
    let_go,
    name_for,
    reached,
    require,
    shown_name,
    shown_url,
)
from webhook_inbox.model.failure import describe
from webhook_inbox.model.message import Failed, Limits, Message, Sent, Verdict

if TYPE_CHECKING:
    from nats.aio.client import Client

_MESSAGE_TOO_LARGE, _OTHER_STREAM = 10054, 10060  # the server's error codes, errors.json of nats-server
# A header ends with its line; whatever else is no printable ASCII is escaped with it, as in a URL.
_UNPRINTABLE = re.compile(r"[^ -~]|%")


class Nats:
    """
    Publish each message to a subject that a JetStream stream takes.

    Args:
        servers: ``nats://host:4222``, or several of one cluster; ``tls://`` for TLS.
        subject: Of all messages, or a function: ``lambda message: f"billing.{message.event_type}"``.
        stream: The stream that has to take it; without, whichever does.
        seconds_max: Seconds to connect in, and to wait for an acknowledgement.
        options: Whatever else ``nats.connect`` is to be told: ``user_credentials``, ``nkeys_seed``, ``tls``.

    Raises:
        ConfigurationError: The extra ``nats`` is not installed.
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        *,
        subject: Naming,
        stream: str = "",
        seconds_max: float = 5.0,
        options: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        require("nats", package="nats-py", extra="nats")
        self._servers = [servers] if isinstance(servers, str) else list(servers)
        self._subject = subject
        self._stream = stream
        self._seconds_max = seconds_max
        self._options = options
        self._client: Client | None = None
        self.place = f"nats {','.join(map(shown_url, self._servers))} {shown_name(subject)}"
        self.limits = Limits(batch_messages_max=BATCH_MESSAGES_MAX, send_seconds_max=2 * seconds_max + 1.0)

    async def open(self) -> None:
        """Connect, where there is no connection."""
        await self._connected()

    async def send(self, messages: Sequence[Message]) -> Sequence[Verdict]:
        """Publish *messages*, all at once, and wait for each one's acknowledgement."""
        client = await reached(self._connected, self._seconds_max)
        if isinstance(client, Failed):
            return [client] * len(messages)
        return await asyncio.gather(*(self._published(each, client) for each in messages))

    async def close(self) -> None:
        """Close the connection."""
        client, self._client = self._client, None
        if client is not None:
            await let_go(client.close())

    async def _connected(self) -> Client:
        """Give the connection; one that is lost is not repaired but replaced."""
        if self._client is not None and self._client.is_connected:
            return self._client
        await self.close()
        from nats.aio.client import Client

        client = self._client = Client()
        settings: dict[str, Any] = {
            "allow_reconnect": False,  # it would keep what we have given up, and send it some time
            "max_reconnect_attempts": 1,  # of a server that cannot be reached at first, too
            "reconnect_time_wait": 0,
            "connect_timeout": self._seconds_max,
            "error_cb": _told_elsewhere,
            **self._options,
        }
        await client.connect(self._servers, **settings)
        return client

    async def _published(self, message: Message, client: Client) -> Verdict:
        subject = ""
        try:
            subject = name_for(message, self._subject)
            await client.jetstream().publish(
                subject,
                message.payload,
                timeout=self._seconds_max,
                stream=self._stream or None,
                headers=_headers(message),
            )
        except Exception as error:  # noqa: BLE001 - whatever the client raises is why it failed
            return self._failed(error, subject)
        return Sent()

    def _failed(self, error: Exception, subject: str) -> Failed:
        from nats import errors
        from nats.js import errors as stream_errors

        match error:
            case errors.MaxPayloadError():
                return Failed("it is larger than the server takes (max_payload)", permanent=True)
            case stream_errors.NoStreamResponseError():
                return Failed(f"no stream takes the subject {subject}: create one (nats stream add)")
            case stream_errors.APIError(err_code=code) if code == _MESSAGE_TOO_LARGE:
                return Failed("it is larger than its stream takes (max_msg_size)", permanent=True)
            case stream_errors.APIError(err_code=code) if code == _OTHER_STREAM:
                return Failed(f"the subject {subject} is taken by another stream than {self._stream}")
            case stream_errors.ServiceUnavailableError(err_code=code):
                return Failed(f"its stream is full, or has no leader (NATS error {code})", stop=True)
            case stream_errors.APIError(err_code=code):
                return Failed(f"its stream refused it (NATS error {code})")
            case errors.TimeoutError():
                return Failed(f"no acknowledgement in {self._seconds_max:g} s")
            case _:
                return Failed(str(describe(error)))


async def _told_elsewhere(_: Exception) -> None:
    """Leave it to the verdicts: the client would log each error, with its traceback."""


def _headers(message: Message) -> dict[str, str]:
    """Give the headers as NATS can carry them, percent-encoded where they have to be."""
    found = headers_of(message) | {"Nats-Msg-Id": str(message.id)}
    return {name: _UNPRINTABLE.sub(_escaped, value) for name, value in found.items()}


def _escaped(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode())
