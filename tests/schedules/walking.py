"""
Have a provider's list walked while an event of it is delivered: the whole flow of each, from the answer to the commit.

A flow waits for more than a database; here all the rest is answered at once, and its transactions are steps as those of
a plan are. Nothing is taken from what a flow says of itself: whether a list counts as complete stands in its row.
"""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from tests.fixtures.arrivals import SCHEMA
from tests.schedules.stage import SQL, Connection, check_events, clear, handlers, rows, run, worker, working
from webhook_inbox.errors import InboxError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.receipt import EventResult, Receipt
from webhook_inbox.model.reconciled import Reconciled
from webhook_inbox.model.settings import Settings
from webhook_inbox.protocol.endpoint import EndpointPlan, Mode
from webhook_inbox.protocol.enqueue import enqueue
from webhook_inbox.protocol.flow import Apart, Ask, Enqueue, Flow, FlowStep, Hold, Pause, Transact
from webhook_inbox.protocol.receive import receive
from webhook_inbox.protocol.receiving import LeaseHolder, Receiving
from webhook_inbox.protocol.reconcile import Question, reconcile
from webhook_inbox.protocol.run import Running
from webhook_inbox.protocol.steps import Plan
from webhook_inbox.protocol.walks import Span
from webhook_inbox.sources import Stripe
from webhook_inbox.sources.listing import Request, Response
from webhook_inbox.testing.schedules import Ending, Scenario
from webhook_inbox.testing.signing import sign_stripe

T = TypeVar("T")
SECRET = "whsec_fake_walking"
AN_HOUR = 3600.0
LISTED = ("evt_1", "evt_2")
SOURCE = Stripe(SECRET, api_key="rk_test_fake_walking", api_base="http://127.0.0.1:1")


@dataclass(frozen=True)
class Walking:
    """
    A scenario, and how many schedules there are at least.

    Attributes:
        floor: Without faults, with at most one turn.
        floor_faulted: With at most one fault.
    """

    scenario: Scenario
    floor: int
    floor_faulted: int


def driven(flow: Flow[T]) -> Plan[T]:
    """Drive *flow* as one plan: what it asks for beside its transactions is answered at once."""
    given: Any = None
    error: InboxError | None = None
    while True:
        try:
            step = flow.send(given) if error is None else flow.throw(error)
        except StopIteration as stop:
            return cast("T", stop.value)
        given = error = None
        try:
            given = yield from _performed(step)
        except InboxError as failed:
            error = failed


def _performed(step: FlowStep) -> Generator[Any, Any, object]:
    match step:
        case Apart(flow):
            return (yield from driven(flow))
        case Ask(function, argument):
            return function(argument)
        case Transact(plan, _):
            return (yield from plan())
        case Enqueue(arrivals, to, _):
            return (yield from enqueue(arrivals, to))
        case Hold(keys, _):
            return keys
        case Pause():
            return None
        case _:
            raise AssertionError(f"nothing here asks for {step}")


def _body(event_id: str) -> bytes:
    event = {
        "id": event_id,
        "object": "event",
        "type": "invoice.paid",
        "created": int(time.time() - AN_HOUR),
        "livemode": False,
    }
    return json.dumps(event).encode()


def _listing(_: Request) -> Response:
    page = b'{"object": "list", "data": [%b], "has_more": false}' % b",".join(map(_body, LISTED))
    return Response(status=200, headers=Headers(()), body=page)


def _endpoint(mode: Mode) -> EndpointPlan:
    endpoint = EndpointPlan(name="billing", source=SOURCE, mode=mode, settings=Settings())
    endpoint.handlers.include(handlers)
    return endpoint


def _inbox(process: str) -> Receiving:
    running = Running(sql=SQL, worker=process, report=lambda *_: None, dead=lambda *_: None)
    lease = cast("LeaseHolder", None)  # is for hybrid endpoints alone
    return Receiving(schema=SCHEMA, sql=SQL, running=running, lease=lease, schema_served=True)


def walking(mode: Mode, process: str) -> Plan[Reconciled]:
    """Ask the provider for its list, as this process."""
    span = Span(seconds=2 * AN_HOUR)
    question = Question(endpoint=_endpoint(mode), span=span, asker=_listing)
    return (yield from driven(reconcile(question, _inbox(process))))


def delivering(mode: Mode) -> Plan[tuple[EventResult, ...]]:
    """Deliver the first of the list, signed; the second is never delivered."""
    body = _body(LISTED[0])
    headers = sign_stripe(body, SECRET, int(time.time()))
    delivery = Delivery.now("POST", "", headers, body)
    receipt: Receipt = yield from driven(receive(_endpoint(mode), delivery, _inbox("receiver")))
    return receipt.results if receipt.status == 200 else ()


def _scenario(mode: Mode, *rival: str) -> Scenario:
    def prepare(conn: Connection) -> Sequence[Plan[Any]]:
        clear(conn)
        rivals: list[Plan[Any]] = [walking(mode, name) for name in rival]
        return [walking(mode, "first"), *(rivals or [delivering(mode)])]

    def check(conn: Connection, endings: Sequence[Ending]) -> None:
        events = check_events(conn, endings)
        complete = rows(conn, "SELECT FROM webhooks.reconciles WHERE complete_at IS NOT NULL")
        assert not complete or set(events) == set(LISTED), (
            f"P-FIND: complete, with no more than {list(events)}"
        )
        assert not rows(conn, "SELECT FROM webhooks.conflicts"), "P-DUP: copy and delivery are one event"
        _found(conn, mode)

    return Scenario(prepare=prepare, check=check, local=("INSERT INTO effects",))


def _found(conn: Connection, mode: Mode) -> None:
    """After whatever happened, the next walk takes in what is missing, and each event comes to its one effect."""
    conn.execute("UPDATE webhooks.reconciles SET held_until = '-infinity'")
    done = run(conn, walking(mode, "last"))
    assert done.good, f"P-FIND: the next walk says {done}"
    if mode == "queued":
        run(conn, working(worker(conn)))
    states = {event_id: row["state"] for event_id, row in check_events(conn, []).items()}
    assert states == dict.fromkeys(LISTED, "processed"), f"P-FIND: the events are left {states}"


WALKS: dict[str, Walking] = {
    "reconcile x inline receive": Walking(_scenario("inline"), 16, 55),
    "reconcile x queued receive": Walking(_scenario("queued"), 13, 45),
    "reconcile x reconcile": Walking(_scenario("inline", "second"), 16, 65),
}
