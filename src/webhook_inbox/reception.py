"""Take deliveries in: those that a route has read, and those still in its request; tell of what became of each."""

from __future__ import annotations

import time

from webhook_inbox.endpoint import Endpoint
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.http.answer import closing
from webhook_inbox.http.framework import HttpRequest, body_in, scope_in, stream_in
from webhook_inbox.http.messages import Scope
from webhook_inbox.http.request import take_delivery, take_delivery_sync
from webhook_inbox.http.route import last_segment
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.event_record import EventRecord
from webhook_inbox.model.headers import HeaderPairs
from webhook_inbox.model.receipt import Receipt
from webhook_inbox.model.reconciled import Reconciled
from webhook_inbox.model.rehearsed import Rehearsed
from webhook_inbox.model.states import Outcome
from webhook_inbox.protocol import answers
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.reconcile import Question, reconcile
from webhook_inbox.protocol.rehearse import Wrap, rehearse
from webhook_inbox.protocol.walks import Span
from webhook_inbox.runtime.asking import ask
from webhook_inbox.runtime.hooks import Hooks
from webhook_inbox.runtime.service import Service
from webhook_inbox.telemetry.registry import UNKNOWN_ENDPOINT, Metrics
from webhook_inbox.telemetry.rejections import Rejections
from webhook_inbox.telemetry.results import log_result
from webhook_inbox.telemetry.spans import received, receiving


