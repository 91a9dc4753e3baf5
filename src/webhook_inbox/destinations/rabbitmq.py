"""
Publish messages to RabbitMQ, each confirmed by the broker, none dropped in silence.

A channel in confirm mode answers each message: *ack*, once every queue that took it has it (a durable queue on disk, a
quorum queue on a majority); *nack*, where a queue could not; *return*, where no queue takes it, which without
``mandatory`` would be acknowledged and gone.

RabbitMQ looks for no duplicates: the consumer does, by ``message_id``.

Source: RabbitMQ documentation, "Consumer Acknowledgements and Publisher Confirms", "Publishers: Unroutable Message
Handling"; aio-pika raises for what is returned only with ``on_return_raises=True``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from webhook_inbox.destinations.broker import (
    BATCH_MESSAGES_MAX,
    CONTENT_TYPE,
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
from webhook_inbox.errors import DestinationError
from webhook_inbox.model.failure import describe
from webhook_inbox.model.message import Failed, Limits, Message, Sent, Verdict

if TYPE_CHECKING:
    from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractExchange, AbstractMessage

#: What RabbitMQ 4 takes unless it is told otherwise; older ones take 128 MiB.
MESSAGE_BYTES_MAX = 16 * 1024 * 1024


class RabbitMQ:
    """
    Publish each message to an exchange, persistent and mandatory.

    Args:
        url: ``amqp://user:password@host/vhost``; ``amqps://`` for TLS.
        exchange: It must exist; empty is the default one, whose routing keys are the queues' names.
        routing_key: Of all messages, or a function: ``lambda message: message.event_type``.
        message_bytes_max: Larger payloads are not sent: the broker would close the channel, and put all that is under
            way in doubt. Not above its ``max_message_size``.
        seconds_max: Seconds to connect in, and to wait for a confirmation.
        options: Whatever else ``aio_pika.connect`` is to be told: ``ssl_context``, ``client_properties``.

    Raises:
        ConfigurationError: The extra ``rabbitmq`` is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        exchange: str = "",
        routing_key: Naming,
        message_bytes_max: int = MESSAGE_BYTES_MAX,
        seconds_max: float = 5.0,
        options: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        require("aio_pika", package="aio-pika", extra="rabbitmq")
        self._url = url
        self._exchange_name = exchange
        self._routing_key = routing_key
        self._message_bytes_max = message_bytes_max
        self._seconds_max = seconds_max
        self._options = options
        self._connection: AbstractConnection | None = None
        self._channel: AbstractChannel | None = None
        self._exchange: AbstractExchange | None = None
        self.place = f"rabbitmq {shown_url(url)} {exchange or '(default exchange)'} {shown_name(routing_key)}"
        self.limits = Limits(batch_messages_max=BATCH_MESSAGES_MAX, send_seconds_max=2 * seconds_max + 1.0)

    async def open(self) -> None:
        """
        Connect, where there is no connection.

        Raises:
            DestinationError: There is no such exchange.
        """
        await self._connected()

    async def send(self, messages: Sequence[Message]) -> Sequence[Verdict]:
        """Publish *messages*, all at once, and wait for each one's confirmation."""
        exchange = await reached(self._connected, self._seconds_max)
        if isinstance(exchange, Failed):
            return [exchange] * len(messages)
        return await asyncio.gather(*(self._published(each, exchange) for each in messages))

    async def close(self) -> None:
        """Close the connection."""
        connection, self._connection, self._channel, self._exchange = self._connection, None, None, None
        if connection is not None:
            await let_go(connection.close())

    async def _connected(self) -> AbstractExchange:
        """Give the exchange on an open channel; a connection that is lost is not repaired but replaced."""
        if self._exchange is not None and self._channel is not None and not self._channel.is_closed:
            return self._exchange
        await self.close()
        import aio_pika

        self._connection = await aio_pika.connect(self._url, timeout=self._seconds_max, **self._options)
        channel = self._channel = await self._connection.channel(
            publisher_confirms=True, on_return_raises=True
        )
        self._exchange = channel.default_exchange
        if self._exchange_name:
            try:
                self._exchange = await channel.get_exchange(self._exchange_name)
            except aio_pika.exceptions.ChannelNotFoundEntity:
                raise DestinationError(
                    f"RabbitMQ has no exchange {self._exchange_name}: declare it, and bind a queue to it"
                ) from None
        return self._exchange

    async def _published(self, message: Message, exchange: AbstractExchange) -> Verdict:
        if (failed := too_large(message, self._message_bytes_max)) is not None:
            return failed
        key = ""
        try:
            key = name_for(message, self._routing_key)
            await exchange.publish(_wrapped(message), key, mandatory=True, timeout=self._seconds_max)
        except Exception as error:  # noqa: BLE001 - whatever the client raises is why it failed
            return self._failed(error, key)
        return Sent()

    def _failed(self, error: Exception, key: str) -> Failed:
        from aio_pika import exceptions

        match error:
            case exceptions.PublishError():
                where = f"of the exchange {self._exchange_name}" if self._exchange_name else "by its name"
                return Failed(f"no queue takes the routing key {key} {where}: declare and bind one")
            case exceptions.DeliveryError():
                return Failed("the broker refused it (nack): a queue is full, or failed")
            case exceptions.ChannelPreconditionFailed():
                return Failed("the broker closed the channel: something was larger than its max_message_size")
            case TimeoutError():
                return Failed(f"no confirmation in {self._seconds_max:g} s")
            case exceptions.AMQPError() | exceptions.ChannelInvalidStateError() | OSError():
                return Failed(f"the connection broke: {why(error)}")
            case _:
                return Failed(str(describe(error)))


def _wrapped(message: Message) -> AbstractMessage:
    import aio_pika

    return aio_pika.Message(
        message.payload,
        content_type=CONTENT_TYPE,
        delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
        message_id=str(message.id),
        timestamp=message.created_at,
        headers=dict(headers_of(message)),
    )
