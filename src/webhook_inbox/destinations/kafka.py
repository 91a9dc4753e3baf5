"""
Produce messages to Kafka, acknowledged by all replicas in sync.

The key is the aggregate's id, so what is told of one aggregate stays in one partition; relayed in its order
(``ordered=True``), it is read in its order. Header names are those of every broker.

The producer is idempotent: what *it* sends again, it sends once. What the *relay* sends again, after it died or gave up
waiting, is to Kafka another record: the consumer knows it by its header ``message-id``.

librdkafka is the client because it gives up when it is told to. aiokafka's idempotent producer holds an unacknowledged
record for ever (measured, decision 0007), and would send it after the relay had: in another order, and to nobody's
knowledge.

Source: librdkafka, CONFIGURATION.md and INTRODUCTION.md, "Idempotent Producer", "Message reliability".
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from webhook_inbox.destinations.broker import (
    BATCH_MESSAGES_MAX,
    Naming,
    headers_of,
    let_go,
    name_for,
    reached,
    require,
    shown_name,
)
from webhook_inbox.errors import DestinationError
from webhook_inbox.model.failure import describe
from webhook_inbox.model.message import Failed, Limits, Message, Sent, Verdict

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message as Record, Producer

#: What a topic takes unless it is told otherwise (``max.message.bytes`` less the overhead of a batch).
MESSAGE_BYTES_MAX = 1_000_000
T = TypeVar("T")


class Kafka:
    """
    Produce each message to a topic, keyed by its aggregate's id.

    Args:
        servers: ``host:9092``, or several of one cluster with commas between.
        topic: Of all messages, or a function: ``lambda message: f"billing.{message.aggregate_type}"``. It must exist.
        message_bytes_max: Larger messages are not sent. Not above the topic's ``max.message.bytes``.
        seconds_max: Seconds to connect in, and to wait for an acknowledgement.
        options: Whatever else librdkafka is to be told: ``security.protocol``, ``sasl.username``, ``compression.type``.

    Raises:
        ConfigurationError: The extra ``kafka`` is not installed.
    """

    def __init__(
        self,
        servers: str,
        *,
        topic: Naming,
        message_bytes_max: int = MESSAGE_BYTES_MAX,
        seconds_max: float = 10.0,
        options: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        require("confluent_kafka", package="confluent-kafka", extra="kafka")
        self._settings = {**_settings(servers, message_bytes_max, seconds_max), **options}
        self._topic = topic
        self._seconds_max = seconds_max
        self._producer: Producer | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._fit = False
        self._trouble: KafkaError | None = None
        self.place = f"kafka {servers} {shown_name(topic)}"
        self.limits = Limits(batch_messages_max=BATCH_MESSAGES_MAX, send_seconds_max=2 * seconds_max + 3.0)

    async def open(self) -> None:
        """
        Make the producer, where there is none that is fit.

        Raises:
            DestinationError: No broker answers.
        """
        await self._connected()

    async def send(self, messages: Sequence[Message]) -> Sequence[Verdict]:
        """Produce *messages*, and wait for each one's acknowledgement."""
        producer = await reached(self._connected, self._seconds_max + 1.0)
        if isinstance(producer, Failed):
            return [producer] * len(messages)
        verdicts = await self._on_thread(partial(self._produced, messages, producer))
        # It still knows that a topic was not there, and what it still holds would go out after the relay sent it again.
        self._fit = all(isinstance(each, Sent) or each.permanent for each in verdicts)
        return verdicts

    async def close(self) -> None:
        """Drop what was not acknowledged, and let go of the producer and its thread."""
        producer, self._producer, self._fit = self._producer, None, False
        if producer is not None and self._thread is not None:
            producer.purge()  # so that whatever still waits for it, waits no longer
            await let_go(asyncio.wrap_future(self._thread.submit(producer.close)))
            self._thread.shutdown(wait=False)

    async def _connected(self) -> Producer:
        """Give the producer, which connects again by itself, once a broker has answered it."""
        if self._producer is not None and self._fit:
            return self._producer
        await self.close()
        from confluent_kafka import Producer

        self._trouble = None
        producer = self._producer = Producer({**self._settings, "error_cb": self._told})
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="webhook-inbox-kafka")
        await self._on_thread(partial(self._reach, producer))
        self._fit = True
        return producer

    def _on_thread(self, function: Callable[[], T]) -> Awaitable[T]:
        return asyncio.get_running_loop().run_in_executor(self._thread, function)

    def _reach(self, producer: Producer) -> None:
        from confluent_kafka import KafkaException

        try:
            producer.cluster_id(timeout=self._seconds_max)
        except KafkaException:
            producer.poll(0)  # what it was told meanwhile says more
            reason = self._trouble.name() if self._trouble else "timeout"
            raise DestinationError(f"no broker answers ({reason})") from None

    def _told(self, error: KafkaError) -> None:
        self._trouble = error  # and ask nothing of it: with a fatal one, the client has an exception pending

    def _produced(self, messages: Sequence[Message], producer: Producer) -> list[Verdict]:
        """Produce and wait; on a thread, as the client's calls block."""
        from confluent_kafka import KafkaException

        pending = Failed(f"no acknowledgement in {self._seconds_max:g} s")
        verdicts: list[Verdict] = [pending] * len(messages)
        self._trouble = None
        for index, message in enumerate(messages):
            if (failed := self._begun(message, producer, partial(self._ended, verdicts, index))) is not None:
                verdicts[index] = failed
        try:
            producer.flush(self._seconds_max + 1.0)
        except (KafkaException, SystemError):
            # A fatal error; where the client goes on calling back with it in hand, it becomes a SystemError.
            lost = Failed("the producer has failed, and is replaced")
            return [lost if each is pending else each for each in verdicts]
        return verdicts

    def _begun(self, message: Message, producer: Producer, ended: Callable[..., None]) -> Failed | None:
        from confluent_kafka import KafkaException

        topic = ""
        try:
            topic = name_for(message, self._topic)
            producer.produce(
                topic,
                message.payload,
                message.aggregate_id or None,
                headers={name: value.encode() for name, value in headers_of(message).items()},
                on_delivery=ended,
            )
        except KafkaException as error:
            return self._failed(error.args[0], topic, alone=True)
        except Exception as error:  # noqa: BLE001 - whatever the user's function raises is why it failed
            return Failed(str(describe(error)))
        return None

    def _ended(self, verdicts: list[Verdict], index: int, error: KafkaError | None, record: Record) -> None:
        alone = len(verdicts) == 1
        verdicts[index] = Sent() if error is None else self._failed(error, record.topic() or "", alone=alone)

    def _failed(self, error: KafkaError, topic: str, *, alone: bool) -> Failed:
        """
        Say what *error* means.

        Args:
            alone: Whether it is about this message; a broker's answer is about all that were in one request.
        """
        name = error.name()
        down = self._trouble is not None and self._trouble.name() == "_ALL_BROKERS_DOWN"
        match name:
            case "MSG_SIZE_TOO_LARGE" if alone:
                return Failed(f"it is larger than message_bytes_max, or than {topic} takes", permanent=True)
            case "MSG_SIZE_TOO_LARGE":
                return Failed(f"something in its request was larger than {topic} takes")
            case "UNKNOWN_TOPIC_OR_PART" | "_UNKNOWN_TOPIC":
                return Failed(f"there is no topic {topic}: create it")
            case "_MSG_TIMED_OUT" if down:
                return Failed("no broker can be reached", stop=True)
            case "_MSG_TIMED_OUT":
                return Failed(f"no acknowledgement in {self._seconds_max:g} s")
            case "_PURGE_INFLIGHT" | "_PURGE_QUEUE":
                return Failed("given up, as the relay closed the connection")
            case "CLUSTER_AUTHORIZATION_FAILED" | "TOPIC_AUTHORIZATION_FAILED":
                return Failed(f"the account may not write to {topic}", stop=True)
            case _:
                return Failed(f"Kafka refused it ({name})")


def _settings(servers: str, message_bytes_max: int, seconds_max: float) -> dict[str, Any]:
    return {
        "bootstrap.servers": servers,
        "client.id": "webhook-inbox",
        "acks": "all",
        "allow.auto.create.topics": False,  # a misspelt one would swallow messages in silence
        "enable.idempotence": True,
        "delivery.timeout.ms": round(seconds_max * 1000),
        "message.max.bytes": message_bytes_max,
        "partitioner": "murmur2_random",  # as the Java client's: a key is where other producers would put it
        "topic.metadata.propagation.max.ms": 1_000,  # a topic that is not there holds up its batch so long
        "log_level": 0,  # what it is told is said by the verdicts
    }