class Reception:
    """
    Take in deliveries for the endpoints that are open, and tell of what became of each.

    The part of ``Inbox`` that every way in goes through.

    Args:
        service: Settles deliveries.
        hooks: Told of dead events.
        metrics: Counts.
    """

    def __init__(self, service: Service, hooks: Hooks, metrics: Metrics) -> None:
        self._service = service
        self._hooks = hooks
        self._metrics = metrics
        self._rejections = Rejections()
        self._endpoints: dict[str, Endpoint] = {}

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
        return self._deliver_sync(self._known(endpoint), Delivery.now(method, url, headers, body))

    async def receive_request(self, request: HttpRequest, *, endpoint: str | None = None) -> Receipt:
        """
        Take in one delivery within a route of your own: the body is read here, under our limits.

        Args:
            request: The framework's, its body not read yet: Starlette's, FastAPI's, Litestar's, Django's.
            endpoint: A name given to ``endpoint``; where it is not given, the last segment of the request's
                path names it, or it is the only endpoint there is.

        Raises:
            BodyConsumedError: The body was read already, and the framework has not kept it.
            ConfigurationError: *endpoint* names none, or *request* is no framework's; where the path names none, the
                receipt is a 404.
        """
        scope = scope_in(request)
        found = self._meant(scope, endpoint)
        if isinstance(found, EndpointPlan):
            body = body_in(request)
            taken = await take_delivery(scope, body, found)
            self._metrics.read(found.name, body.bytes_read)
            if isinstance(taken, Delivery):
                return await self._deliver(found, taken)
            found = self._refused(found.name, taken)
        return closing(found, scope) if hasattr(request, "receive") else found

    def receive_request_sync(self, request: HttpRequest, *, endpoint: str | None = None) -> Receipt:
        """
        Take in one delivery on the calling thread, within a route of Flask's or Django's; see ``receive_request``.

        Raises:
            BodyConsumedError: The body was read already, and the framework has not kept it.
            ConfigurationError: *endpoint* names none, or *request* is no framework's; where the path names none, the
                receipt is a 404.
        """
        scope = scope_in(request)
        found = self._meant(scope, endpoint)
        if isinstance(found, Receipt):
            return found
        body = stream_in(request)
        taken = take_delivery_sync(scope, body, found)
        self._metrics.read(found.name, body.bytes_read)
        if isinstance(taken, Receipt):
            return self._refused(found.name, taken)
        return self._deliver_sync(found, taken)

    async def reconcile(
        self, endpoint: str, *, since_seconds: float | None = None, dry_run: bool = False
    ) -> Reconciled:
        """
        Ask the endpoint's provider what it has sent, and take in what never arrived; as ``webhook-inbox reconcile``.

        Args:
            endpoint: A name given to ``endpoint``; its source has an ``api_key``.
            since_seconds: How far back; None: a few days behind the last run.
            dry_run: Only count what is missing.

        Raises:
            ConfigurationError: There is no such endpoint, or its provider cannot be asked.
            StoreError: The database is away; what was taken in stays so, and the same call goes on.

        Promises: P-FIND, P-DUP, P-ONCE.
        """
        question = Question(
            endpoint=self._known(endpoint), span=Span(seconds=since_seconds), asker=ask, dry_run=dry_run
        )
        done = await self._service.follow(lambda receiving: reconcile(question, receiving))
        if not dry_run:
            self._metrics.reconciled(done)
        return done

    async def rehearse(self, event: EventRecord, *, wrap: Wrap = lambda handler: handler) -> Rehearsed:
        """
        Run the handlers of a recorded event in a transaction that is rolled back, and say what they would change; as
        ``webhook-inbox events replay --rehearse``.

        What they do outside of their transaction is done, and a sequence goes on; nothing else stays.

        Args:
            event: As ``protocol.look`` lists it.
            wrap: Gives the handler to be run for each that is registered.

        Raises:
            ConfigurationError: There is no such endpoint any more.
            StoreError: The database did not do it; nothing is changed.

        Promises: P-ONCE, P-FENCE.
        """
        plan = self._known(event.endpoint)
        return await self._service.follow(lambda inbox: rehearse(event, plan, inbox.schema, wrap=wrap))

    def _find(self, name: str) -> EndpointPlan | None:
        endpoint = self._endpoints.get(name)
        return None if endpoint is None else endpoint.plan

    def _meant(self, scope: Scope, name: str | None) -> EndpointPlan | Receipt:
        if name is not None:
            return self._known(name)
        segment = last_segment(scope)
        if (plan := self._find(segment)) is not None:
            return plan
        if len(self._endpoints) == 1:
            return next(iter(self._endpoints.values())).plan
        # The path decides, and a stranger may have chosen it (P-CALM).
        return self._refused(UNKNOWN_ENDPOINT, answers.unknown_endpoint(segment))

    def _known(self, name: str) -> EndpointPlan:
        if (plan := self._find(name)) is None:
            raise ConfigurationError(
                f"there is no endpoint {name!r}; open it with inbox.endpoint({name!r}, ...)"
            )
        return plan

    def _refused(self, name: str, refusal: Receipt) -> Receipt:
        self._metrics.count(name, refusal)
        return refusal

    async def _deliver(self, plan: EndpointPlan, delivery: Delivery) -> Receipt:
        started = time.perf_counter()
        with receiving(plan.name, delivery) as span:
            receipt = self._told(plan, await self._service.receive(plan, delivery), started)
            received(span, receipt)
        return receipt

    def _deliver_sync(self, plan: EndpointPlan, delivery: Delivery) -> Receipt:
        started = time.perf_counter()
        with receiving(plan.name, delivery) as span:
            receipt = self._told(plan, self._service.receive_sync(plan, delivery), started)
            received(span, receipt)
        return receipt

    def _told(self, plan: EndpointPlan, receipt: Receipt, started: float) -> Receipt:
        receipt = answers.suited(receipt, plan.source)
        self._metrics.observe(plan.name, receipt, time.perf_counter() - started)
        if receipt.outcome is Outcome.REJECTED:
            self._rejections.tell(plan.name, receipt.reason)
        for result in receipt.results:
            told = plan.mode == "hybrid"  # its run has told of the death, in the log and to the hook
            log_result(plan.name, result, dead_is_told=told)
            if result.outcome is Outcome.DEAD and not told:
                self._hooks.dead(plan.name, result)
        return receipt
