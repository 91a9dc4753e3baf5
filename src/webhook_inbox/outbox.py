"""Tell others of what was committed: where messages go, how they get into the outbox, and who sends them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, overload
from uuid import UUID

from webhook_inbox.destinations.destination import Destination
from webhook_inbox.drivers.users_connection import execute_on
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.claim import Retry
from webhook_inbox.model.message import SendState
from webhook_inbox.model.routing import DeadMessage, Outlet, Route, Routing
from webhook_inbox.model.settings import Settings
from webhook_inbox.protocol.outbox import (
    AsyncConnection,
    SyncConnection,
    current_trace,
    keyed_id,
    message_params,
)
from webhook_inbox.protocol.relay import Relaying
from webhook_inbox.runtime.database import Drivers
from webhook_inbox.runtime.flows import AsyncFlows
from webhook_inbox.runtime.heartbeat import Heartbeat
from webhook_inbox.runtime.relay import Relay
from webhook_inbox.runtime.service import Service
from webhook_inbox.sql.statements import Statements
from webhook_inbox.telemetry.registry import Metrics
from webhook_inbox.telemetry.relay_events import RELAY_ENDED


class Outbox:
    """
    Hold the destinations that messages go to.

    The part of ``Inbox`` that looks outwards.

    Args:
        service: Relays.
        drivers: Makes drivers for a relay.
        schema: Where the tables are.
        metrics: Counts what is sent.
    """

    def __init__(
        self, service: Service, drivers: Callable[[], Drivers], *, schema: str, metrics: Metrics
    ) -> None:
        self._relaying = service
        self._metrics = metrics
        self._drivers_of_relay = drivers
        self._outbox_schema = schema
        self._outbox_sql = Statements.of(schema)
        self._destinations: dict[str, tuple[Outlet, Destination]] = {}
        self._routes: list[Route] = []

    @property
    def destinations(self) -> dict[str, str]:
        """Give the place of each destination, in the order in which they were given: what it is, and where it leads."""
        return {name: destination.place for name, (_, destination) in self._destinations.items()}

    def destination(
        self,
        name: str,
        destination: Destination,
        *,
        ordered: bool = False,
        dead_message: DeadMessage = "hold",
    ) -> None:
        """
        Have a relay send messages to *destination*.

        Args:
            name: As ``route`` and ``tx.emit(to=...)`` say it; stored with each message that goes there.
            destination: See ``webhook_inbox.destinations``.
            ordered: Send the messages of one aggregate (type and id) one at a time, in the order in which they were
                written. Those without an id have no order.
            dead_message: With *ordered*: whether a dead message holds the later ones of its aggregate (``hold``) or
                lets them pass (``skip``).

        Raises:
            ConfigurationError: There is one of that name, or it is no destination.
        """
        if name in self._destinations:
            raise ConfigurationError(f"there is a destination {name!r} already")
        if not isinstance(destination, Destination):
            raise ConfigurationError(
                f"destination {name!r} is a {type(destination).__name__}; "
                "give one of webhook_inbox.destinations, for instance Call(function)"
            )
        outlet = Outlet(name=name, limits=destination.limits, ordered=ordered, dead_message=dead_message)
        self._destinations[name] = (outlet, destination)

    def route(self, event_type: str, *, to: str) -> None:
        """
        Send the messages of *event_type* to the destination *to*, too; where several routes say so, once.

        Args:
            event_type: A type; ``Invoice*`` for every type that begins so; ``*`` for every type. Where there is one
                destination and no route, everything goes there.
            to: A name given to ``destination``.

        Raises:
            ConfigurationError: There is no such destination, or the pattern is none.
        """
        route = Route(event_type, to)
        self._routing((*self._routes, route))
        self._routes.append(route)

    @overload
    def emit(
        self,
        conn: SyncConnection,
        event_type: str,
        payload: object,
        *,
        aggregate_type: str = ...,
        aggregate_id: object = ...,
        to: str = ...,
        key: str | None = ...,
        headers: Mapping[str, str] | None = ...,
    ) -> UUID: ...
    @overload
    def emit(
        self,
        conn: AsyncConnection,
        event_type: str,
        payload: object,
        *,
        aggregate_type: str = ...,
        aggregate_id: object = ...,
        to: str = ...,
        key: str | None = ...,
        headers: Mapping[str, str] | None = ...,
    ) -> Awaitable[UUID]: ...
    def emit(
        self,
        conn: Any,
        event_type: str,
        payload: object,
        *,
        aggregate_type: str = "",
        aggregate_id: object = "",
        to: str = "",
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """
        Put a message into the outbox in a transaction of your own; it exists only if that commits (P-OUT).

        Args:
            conn: Your connection, its transaction open: psycopg's or asyncpg's, a SQLAlchemy connection or session, or
                ``django.db.connection``.
            event_type, payload, aggregate_type, aggregate_id, to: As ``tx.emit``.
            headers: What shall travel along, beside the current span's trace; lower-case names.
            key: Names the message: a second one of the same key adds nothing while the first is kept, until
                ``outbox_days`` after it was sent; later it goes out once more, under the same id.

        Returns:
            The message id; to be awaited where *conn* is asynchronous.

        Raises:
            ConfigurationError: No transaction is open there, or it is nothing that we know.
            ArgumentError: As ``tx.emit``.
        """
        params = message_params(
            keyed_id(key, what="inbox.emit"),
            event_type,
            payload,
            aggregate_type=aggregate_type,
            aggregate_id=aggregate_id,
            to=to,
            headers=current_trace() | dict(headers or {}),
            inbox_id=None,
            what="inbox.emit",
        )
        return execute_on(conn, self._outbox_sql.insert_outbox, params, gives=params["id"])

    async def relay(self, *, stop: asyncio.Event | None = None, drain: bool = False) -> Counter[SendState]:
        """
        Send the messages of the outbox until *stop* is set or this call is cancelled.

        Args:
            stop: Set it to have the relay settle what is being sent, within ``stop_seconds_max``, and return.
            drain: Return as soon as nothing is due that can be sent.

        Returns:
            How many sends came to what.

        Raises:
            ConfigurationError: There is no destination.

        Promises: P-OUT, P-FENCE, P-FLOW, P-COUNT.
        """
        if not self._destinations:
            raise ConfigurationError("the Inbox has no destination: add one with inbox.destination(...)")
        routing = self._routing(self._routes)
        drivers = self._drivers_of_relay()

        def make(flows: AsyncFlows, heartbeat: Heartbeat, settings: Settings) -> Relay:
            return Relay(
                flows,
                destinations=self._destinations,
                routing=routing,
                to=Relaying(sql=self._outbox_sql, schema=self._outbox_schema, retry=Retry.of(settings)),
                heartbeat=heartbeat,
                settings=settings,
                probe=drivers.probe,
                metrics=self._metrics,
            )

        relay = await self._relaying.run(
            make, drivers, stop or asyncio.Event(), drain=drain, ended=RELAY_ENDED
        )
        return relay.outcomes

    def _routing(self, routes: tuple[Route, ...] | list[Route]) -> Routing:
        return Routing([outlet for outlet, _ in self._destinations.values()], routes)
