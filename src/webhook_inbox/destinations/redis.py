"""
Add messages to Redis streams.

    XADD billing [MAXLEN ~ n] * message-id <id> event-type <type> ... payload <JSON>

Redis looks for no duplicates: a message that is sent again is another entry, and the consumer knows it by its field
``message-id``. And it keeps as much as it is configured to: what it has confirmed may be lost with its process unless
it runs with ``appendonly yes`` and ``appendfsync always``, and with its machine unless a replica has it.

Source: Redis documentation, "Redis Streams", "XADD", "Redis persistence".
"""

from __future__ import annotations

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
    too_large,
    why,
)
from webhook_inbox.model.failure import describe
from webhook_inbox.model.message import Failed, Limits, Message, Sent, Verdict

if TYPE_CHECKING:
    from redis.asyncio import Redis

#: What Redis takes in one string, unless it is told otherwise (``proto-max-bulk-len``).
MESSAGE_BYTES_MAX = 512 * 1024 * 1024
# What is the matter with the server or the account, not with the message, by the word that its error begins with.
_SERVER = {
    "LOADING": "it is still loading its data",
    "MASTERDOWN": "its master is away",
    "MISCONF": "it cannot write to disk",
    "NOAUTH": "it wants a password",
    "NOPERM": "the account may not write there",
    "NOREPLICAS": "it has too few replicas",
    "OOM": "its memory is full",
    "READONLY": "it is a replica",
}


class RedisStream:
    """
    Add each message to a stream.

    Args:
        url: ``redis://user:password@host:6379/0``; ``rediss://`` for TLS.
        stream: Of all messages, or a function: ``lambda message: f"billing:{message.aggregate_type}"``.
        entries_max: About how many entries a stream keeps: Redis then deletes the oldest, *read or not*. None: all of
            them, until a consumer trims.
        message_bytes_max: Larger payloads are not sent: the server would close the connection, and put all that is
            under way in doubt. Not above its ``proto-max-bulk-len``.
        seconds_max: Seconds to connect in, and to wait for an answer.
        options: Whatever else ``Redis.from_url`` is to be told: ``ssl_ca_certs``, ``credential_provider``.

    Raises:
        ConfigurationError: The extra ``redis`` is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        stream: Naming,
        entries_max: int | None = None,
        message_bytes_max: int = MESSAGE_BYTES_MAX,
        seconds_max: float = 5.0,
        options: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        require("redis", package="redis", extra="redis")
        self._url = url
        self._stream = stream
        self._entries_max = entries_max
        self._message_bytes_max = message_bytes_max
        self._seconds_max = seconds_max
        self._options = options
        self._client: Redis | None = None
        self.place = f"redis {shown_url(url)} {shown_name(stream)}"
        self.limits = Limits(batch_messages_max=BATCH_MESSAGES_MAX, send_seconds_max=2 * seconds_max + 1.0)

    async def open(self) -> None:
        """See that the server answers."""
        _ = await self._connected()

    async def send(self, messages: Sequence[Message]) -> Sequence[Verdict]:
        """Add *messages* in one round trip."""
        client = await reached(self._connected, self._seconds_max)
        if isinstance(client, Failed):
            return [client] * len(messages)
        given = [self._entry(each) for each in messages]
        entries = [each for each in given if not isinstance(each, Failed)]
        answers = iter(await self._added(entries, client))
        return [each if isinstance(each, Failed) else next(answers) for each in given]

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await let_go(client.aclose())

    async def _connected(self) -> Redis:
        """Give the client, which connects again by itself, once the server has answered it."""
        if self._client is None:
            from redis.asyncio import Redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff

            settings: dict[str, Any] = {
                "socket_connect_timeout": self._seconds_max,
                "socket_timeout": self._seconds_max,
                "retry": Retry(NoBackoff(), 0),  # its own retries would add what may be there already
                **self._options,
            }
            self._client = Redis.from_url(self._url, **settings)
        await self._client.ping()
        return self._client

    def _entry(self, message: Message) -> tuple[str, dict[str, str | bytes]] | Failed:
        """Give the stream and the fields, or say why there are none."""
        if (failed := too_large(message, self._message_bytes_max)) is not None:
            return failed
        try:
            return name_for(message, self._stream), {**headers_of(message), "payload": message.payload}
        except Exception as error:  # noqa: BLE001 - whatever the user's function raises is why it failed
            return Failed(str(describe(error)))

    async def _added(self, entries: Sequence[tuple[str, Any]], client: Redis) -> list[Verdict]:
        pipeline = client.pipeline(transaction=False)
        for stream, fields in entries:
            # It is the pipeline that is given back, to be awaited by nobody.
            _ = pipeline.xadd(stream, fields, maxlen=self._entries_max, approximate=True)
        try:
            answers = await pipeline.execute(raise_on_error=False)
        except Exception as error:  # noqa: BLE001 - the answers are lost, whatever was added
            return [Failed(f"the connection broke: {why(error)}")] * len(entries)
        return [
            self._failed(answer, stream) if isinstance(answer, Exception) else Sent()
            for (stream, _), answer in zip(entries, answers, strict=True)
        ]

    def _failed(self, error: Exception, stream: str) -> Failed:
        word = str(getattr(error, "status_code", None) or str(error).partition(" ")[0])
        if word in _SERVER:
            return Failed(f"the server takes nothing: {_SERVER[word]} ({word})", stop=True)
        if word == "WRONGTYPE":
            return Failed(f"the key {stream} is no stream")
        return Failed(str(describe(error)))
