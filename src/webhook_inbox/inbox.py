"""Hold the front door: an inbox, its endpoints, and the ways in; everything behind it lives in the rooms below."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from inspect import signature
from typing import Any, TypeVar, Unpack

from webhook_inbox.endpoint import Endpoint
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.http.asgi import AsgiReceiver
from webhook_inbox.http.ops import OpsApp
from webhook_inbox.http.wsgi import WsgiReceiver
from webhook_inbox.model.settings import PROCESS_WIDE, Settings, SettingsGiven
from webhook_inbox.outbox import Outbox
from webhook_inbox.protocol.endpoint import (
    DeadHead,
    EndpointPlan,
    Keep,
    Mode,
    OrderBy,
    Redelivered,
    Unhandled,
)
from webhook_inbox.protocol.lease import pause, resume
from webhook_inbox.protocol.migrate import (
    DEFAULT_SCHEMA,
    LOCK_WAIT_SECONDS,
    Progress,
    SchemaStatus,
    bring_up,
    schema_status,
)
from webhook_inbox.protocol.probe import Probe, no_probe
from webhook_inbox.protocol.process import RunOutcome
from webhook_inbox.protocol.status import Backlog, read_backlog
from webhook_inbox.protocol.steps import Plan
from webhook_inbox.reception import Reception
from webhook_inbox.runtime.database import Database, Drivers, drivers_for
from webhook_inbox.runtime.hooks import DeadHook, ErrorHook, Hooks
from webhook_inbox.runtime.service import Service
from webhook_inbox.sources.source import Source
from webhook_inbox.telemetry.events import VARIABLE_UNKNOWN
from webhook_inbox.telemetry.registry import Metrics

T = TypeVar("T")


class Inbox(Reception, Outbox):
    """
    Make the effect of each webhook commit once, with the event.

    Args:
        database: A DSN; a ``psycopg_pool.ConnectionPool`` or ``AsyncConnectionPool``; a SQLAlchemy ``Engine`` or
            ``AsyncEngine``, or a sessionmaker that is bound to one; an ``asyncpg.Pool``, or what opens one,
            ``partial(asyncpg.create_pool, ...)``; or ``Django("default")``. None takes the DSN from
            ``WEBHOOK_INBOX_DATABASE_URL``, then ``DATABASE_URL``. Nothing connects before the first delivery.
        schema: Where the tables are; ``webhook-inbox migrate`` makes them.
        probe: A test seam: told every fault point of every plan and answer; see ``webhook_inbox.testing``.
        settings: Any of ``Settings``; what is not given comes from ``WEBHOOK_INBOX_<NAME>``, else its default.

    Raises:
        ConfigurationError: Something given cannot work; the text says what to change.
    """

    def __init__(
        self,
        database: Database | None = None,
        *,
        schema: str = DEFAULT_SCHEMA,
        probe: Probe = no_probe,
        **settings: Unpack[SettingsGiven],
    ) -> None:
        for variable, meant in Settings.misspelt().items():
            VARIABLE_UNKNOWN.log(variable, meant)
        self._settings = Settings.from_environment().with_overrides(
            settings, beside=signature(Inbox).parameters
        )
        self._schema = schema
        self._probe = probe
        self._database = database
        hooks, metrics = Hooks(), Metrics()
        service = Service(
            self._drivers(), schema=schema, settings=self._settings, hooks=hooks, metrics=metrics
        )
        Reception.__init__(self, service, hooks, metrics)
        Outbox.__init__(self, service, self._drivers, schema=schema, metrics=metrics)

    @property
    def schema(self) -> str:
        """Give the name of the schema that holds the tables."""
        return self._schema

    @property
    def request_seconds_max(self) -> float:
        """Give the seconds that a delivery may take at the slowest endpoint, from its head to its answer."""
        return max(
            each.body_seconds_max
            + each.duplicate_wait_seconds
            + each.connection_wait_seconds
            + each.handler_seconds_max
            for each in (self._settings, *(endpoint.plan.settings for endpoint in self._endpoints.values()))
        )

    @property
    def endpoint_plans(self) -> dict[str, EndpointPlan]:
        """Give what is known of each endpoint, in the order in which they were opened; for who operates them."""
        return {plan.name: plan for plan in self._plans()}

    @property
    def endpoint_modes(self) -> dict[str, Mode]:
        """Give the mode of each endpoint, in the order in which they were opened."""
        return {name: endpoint.plan.mode for name, endpoint in self._endpoints.items()}

    @property
    def worker_name(self) -> str:
        """Give the name by which this process's runs are known: host, process id, and a part of its own."""
        return self._service.worker_name

    @property
    def database_place(self) -> str:
        """Say which database it is, without user and password: ``the database shop at db.example:5432``."""
        return self._service.place

    @property
    def stop_seconds_max(self) -> float:
        """Give the seconds within which a worker that is told to stop has stopped."""
        return self._settings.stop_seconds_max

    @property
    def metrics(self) -> Metrics:
        """Give what this process has counted."""
        return self._metrics

    def endpoint(
        self,
        name: str,
        source: Source,
        *,
        mode: Mode = "queued",
        unhandled: Unhandled = "record",
        keep: Keep = "body",
        keep_fields: Iterable[str] = (),
        order_by: OrderBy = None,
        dead_head: DeadHead = "hold",
        redelivered_dead: Redelivered = "report",
        **settings: Unpack[SettingsGiven],
    ) -> Endpoint:
        """
        Open an endpoint that *source* posts to, at ``/{name}`` of ``asgi()``.

        Args:
            name: 1 to 100 letters, digits, ``.``, ``_``, ``~``, ``-``; part of the event key, so it never changes.
            source: Who sends, with the secrets; see ``webhook_inbox.sources``.
            mode: ``queued``: recorded, 200, and a worker runs the handler; failures are ours to retry. ``inline``:
                the handler runs in the request, in the transaction that records the event; a failure is answered 500
                and the provider's redelivery is the retry. ``hybrid``: recorded, then run at once in the request; a
                worker takes over where that fails.
            unhandled: What becomes of an event type without a handler: ``record`` it as ignored, ``drop`` it,
                or ``refuse`` it with 503.
            keep: ``body`` keeps the exact bytes; ``digest`` keeps their SHA-256 and *keep_fields* once the
                event is processed.
            keep_fields: Dotted paths into the payload, for instance ``data.object.id``.
            order_by: What events share to be run one at a time, in order of arrival: a dotted path into the payload,
                or a function of the event; queued mode only.
            dead_head: Whether a dead event holds the later ones of its key (``hold``) or lets them pass (``skip``).
            redelivered_dead: Whether a redelivery of a dead event only hears so (``report``) or lets it run again
                (``revive``).
            settings: Overrides for this endpoint.

        Raises:
            ConfigurationError: Something given cannot work, or an endpoint of this name exists.
        """
        if unfit := sorted(PROCESS_WIDE.intersection(settings)):
            raise ConfigurationError(
                f"endpoint {name}: {', '.join(unfit)} belongs to the process; give it to Inbox(...)"
            )
        if name in self._endpoints:
            raise ConfigurationError(f"there is an endpoint {name!r} already")
        plan = EndpointPlan(
            name=name,
            source=source,
            mode=mode,
            settings=self._settings.with_overrides(settings, beside=signature(self.endpoint).parameters),
            unhandled=unhandled,
            keep=keep,
            keep_fields=tuple(keep_fields),
            order_by=order_by,
            dead_head=dead_head,
            redelivered_dead=redelivered_dead,
        )
        plan.given_secrets()
        endpoint = Endpoint(plan, self._service.require)
        self._endpoints[name] = endpoint
        return endpoint

    def on_error(self, hook: ErrorHook) -> ErrorHook:
        """
        Call *hook* with (endpoint name, exception) for each exception that made a delivery fail, once.

        Logs and answers leave out what an exception says, since it may quote the payload; this hook gets the
        exception itself.
        """
        self._hooks.on_error.append(hook)
        return hook

    def on_dead(self, hook: DeadHook) -> DeadHook:
        """Call *hook* with (endpoint name, result) after an event was committed as dead."""
        self._hooks.on_dead.append(hook)
        return hook

    def asgi(self) -> AsgiReceiver:
        """
        Give the ASGI app that providers post to: ``POST /{endpoint}``.

        It mounts anywhere. Run by itself it starts and stops with the server; mounted in another app it opens
        connections when they are first needed, and ``running`` or ``lifespan`` closes them.
        """
        return AsgiReceiver(
            find=self._find,
            deliver=self._deliver,
            probe=self._probe,
            lifespan=self.running,
            metrics=self._metrics,
        )

    def wsgi(self) -> WsgiReceiver:
        """
        Give the WSGI app that providers post to: ``POST /{endpoint}``; it mounts anywhere.

        A process opens its connections when they are first needed, so a server may fork after it has made the inbox;
        ``close`` closes them. The handlers of queued events run in ``webhook-inbox worker``, a process of its own.

        Raises:
            ConfigurationError: The database given serves event loops only.
        """
        self._service.require_threads("inbox.wsgi()")
        return WsgiReceiver(
            find=self._find, deliver=self._deliver_sync, probe=self._probe, metrics=self._metrics
        )

    def django_view(self, endpoint: str | None = None, *, asynchronous: bool = False) -> Callable[..., Any]:
        """
        Give the Django view that providers post to: ``path("webhooks/<str:endpoint>", inbox.django_view())``.

        It is exempt from ``ATOMIC_REQUESTS``, CSRF's token and ``LoginRequiredMiddleware``.

        Args:
            endpoint: Its name, for a route that does not give one.
            asynchronous: Make an ``async def`` view, for a project under ASGI.

        Raises:
            ConfigurationError: There is no such endpoint, or the database given does not serve threads and the view
                is ``def``.
        """
        from webhook_inbox.http.django_view import async_view, sync_view

        if endpoint is not None:
            self._known(endpoint)
        return async_view(self.asgi(), endpoint) if asynchronous else sync_view(self.wsgi(), endpoint)

    def ops(self) -> OpsApp:
        """Give the ASGI app for operators: ``/healthz``, ``/readyz``, ``/metrics``; keep it away from providers."""
        return OpsApp(check=self._service.check, metrics=self._metrics)

    async def work(self, *, stop: asyncio.Event | None = None, drain: bool = False) -> Counter[RunOutcome]:
        """
        Run the handlers of queued events until *stop* is set or this call is cancelled.

        Args:
            stop: Set it to have the worker finish what is under way, within ``stop_seconds_max``, and return.
            drain: Return as soon as nothing is due and nothing runs.

        Returns:
            How many runs came to what.

        Promises: P-COUNT, P-FENCE, P-FLOW, P-ONCE.
        """
        stop, told = stop or asyncio.Event(), self._metrics.reconciled
        return await self._service.work(self._plans, self._drivers(), stop, drain=drain, reconciled=told)

    async def pause(self, endpoint: str, *, by: str = "") -> None:
        """
        Stop running the events of *endpoint*, in every worker, from their next claim on; receiving goes on. One that is
        paused already stays as it is.

        Args:
            by: Who asked, for whoever wonders.

        Raises:
            StoreError: The database did not do it.
        """
        await self._service.perform(lambda: pause(self._known(endpoint).name, by, self._schema))

    async def resume(self, endpoint: str, *, by: str = "") -> bool:
        """Run the events of *endpoint* again; False where it was not paused. Raises as ``pause``."""
        return await self._service.perform(lambda: resume(self._known(endpoint).name, by, self._schema))

    @asynccontextmanager
    async def running(self, *, worker: bool = False, relay: bool = False) -> AsyncIterator[None]:
        """
        Run what serves this inbox while the block runs; close what it opened when the block ends.

        Args:
            worker: Whether to work off queued events in this process, on connections of its own.
            relay: Whether to send the messages of the outbox in this process, on connections of its own.

        Raises:
            ConfigurationError: A relay is asked for, and there is no destination.
            Exception: What the worker or the relay ended with, when the block ends; the log had it at once.
        """
        stop = asyncio.Event()
        loops: list[Coroutine[Any, Any, object]] = [self.work(stop=stop)] if worker else []
        loops += [self.relay(stop=stop)] if relay else []
        looking = asyncio.create_task(self._service.look_around())
        working = {asyncio.create_task(each) for each in loops}
        try:
            yield
        finally:
            stop.set()
            looking.cancel()
            if working:
                await asyncio.wait(working)
            await self._service.stop()
            for each in working:
                if not each.cancelled():
                    each.result()

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[None]:  # noqa: ARG002 - frameworks pass their app
        """Serve as a framework's ``lifespan``; see ``running``."""
        async with self.running():
            yield

    def close(self) -> None:
        """Close the connections of ``receive_sync``; for programs without an event loop."""
        self._service.close()

    async def check(self) -> None:
        """
        Refuse a database that cannot be served right now.

        Raises:
            StoreError: Unreachable, read-only, or with a schema that this release cannot serve.
        """
        await self._service.check()

    async def migrate(
        self, *, lock_wait_seconds: float = LOCK_WAIT_SECONDS, progress: Progress | None = None
    ) -> SchemaStatus:
        """
        Bring the schema up, and say how it stands then; what ``webhook-inbox migrate`` does.

        Args:
            lock_wait_seconds: How long to wait for a lock that others hold.
            progress: Told of each step.

        Raises:
            MigrationError: A step did not apply; says which and why. Those before it are applied.
            StoreError: As ``check``.
        """
        return await self._service.perform(
            lambda: bring_up(self._schema, lock_wait_seconds=lock_wait_seconds, progress=progress)
        )

    async def schema_status(self) -> SchemaStatus:
        """Say how the schema stands to this release, as ``webhook-inbox migrate --check``. Raises as ``check``."""
        return await self._service.perform(lambda: schema_status(self._schema))

    async def backlog(self) -> Backlog:
        """
        Count what is not settled; what ``webhook-inbox status`` shows.

        Raises:
            StoreError: As ``check``.
        """
        return await self.perform(read_backlog)

    async def perform(self, plan: Callable[[str], Plan[T]]) -> T:
        """
        Perform one of the plans of ``webhook_inbox.protocol`` on the schema; what the command line operates with.

        Raises:
            StoreError: As ``check``.
        """
        return await self._service.perform(lambda: plan(self._schema))

    def _drivers(self) -> Drivers:
        return drivers_for(self._database, settings=self._settings, probe=self._probe)

    def _plans(self) -> tuple[EndpointPlan, ...]:
        return tuple(endpoint.plan for endpoint in self._endpoints.values())
