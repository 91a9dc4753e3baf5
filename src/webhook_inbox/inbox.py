"""Hold the front door: an inbox, its endpoints, and the ways in; everything behind it lives in the rooms below."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Unpack

from webhook_inbox.endpoint import Endpoint
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.http.answer import closing
from webhook_inbox.http.asgi import AsgiReceiver
from webhook_inbox.http.ops import OpsApp
from webhook_inbox.http.request import HttpRequest, read_request
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.headers import HeaderPairs
from webhook_inbox.model.receipt import Receipt
from webhook_inbox.model.settings import PROCESS_WIDE, Settings, SettingsGiven
from webhook_inbox.model.states import Outcome
from webhook_inbox.protocol import answers
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
from webhook_inbox.protocol.migrate import DEFAULT_SCHEMA
from webhook_inbox.protocol.probe import Probe, no_probe
from webhook_inbox.protocol.process import RunOutcome
from webhook_inbox.protocol.status import Backlog, read_backlog
from webhook_inbox.runtime.database import Database, Drivers, drivers_for
from webhook_inbox.runtime.hooks import DeadHook, ErrorHook, Hooks
from webhook_inbox.runtime.service import Service
from webhook_inbox.sources.source import Source
from webhook_inbox.telemetry.registry import UNKNOWN_ENDPOINT, Metrics
from webhook_inbox.telemetry.results import log_result


class Inbox:
    """
    Make the effect of each webhook commit once, with the event.

    Args:
        database: A DSN; a ``psycopg_pool.ConnectionPool`` or ``AsyncConnectionPool``; a SQLAlchemy ``Engine`` or
            ``AsyncEngine``, or a sessionmaker that is bound to one; an ``asyncpg.Pool``; or ``Django("default")``. None
            takes the DSN from ``WEBHOOK_INBOX_DATABASE_URL``, then ``DATABASE_URL``. Nothing connects before the first
            delivery.
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
        self._settings = Settings.from_environment().with_overrides(settings)
        self._schema = schema
        self._probe = probe
        self._endpoints: dict[str, Endpoint] = {}
        self._hooks = Hooks()
        self._metrics = Metrics()
        self._database = database
        drivers = self._drivers()
        self._service = Service(
            drivers, schema=schema, settings=self._settings, report=self._hooks.error, dead=self._hooks.dead
        )

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
            settings=self._settings.with_overrides(settings),
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

    def ops(self) -> OpsApp:
        """Give the ASGI app for operators: ``/healthz``, ``/readyz``, ``/metrics``; keep it away from providers."""
        return OpsApp(check=self._service.check, metrics=self._metrics)

    async def receive(
        self, endpoint: str, *, headers: HeaderPairs, body: bytes, method: str = "POST", url: str = ""
    ) -> Receipt:
        """
        Take in one delivery that a route of your own has read.

        Args:
            endpoint: A name given to ``endpoint``.
            headers: Every pair as sent, repeated ones included.
            body: The raw bytes, before any parsing.
            method: The request's method.
            url: As the client asked for it; some providers sign it.

        Returns:
            The receipt to send back. Never raises for what a sender, a handler or the database causes.

        Raises:
            ConfigurationError: There is no such endpoint.

        Promises: P-RAW, P-ACK, P-DUP, P-ONCE, P-STATE, P-CALM.
        """
        return await self._deliver(self._known(endpoint), Delivery.now(method, url, headers, body))

    def receive_sync(
        self, endpoint: str, *, headers: HeaderPairs, body: bytes, method: str = "POST", url: str = ""
    ) -> Receipt:
        """
        Take in one delivery on the calling thread; see ``receive``.

        Raises:
            ConfigurationError: There is no such endpoint.
        """
        plan = self._known(endpoint)
        started = time.perf_counter()
        receipt = self._service.receive_sync(plan, Delivery.now(method, url, headers, body))
        return self._told(plan, receipt, started)

    async def receive_request(self, request: HttpRequest, *, endpoint: str | None = None) -> Receipt:
        """
        Take in one delivery within your own Starlette or FastAPI route: the body is read here, under our limits.

        Args:
            request: The framework's request, its body not read yet.
            endpoint: A name given to ``endpoint``; where it is not given, the last segment of the request's
                path names it, or it is the only endpoint there is.

        Raises:
            BodyConsumedError: The framework has read the body already.
            ConfigurationError: *endpoint* names none; where the path names none, the receipt is a 404.
        """
        plan = self._known(endpoint) if endpoint is not None else self._meant(request)
        if plan is None:  # the path decides, and a stranger may have chosen it (P-CALM)
            refusal = answers.unknown_endpoint(str(request.scope["path"]).rstrip("/").rpartition("/")[2])
            self._metrics.count(UNKNOWN_ENDPOINT, refusal)
            return closing(refusal, request.scope)
        read = await read_request(request, plan)
        if isinstance(read, Receipt):
            self._metrics.count(plan.name, read)
            return read
        return await self._deliver(plan, read)

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
        return await self._service.work(self._plans, self._drivers(), stop or asyncio.Event(), drain=drain)

    async def pause(self, endpoint: str, *, by: str = "") -> None:
        """
        Stop running the events of *endpoint*, in every worker, from their next claim on; receiving goes on.

        Args:
            by: Who asked, for whoever wonders.

        Raises:
            StoreError: The database did not do it.
        """
        await self._service.perform(lambda: pause(self._known(endpoint).name, by, self._schema))

    async def resume(self, endpoint: str) -> bool:
        """Run the events of *endpoint* again; False where it was not paused. Raises as ``pause``."""
        return await self._service.perform(lambda: resume(self._known(endpoint).name, self._schema))

    @asynccontextmanager
    async def running(self, *, worker: bool = False) -> AsyncIterator[None]:
        """
        Run what serves this inbox while the block runs; close what it opened when the block ends.

        Args:
            worker: Whether to work off queued events in this process, on connections of its own.

        Raises:
            Exception: What the worker ended with, when the block ends; the log had it at once.
        """
        stop = asyncio.Event()
        working = asyncio.create_task(self.work(stop=stop)) if worker else None
        try:
            yield
        finally:
            stop.set()
            if working is not None:
                await asyncio.wait({working})
            await self._service.stop()
            if working is not None and not working.cancelled():
                working.result()

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

    async def backlog(self) -> Backlog:
        """
        Count what is not settled; what ``webhook-inbox status`` shows.

        Raises:
            StoreError: As ``check``.
        """
        return await self._service.perform(lambda: read_backlog(self._schema))

    def _find(self, name: str) -> EndpointPlan | None:
        endpoint = self._endpoints.get(name)
        return None if endpoint is None else endpoint.plan

    def _meant(self, request: HttpRequest) -> EndpointPlan | None:
        last_segment = str(request.scope["path"]).rstrip("/").rpartition("/")[2]
        if (plan := self._find(last_segment)) is not None:
            return plan
        return next(iter(self._endpoints.values())).plan if len(self._endpoints) == 1 else None

    def _known(self, name: str) -> EndpointPlan:
        if (plan := self._find(name)) is None:
            raise ConfigurationError(
                f"there is no endpoint {name!r}; open it with inbox.endpoint({name!r}, ...)"
            )
        return plan

    async def _deliver(self, plan: EndpointPlan, delivery: Delivery) -> Receipt:
        started = time.perf_counter()
        return self._told(plan, await self._service.receive(plan, delivery), started)

    def _told(self, plan: EndpointPlan, receipt: Receipt, started: float) -> Receipt:
        receipt = answers.suited(receipt, plan.source)
        self._metrics.observe(plan.name, receipt, time.perf_counter() - started)
        for result in receipt.results:
            told = plan.mode == "hybrid"  # its run has told of the death, in the log and to the hook
            log_result(plan.name, result, dead_is_told=told)
            if result.outcome is Outcome.DEAD and not told:
                self._hooks.dead(plan.name, result)
        return receipt

    def _drivers(self) -> Drivers:
        return drivers_for(self._database, settings=self._settings, probe=self._probe)

    def _plans(self) -> tuple[EndpointPlan, ...]:
        return tuple(endpoint.plan for endpoint in self._endpoints.values())
