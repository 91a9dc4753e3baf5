"""What the receive flow waits for, what it makes of every answer, and what it leaves for the log."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.fixtures.arrivals import SCHEMA
from tests.fixtures.plans import Played, play
from webhook_inbox.errors import (
    ConfigurationError,
    ConflictError,
    HandlerFailedError,
    HandlerNotYetError,
    InboxError,
    KeyBusyError,
    SchemaVersionError,
    StatementError,
    StoreUnavailableError,
    TransactionEndedError,
)
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.event import EventKey
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.receipt import EventResult, Receipt
from webhook_inbox.model.secret import Secret
from webhook_inbox.model.settings import Settings
from webhook_inbox.model.states import Outcome, State
from webhook_inbox.model.steering import GiveUp, Ignore, NotYet
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.flow import Ask, Enqueue, Hold, Pause, Prepare, Transact
from webhook_inbox.protocol.handlers import Handler, Handlers, Pattern
from webhook_inbox.protocol.receive import receive
from webhook_inbox.protocol.receiving import Receiving
from webhook_inbox.protocol.run import Running
from webhook_inbox.protocol.steps import Run
from webhook_inbox.sources.source import (
    Answer,
    Identity,
    Reading,
    Rejected,
    Source,
    Unreadable,
    Verdict,
    Verified,
)
from webhook_inbox.sql.statements import Statements

BODY = b'{"id":"evt_1","n":[1,2]}'
BELIEVED = Verified("secret-1")
BEGUN = ("set",)
NOW = datetime(2026, 1, 2, tzinfo=UTC)


class FakeSource(Source):
    """Reads what the test says, and believes it unless the test says otherwise."""

    provider = "acme"
    secret_headers = frozenset({"x-token"})
    methods = frozenset({"GET"})
    body_bytes_max = 100

    def __init__(
        self,
        *readings: Reading,
        verdict: Verdict = BELIEVED,
        answer: Answer | None = None,
        greeting: Answer | None = None,
        secrets: Any = "whsec_fake",
        signed_id: bool = True,
    ) -> None:
        self.readings = readings or (Identity(event_id="evt_1", event_type="booked"),)
        self.verdict, self.reply, self.secrets, self.signed_id = verdict, answer, secrets, signed_id
        self.greeting = greeting
        self.answered_with: list[tuple[Secret, ...]] = []
        self.verified_with: list[tuple[Secret, ...]] = []
        self.asked_about: list[Delivery] = []

    def verify(self, delivery: Delivery, secrets: Sequence[Secret]) -> Verdict:
        self.asked_about.append(delivery)
        self.verified_with.append(tuple(secrets))
        return self.verdict

    def identify(self, delivery: Delivery) -> tuple[Reading, ...]:
        self.asked_about.append(delivery)
        return self.readings

    def greet(self, delivery: Delivery) -> Answer | None:
        return self.greeting

    def answer(self, delivery: Delivery, secrets: Sequence[Secret]) -> Answer | None:
        self.asked_about.append(delivery)
        self.answered_with.append(tuple(secrets))
        return self.reply


def handlers_of(*names: str, kind: Any = "sync", event_type: str = "booked", **given: Any) -> Handlers:
    """Handlers of one event type."""
    handlers = Handlers()
    for number, name in enumerate(names):
        handlers.add(Handler(Pattern(event_type), functions()[number], kind, name, **given))
    return handlers


def functions() -> list[Callable[..., None]]:
    """Functions that are never called."""
    return [print, repr, len]  # type: ignore[list-item]


def endpoint_of(
    source: Source | None = None, *, handlers: Handlers | None = None, **given: Any
) -> EndpointPlan:
    """An inline endpoint."""
    return EndpointPlan(
        name="billing",
        source=source or FakeSource(),
        mode="inline",
        settings=given.pop("settings", Settings(duplicate_wait_seconds=4.0, handler_seconds_max=20.0)),
        handlers=handlers if handlers is not None else handlers_of("a"),
        **given,
    )


class Lease:
    """Is never asked for by an inline endpoint."""

    name, seconds, held, former = "w", 1.0, None, None

    def began(self, worker_id: Any, began_at: float) -> Any:
        raise AssertionError

    def distrust(self, worker_id: Any) -> None:
        raise AssertionError

    def give_back_later(self, claim: Any, to: Any) -> None:
        raise AssertionError


class Room:
    """What the deliveries of a test share, and what was reported of them."""

    def __init__(self, *, schema_served: bool = True) -> None:
        self.errors: list[tuple[str, BaseException]] = []
        sql = Statements.of(SCHEMA)
        running = Running(
            sql=sql, worker="w", report=lambda *told: self.errors.append(told), dead=lambda *_: None
        )
        self.inbox = Receiving(
            schema=SCHEMA, sql=sql, running=running, lease=Lease(), schema_served=schema_served
        )

    def receive(
        self,
        endpoint: EndpointPlan,
        *answers: object,
        body: bytes = BODY,
        method: str = "POST",
        headers: Any = (),
    ) -> Played[Receipt]:
        """Play the flow of one delivery."""
        delivery = Delivery(method=method, url="/", headers=Headers(headers), body=body, received_at=0.0)
        return play(receive(endpoint, delivery, self.inbox), answers)


@pytest.fixture
def room() -> Room:
    """A process that has seen its schema."""
    return Room()


def key(event_id: str = "evt_1", **columns: str) -> EventKey:
    """The key of an event of Acme's."""
    given = {
        "provider": "acme",
        "endpoint": "billing",
        "account": "",
        "environment": "",
        "event_id": event_id,
    }
    return EventKey(**given | columns)


def processed(event_id: str = "evt_1") -> EventResult:
    """The result of an event that took effect."""
    return EventResult(outcome=Outcome.PROCESSED, event_id=event_id, state=State.PROCESSED)


def kinds(played: Played[Receipt]) -> list[str]:
    """What kinds of steps were asked for."""
    return [type(step).__name__ for step in played.steps]


def receipt_of(played: Played[Receipt]) -> Receipt:
    """The receipt; the flow raises for nothing."""
    assert played.error is None
    assert played.value is not None
    return played.value


def test_a_delivery_holds_its_key_and_runs_one_plan(room: Room) -> None:
    """The key first, so that copies wait without a connection; then the transaction; then the receipt."""
    played = room.receive(endpoint_of(), (key(),), processed())
    assert kinds(played) == ["Hold", "Transact"]
    hold, transact = played.steps
    assert hold == Hold((key(),), 4.0)
    assert transact.kind == "sync"
    assert play(transact.plan()).steps[0].seconds_max == 21.0
    receipt = receipt_of(played)
    assert (receipt.status, receipt.outcome, receipt.results) == (200, Outcome.PROCESSED, (processed(),))
    assert room.errors == []


def recorded(played: Played[Receipt]) -> dict[str, Any]:
    """The parameters with which the (last) plan of one event records it."""
    plans = [step.plan for step in played.steps if isinstance(step, Transact)]
    (params,) = play(plans[-1]()).params("record_event")
    return params


def test_what_is_recorded_comes_from_the_reading(room: Room) -> None:
    """P-QUIET: key, type and time as the source read them, headers without credentials, the label of the secret."""
    reading = Identity(
        event_id="evt_1", event_type="booked", account="acct", environment="live", created_at=NOW
    )
    source = FakeSource(reading, verdict=Verified("new"), signed_id=False)
    endpoint = endpoint_of(source)
    headers = [
        ("X-Token", "t"),
        ("Authorization", "a"),
        ("Cookie", "c"),
        ("X-Api-Key", "k"),
        ("X-Kept", "yes"),
    ]
    params = recorded(room.receive(endpoint, (key(account="acct", environment="live"),), headers=headers))
    expected = {
        "provider": "acme",
        "endpoint": "billing",
        "account": "acct",
        "environment": "live",
        "event_id": "evt_1",
        "event_type": "booked",
        "state": State.PROCESSED,
        "created_at": NOW,
        "secret_label": "new",
        "headers": '[["x-kept", "yes"]]',
        "body": BODY,
        "kept": None,
        "keep_body": True,
        "last_error": None,
    }
    assert {name: params[name] for name in expected} == expected
    assert [delivery.body for delivery in source.asked_about] == [BODY] * 3


@pytest.mark.parametrize("signed_id", [True, False])
def test_evidence_is_kept_where_the_source_does_not_sign_the_id(room: Room, signed_id: bool) -> None:
    """Design 5.1: what the source says of its signature decides."""
    played = room.receive(endpoint_of(FakeSource(signed_id=signed_id)), (key(),))
    plan = play(played.steps[-1].plan(), [BEGUN, None, (7, "processed", 0, b"other digest", "delivery")])
    assert ("record_conflict" in plan.names) is not signed_id


@pytest.mark.parametrize(
    ("keep", "fields", "kept"), [("digest", ["n"], '{"n": [1, 2]}'), ("digest", [], None), ("body", [], None)]
)
def test_what_is_kept_is_what_the_endpoint_says(
    room: Room, keep: Any, fields: list[str], kept: str | None
) -> None:
    """The bytes, or their digest and chosen fields."""
    params = recorded(room.receive(endpoint_of(keep=keep, keep_fields=tuple(fields)), (key(),)))
    assert (params["kept"], params["keep_body"]) == (kept, keep == "body")


def test_a_field_that_cannot_be_kept_is_left_out(room: Room) -> None:
    """Neither a body that is no JSON nor a value that jsonb refuses keeps an event from being processed."""
    endpoint = endpoint_of(keep="digest", keep_fields=("n",))
    for body in (b"no JSON", b'{"n":"\\u0000"}'):
        assert recorded(room.receive(endpoint, (key(),), body=body))["kept"] is None


def test_a_type_without_a_handler_is_recorded_as_ignored(room: Room) -> None:
    """No handler to run, and why."""
    played = room.receive(endpoint_of(handlers=Handlers()), (key(),))
    params = recorded(played)
    assert (params["state"], params["last_error"]) == (State.IGNORED, "no handler for booked")
    assert played.steps[-1].kind is None


def test_an_event_that_its_source_ignores_is_recorded_so(room: Room) -> None:
    """Its own reason, although there is a handler; whatever ``unhandled`` says."""
    source = FakeSource(Identity(event_id="evt_1", event_type="booked", ignore="a test event"))
    for unhandled in ("record", "drop", "refuse"):
        params = recorded(room.receive(endpoint_of(source, unhandled=unhandled), (key(),)))
        assert (params["state"], params["last_error"]) == (State.IGNORED, "a test event")


def test_what_cannot_be_read_is_quarantined_under_its_digest(room: Room) -> None:
    """No account, no type, no handler; the reason as the source gives it."""
    endpoint = endpoint_of(FakeSource(Unreadable(reason="no event id at $.id")))
    digest = f"sha256:{hashlib.sha256(BODY).hexdigest()}"
    params = recorded(room.receive(endpoint, (key(digest),)))
    expected = {
        "provider": "acme",
        "endpoint": "billing",
        "account": "",
        "environment": "",
        "event_id": digest,
        "event_type": "",
        "state": State.QUARANTINED,
        "last_error": "no event id at $.id",
        "secret_label": "secret-1",
        "body": BODY,
    }
    assert {name: params[name] for name in expected} == expected


def test_what_no_event_is_found_in_is_quarantined_too(room: Room) -> None:
    """P-CALM: a source of the user's own that gives nothing for an authentic body loses nothing by that."""
    source = FakeSource()
    source.readings = ()
    params = recorded(room.receive(endpoint_of(source), (key(f"sha256:{hashlib.sha256(BODY).hexdigest()}"),)))
    assert (params["state"], params["last_error"]) == (
        State.QUARANTINED,
        "the source found no event in it",
    )


def test_an_item_of_a_body_is_its_own_slice(room: Room) -> None:
    """Bytes and digest are those of the item, for an event and for what cannot be read."""
    readings = (
        Identity(event_id="evt_1", event_type="booked", span=(1, 5)),
        Unreadable(reason="x", span=(6, 9)),
    )
    digest = f"sha256:{hashlib.sha256(BODY[6:9]).hexdigest()}"
    played = room.receive(endpoint_of(FakeSource(*readings)), (key(), key(digest)))
    batch = play(played.steps[-1].plan(), [BEGUN, None, (1, 0, "9"), None, None, None, (2, 0, "9")])
    assert [params["body"] for params in batch.params("record_event")] == [BODY[1:5], BODY[6:9]]
    assert [params["event_id"] for params in batch.params("record_event")] == ["evt_1", digest]


@pytest.mark.parametrize("method", ["PUT", "HEAD", "DELETE"])
def test_another_method_is_refused_before_anything_is_looked_at(room: Room, method: str) -> None:
    """405, with what the source takes."""
    source = FakeSource()
    receipt = receipt_of(room.receive(endpoint_of(source), method=method))
    assert (receipt.status, receipt.reason) == (405, "method")
    assert dict(receipt.headers)["allow"] == "POST, GET"
    assert source.verified_with == []


@pytest.mark.parametrize(("bytes_", "status"), [(100, 200), (101, 413)])
def test_a_body_over_the_limit_is_refused_before_it_is_verified(room: Room, bytes_: int, status: int) -> None:
    """The source's own limit where the endpoint has none."""
    source = FakeSource()
    receipt = receipt_of(room.receive(endpoint_of(source), (key(),), processed(), body=b"x" * bytes_))
    assert receipt.status == status
    assert len(source.verified_with) == (status == 200)
    assert status == 200 or b"100 bytes" in receipt.body


def test_what_is_not_believed_is_refused_and_asks_for_nothing(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    """P-RAW: no key held, no transaction; one line for the log."""
    source = FakeSource(verdict=Rejected("signature_mismatch", "no.", 401))
    with caplog.at_level(logging.INFO, "webhook_inbox"):
        played = room.receive(endpoint_of(source))
    receipt = receipt_of(played)
    assert (receipt.status, receipt.reason, receipt.outcome) == (401, "signature_mismatch", Outcome.REJECTED)
    assert played.steps == ()
    assert [record.message for record in caplog.records] == [
        "endpoint billing refused a delivery: signature_mismatch"
    ]


def test_a_handshake_without_a_signature_is_answered_before_any_secret_is_looked_at(room: Room) -> None:
    """What a stranger may ask costs no secret and no row; one that proves nothing is refused and told of."""
    source = FakeSource(greeting=Answer(body=b"challenge"), secrets=lambda _: None)
    played = room.receive(endpoint_of(source))
    assert (receipt_of(played).status, receipt_of(played).outcome) == (200, Outcome.HANDSHAKE)
    assert (played.steps, source.asked_about) == ((), [])
    refused = receipt_of(room.receive(endpoint_of(FakeSource(greeting=Answer(status=403)))))
    assert (refused.status, refused.outcome, refused.reason) == (403, Outcome.REJECTED, "handshake_refused")


def test_a_handshake_is_answered_with_the_secret_that_verified_it(room: Room) -> None:
    """Proof that the secret is known here must not be given with another one."""
    secrets = [Secret("fake-old", label="old"), Secret("fake-new", label="new")]
    source = FakeSource(answer=Answer(), verdict=Verified("new"), secrets=secrets)
    assert receipt_of(room.receive(endpoint_of(source))).outcome is Outcome.HANDSHAKE
    assert [[secret.reveal() for secret in given] for given in source.answered_with] == [["fake-new"]]


def test_a_handshake_is_answered_and_stored_nowhere(room: Room) -> None:
    """Only once it is verified."""
    answer = Answer(status=200, body=b"challenge")
    played = room.receive(endpoint_of(FakeSource(answer=answer)), method="GET")
    assert (receipt_of(played).outcome, receipt_of(played).body, played.steps) == (
        Outcome.HANDSHAKE,
        b"challenge",
        (),
    )


def test_secrets_that_are_given_are_not_asked_for(room: Room) -> None:
    """They are labelled, and reach the verifier."""
    source = FakeSource(secrets=["one", Secret("two", label="b")])
    room.receive(endpoint_of(source), (key(),), processed())
    ((one, two),) = source.verified_with
    assert (one.reveal(), one.label, two.reveal(), two.label) == ("one", "secret-1", "two", "b")


def test_secrets_are_asked_for_with_the_delivery(room: Room) -> None:
    """Before anything is believed; the answer is checked like what is configured."""

    def tell(delivery: Delivery) -> object:
        return delivery

    source = FakeSource(secrets=tell)
    played = room.receive(endpoint_of(source), ["one"], (key(),), processed())
    assert isinstance(played.steps[0], Ask)
    assert played.steps[0].function is tell
    assert isinstance(played.steps[0].argument, Delivery)
    assert played.steps[0].argument.body == BODY
    assert receipt_of(played).outcome is Outcome.PROCESSED
    assert [secret.reveal() for secret in source.verified_with[0]] == ["one"]


@pytest.mark.parametrize("nothing", [None, (), [], {}, frozenset()], ids=repr)
def test_no_secret_for_a_delivery_refuses_it(
    room: Room, nothing: object, caplog: pytest.LogCaptureFixture
) -> None:
    """P-CALM: 400; a stranger may name any tenant."""
    source = FakeSource(secrets=print)
    with caplog.at_level(logging.INFO, "webhook_inbox"):
        receipt = receipt_of(room.receive(endpoint_of(source), nothing))
    assert (receipt.status, receipt.reason) == (400, "secret_unknown")
    assert receipt.json() == {
        "outcome": "rejected",
        "reason": "secret_unknown",
        "error": "no signing secret is known for this delivery",
    }
    assert (source.verified_with, room.errors) == ([], [])
    assert [record.message for record in caplog.records] == [
        "endpoint billing refused a delivery: secret_unknown"
    ]


@pytest.mark.parametrize("useless", ["", 7, [""], [None]], ids=repr)
def test_a_secret_of_no_use_is_our_fault(room: Room, useless: object) -> None:
    """503, and reported."""
    receipt = receipt_of(room.receive(endpoint_of(FakeSource(secrets=print)), useless))
    assert (receipt.status, receipt.reason) == (503, "configuration")
    assert [type(error) for _, error in room.errors] == [ConfigurationError]


def test_an_error_while_asking_is_reported_by_its_cause(room: Room, caplog: pytest.LogCaptureFixture) -> None:
    """The hook gets what the user's function raised."""
    error = ConfigurationError("asking for secrets failed")
    error.__cause__ = cause = KeyError("x")
    receipt = receipt_of(room.receive(endpoint_of(FakeSource(secrets=print)), error))
    assert (receipt.status, room.errors) == (503, [("billing", cause)])
    assert [record.message for record in caplog.records] == [
        "endpoint billing: configuration: asking for secrets failed"
    ]


def test_the_schema_is_looked_at_once(room: Room) -> None:
    """Before the first event is recorded, and not with the later ones."""
    room.inbox.schema_served = False
    played = room.receive(endpoint_of(), None, (key(),), processed())
    assert kinds(played) == ["Transact", "Hold", "Transact"]
    look = play(played.steps[0].plan(), [None, (False,)])
    assert played.steps[0].kind is None
    assert (look.params("migrations_exist"), type(look.error)) == (
        [{"schema": SCHEMA}] * 2,
        SchemaVersionError,
    )
    assert kinds(room.receive(endpoint_of(), (key(),), processed())) == ["Hold", "Transact"]


def test_a_schema_that_cannot_be_served_is_looked_at_again(room: Room) -> None:
    """503 until somebody has migrated; no restart is needed."""
    room.inbox.schema_served = False
    for _ in range(2):
        receipt = receipt_of(room.receive(endpoint_of(), SchemaVersionError("run migrate")))
        assert (receipt.status, receipt.reason) == (503, "schema_version")
    assert receipt_of(room.receive(endpoint_of(), None, (key(),), processed())).status == 200


def test_a_key_that_is_held_elsewhere_is_not_waited_for_any_longer(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    """P-ACK: 503, nothing begun, one line; no report: nothing is wrong."""
    played = room.receive(endpoint_of(), ())
    receipt = receipt_of(played)
    assert (receipt.status, receipt.reason, kinds(played)) == (503, "key_busy", ["Hold"])
    assert receipt.json() == {
        "outcome": "unavailable",
        "reason": "key_busy",
        "error": "the first copy is still in flight; send it again",
    }
    assert [record.message for record in caplog.records] == [
        'endpoint billing, event "evt_1": the first copy is still in flight after 4.0s'
    ]
    assert room.errors == []


def several(*event_ids: str) -> FakeSource:
    """A source that reads several events."""
    return FakeSource(*(Identity(event_id=event_id, event_type="booked") for event_id in event_ids))


def test_the_keys_of_a_body_are_held_in_order_each_once(room: Room) -> None:
    """P-FLOW: sorted, so that two deliveries cannot wait for each other."""
    played = room.receive(endpoint_of(several("evt_b", "evt_a", "evt_b")), (key("evt_a"), key("evt_b")))
    assert played.steps[0] == Hold((key("evt_a"), key("evt_b")), 4.0)
    assert played.steps[1].kind == "sync"


def test_what_is_held_elsewhere_holds_none_of_its_mates(room: Room, caplog: pytest.LogCaptureFixture) -> None:
    """P-FLOW: they are recorded, in their places; the answer asks for the delivery again."""
    endpoint = endpoint_of(several("evt_c", "evt_b", "evt_a"))
    played = room.receive(endpoint, (key("evt_a"), key("evt_c")), (processed("evt_c"), processed("evt_a")))
    receipt = receipt_of(played)
    assert (receipt.status, receipt.reason) == (503, "key_busy")
    assert [(each.event_id, each.outcome.value, each.reason) for each in receipt.results] == [
        ("evt_c", "processed", ""),
        ("evt_b", "unavailable", "the first copy is still in flight"),
        ("evt_a", "processed", ""),
    ]
    batch = play(played.steps[1].plan(), [BEGUN, None, (1, 0, "9"), None, None, None, (2, 0, "9")])
    assert [params["event_id"] for params in batch.params("record_event")] == ["evt_a", "evt_c"]
    assert 'event "evt_b": the first copy is still in flight' in caplog.text


def test_one_that_is_left_of_a_body_runs_like_one_that_came_alone(room: Room) -> None:
    """Without a savepoint around it."""
    played = room.receive(endpoint_of(several("evt_a", "evt_b")), (key("evt_b"),), processed("evt_b"))
    assert play(played.steps[1].plan()).names[:2] == ["begin", "record_event"]
    assert [each.outcome.value for each in receipt_of(played).results] == ["unavailable", "processed"]


def test_how_many_are_in_flight_is_told(room: Room, caplog: pytest.LogCaptureFixture) -> None:
    """The ids of many are not listed in one line."""
    room.receive(endpoint_of(several("evt_a", "evt_b", "evt_c")), (key("evt_c"),), processed("evt_c"))
    assert "endpoint billing, event one of 2: the first copy" in caplog.text


def test_a_conflict_is_tried_again_after_a_pause_and_not_for_ever(room: Room) -> None:
    """C43: five times, each pause longer in its bound, with jitter; then 503."""
    conflict = ConflictError("x", sqlstate="40001")
    played = room.receive(endpoint_of(), (key(),), *[conflict, None] * 4, processed())
    assert receipt_of(played).outcome is Outcome.PROCESSED
    assert kinds(played) == ["Hold", *["Transact", "Pause"] * 4, "Transact"]
    pauses = [step.seconds for step in played.steps if isinstance(step, Pause)]
    assert all(0 <= pause <= 0.05 * 2**n for n, pause in enumerate(pauses, start=1))
    given_up = room.receive(endpoint_of(), (key(),), *[conflict, None] * 5)
    receipt = receipt_of(given_up)
    assert (receipt.status, receipt.reason) == (503, "conflict")
    assert kinds(given_up) == ["Hold", *["Transact", "Pause"] * 4, "Transact"]


def test_pauses_grow_and_differ(room: Room) -> None:
    """Two victims of one deadlock must not meet again at once."""
    conflict = ConflictError("x")
    seen = [
        [
            step.seconds
            for step in room.receive(endpoint_of(), (key(),), *[conflict, None] * 4).steps
            if isinstance(step, Pause)
        ]
        for _ in range(50)
    ]
    for position in range(4):
        here = {pauses[position] for pauses in seen}
        assert len(here) > 25
        bound = 0.05 * 2 ** (position + 1)
        assert bound / 2 < max(here) <= bound


FAILURES = [
    (HandlerFailedError("x"), 500, "handler_failed"),
    (TransactionEndedError("x"), 500, "transaction_ended"),
    (StoreUnavailableError("x"), 503, "store_unavailable"),
    (StatementError("x"), 503, "statement"),
]


@pytest.mark.parametrize(
    ("error", "status", "reason"), FAILURES, ids=lambda given: str(getattr(given, "code", given))
)
def test_an_error_is_answered_logged_once_and_reported(
    room: Room, error: InboxError, status: int, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """P-DUP: never swallowed, never a duplicate."""
    receipt = receipt_of(room.receive(endpoint_of(), (key(),), error))
    assert (receipt.status, receipt.reason) == (status, reason)
    assert room.errors == [("billing", error)]
    assert [record.message for record in caplog.records] == [f'endpoint billing, event "evt_1": {reason}: x']


def test_an_error_with_a_cause_is_told_by_where_it_was_raised(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    """P-QUIET: type and frames of what the handler raised, not its text; the hook gets the exception itself."""
    error = HandlerFailedError("x")
    error.__cause__ = cause = ValueError("secret of the payload")
    with pytest.raises(ValueError, match="secret"):
        raise cause
    room.receive(endpoint_of(), (key(),), error)
    (record,) = caplog.records
    assert record.message.startswith(
        'endpoint billing, event "evt_1": handler_failed: ValueError at test_record_flow.py:'
    )
    assert record.message.splitlines()[1].startswith("  test_record_flow.py:")
    assert "secret" not in record.message
    assert room.errors == [("billing", error.__cause__)]


@pytest.mark.parametrize(
    ("error", "reason", "line"),
    [
        (HandlerNotYetError("x", retry_in_seconds=7), "not_yet", "the handler asked to come again in 7s"),
        (KeyBusyError("x"), "key_busy", "the first copy is still in flight after 4.0s"),
    ],
)
def test_what_is_no_failure_is_not_reported(
    room: Room, error: InboxError, reason: str, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    """503 and a line, and nobody is woken."""
    with caplog.at_level(logging.INFO, "webhook_inbox"):
        receipt = receipt_of(room.receive(endpoint_of(), (key(),), error))
    assert (receipt.status, receipt.reason, room.errors) == (503, reason, [])
    assert [record.message for record in caplog.records] == [f'endpoint billing, event "evt_1": {line}']


@pytest.mark.parametrize(
    "error", [HandlerFailedError("x"), TransactionEndedError("x"), StatementError("x"), ConflictError("x")]
)
def test_a_body_that_one_event_spoils_goes_one_by_one(
    room: Room, error: InboxError, caplog: pytest.LogCaptureFixture
) -> None:
    """P-FLOW: each in a transaction of its own, in the order of their keys; the one that fails is set aside."""
    tries: list[object] = [error]
    if isinstance(error, ConflictError):
        tries = [*[error, None] * 4, error]
    failure = HandlerFailedError("y")
    played = room.receive(
        endpoint_of(several("evt_b", "evt_a", "evt_c")),
        (key("evt_a"), key("evt_b"), key("evt_c")),
        *tries,
        processed("evt_a"),
        failure,
        EventResult(outcome=Outcome.QUEUED, event_id="evt_b", state=State.WAITING),
        processed("evt_c"),
    )
    receipt = receipt_of(played)
    assert (receipt.status, receipt.outcome) == (200, Outcome.QUEUED)
    assert [(each.event_id, each.outcome.value) for each in receipt.results] == [
        ("evt_b", "queued"),
        ("evt_a", "processed"),
        ("evt_c", "processed"),
    ]
    alone = [step for step in played.steps if isinstance(step, Transact)][-4:]
    ids = [play(step.plan()).params("record_event")[0] for step in alone]
    assert [(params["event_id"], params["state"]) for params in ids] == [
        ("evt_a", State.PROCESSED),
        ("evt_b", State.PROCESSED),
        ("evt_b", State.WAITING),
        ("evt_c", State.PROCESSED),
    ]
    assert [step.kind for step in alone] == ["sync", "sync", None, "sync"]
    assert room.errors == [("billing", failure)]
    messages = [record.message for record in caplog.records]
    assert messages == [
        f"endpoint billing: the 3 events of one body go one by one: {error.code}: x",
        'endpoint billing, event "evt_b": handler_failed: y',
    ]


@pytest.mark.parametrize("when", ["at once", "when set aside"])
def test_one_whose_key_is_busy_then_holds_none_of_its_mates(room: Room, when: str) -> None:
    """P-FLOW: it shall come again."""
    busy: list[object] = [KeyBusyError("busy")]
    if when == "when set aside":
        busy.insert(0, HandlerFailedError("y"))
    played = room.receive(
        endpoint_of(several("evt_a", "evt_b")),
        (key("evt_a"), key("evt_b")),
        HandlerFailedError("x"),
        *busy,
        processed("evt_b"),
    )
    receipt = receipt_of(played)
    assert receipt.status == 503
    assert [(each.outcome.value, each.reason) for each in receipt.results] == [
        ("unavailable", "busy"),
        ("processed", ""),
    ]


def test_a_database_that_goes_away_meanwhile_is_answered_503(room: Room) -> None:
    """P-ACK: what is committed by then is a duplicate when it comes again."""
    away = StoreUnavailableError("away")
    played = room.receive(
        endpoint_of(several("evt_a", "evt_b")),
        (key("evt_a"), key("evt_b")),
        HandlerFailedError("x"),
        processed("evt_a"),
        away,
    )
    assert (receipt_of(played).status, receipt_of(played).reason) == (503, "store_unavailable")


def test_what_a_body_leaves_waiting_is_logged(room: Room, caplog: pytest.LogCaptureFixture) -> None:
    """The sender hears 200: an operator must learn of it here."""
    waiting = EventResult(
        outcome=Outcome.QUEUED, event_id="evt_b", state=State.WAITING, reason="ValueError at x.py:1 f"
    )
    room.receive(
        endpoint_of(several("evt_a", "evt_b")), (key("evt_a"), key("evt_b")), (processed("evt_a"), waiting)
    )
    assert [record.message for record in caplog.records] == [
        'endpoint billing: event "evt_b" waits: ValueError at x.py:1 f'
    ]


def test_dropped_events_are_answered_in_their_places(room: Room) -> None:
    """They hold no key and are recorded nowhere."""
    source = FakeSource(
        *(Identity(event_id=f"evt_{n}", event_type=type_) for n, type_ in enumerate(("x", "booked", "x")))
    )
    played = room.receive(endpoint_of(source, unhandled="drop"), (key("evt_1"),), processed("evt_1"))
    assert played.steps[0] == Hold((key("evt_1"),), 4.0)
    receipt = receipt_of(played)
    assert [(each.event_id, each.outcome.value, each.state) for each in receipt.results] == [
        ("evt_0", "ignored", None),
        ("evt_1", "processed", "processed"),
        ("evt_2", "ignored", None),
    ]
    assert receipt.results[0].reason == "no handler for x"
    assert [each.unhandled_type for each in receipt.results] == ["x", "", "x"]
    alone = room.receive(endpoint_of(FakeSource(Identity(event_id="e", event_type="x")), unhandled="drop"))
    assert (alone.steps, receipt_of(alone).outcome) == ((), Outcome.IGNORED)


def test_a_type_that_is_refused_refuses_the_whole_body(room: Room, caplog: pytest.LogCaptureFixture) -> None:
    """503, nothing held, nothing stored, one line."""
    source = FakeSource(
        *(Identity(event_id=f"evt_{n}", event_type=type_) for n, type_ in enumerate(("booked", 'x"', "y")))
    )
    played = room.receive(endpoint_of(source, unhandled="refuse"))
    receipt = receipt_of(played)
    assert (receipt.status, receipt.reason, played.steps) == (503, "no_handler", ())
    assert receipt.json() == {
        "outcome": "unavailable",
        "reason": "no_handler",
        "error": "no handler for this type in this release; send it again",
    }
    assert [record.message for record in caplog.records] == [
        r'endpoint billing refused type "x\"": no handler'
    ]
    handled = endpoint_of(FakeSource(), unhandled="refuse")
    assert receipt_of(room.receive(handled, (key(),), processed())).status == 200


def prepared_by(*answers: object) -> Handlers:
    """Handlers with prepare stages where *answers* is not None."""
    handlers = Handlers()
    for number, (answer, function) in enumerate(zip(answers, functions(), strict=False)):
        prepare = None if answer is None else print
        handlers.add(Handler(Pattern("booked"), function, "sync", f"h{number}", prepare=prepare))
    return handlers


def arguments_of(work: Any) -> Any:
    """What a handler will be called with, after its Tx."""
    return work._arguments


def test_a_prepare_stage_runs_outside_after_a_look_for_a_duplicate(room: Room) -> None:
    """Its answer is its own handler's; the others have none."""
    endpoint = endpoint_of(handlers=prepared_by("x", None, "y"))
    played = room.receive(endpoint, (key(),), False, "first", "third", processed())
    assert kinds(played) == ["Hold", "Transact", "Prepare", "Prepare", "Transact"]
    first, third = (step for step in played.steps if isinstance(step, Prepare))
    assert (first.name, third.name, first.seconds_max, first.function) == ("h0", "h2", 20.0, print)
    look = play(played.steps[1].plan(), [None, None])
    assert look.params("find_event") == [key().columns]
    assert look.value is False
    assert first.event is third.event
    assert (first.event.id, first.event.received_at, first.event.attempt) == ("evt_1", None, 1)
    plan = play(played.steps[-1].plan(), [BEGUN, (7, 0, "9")])
    works = [step.work for step in plan.steps if isinstance(step, Run)]
    assert [arguments_of(work)[1:] for work in works] == [("first",), (), ("third",)]


def test_what_is_known_is_not_prepared(room: Room) -> None:
    """The plan finds the duplicate by itself."""
    endpoint = endpoint_of(handlers=prepared_by("x"))
    played = room.receive(endpoint, (key(),), True, processed())
    assert kinds(played) == ["Hold", "Transact", "Transact"]
    assert played.steps[1].kind is None
    plan = play(played.steps[2].plan(), [BEGUN, (7, 0, "9")])
    works = [step.work for step in plan.steps if isinstance(step, Run)]
    assert [arguments_of(work)[1:] for work in works] == [(None,)]


@pytest.mark.parametrize(("verdict", "state"), [(Ignore("why"), State.IGNORED), (GiveUp("why"), State.DEAD)])
def test_a_verdict_of_the_prepare_stage_counts_like_the_handlers(
    room: Room, verdict: Exception, state: State
) -> None:
    """Recorded without running any handler."""
    endpoint = endpoint_of(handlers=prepared_by("x", "y"))
    played = room.receive(endpoint, (key(),), False, verdict, processed())
    params = recorded(played)
    assert (params["state"], params["last_error"]) == (state, "why")
    assert kinds(played) == ["Hold", "Transact", "Prepare", "Transact"]


def test_not_yet_of_the_prepare_stage_comes_again_later(room: Room) -> None:
    """503 with the time that was asked for."""
    endpoint = endpoint_of(handlers=prepared_by("x"))
    receipt = receipt_of(room.receive(endpoint, (key(),), False, NotYet("x", retry_in_seconds=3)))
    assert (receipt.status, dict(receipt.headers)["retry-after"]) == (503, "3")


@pytest.mark.parametrize("why", ["prepare", "kinds"])
def test_a_body_whose_handlers_cannot_share_a_transaction_goes_one_by_one(room: Room, why: str) -> None:
    """A prepare stage runs outside of every transaction; ``def`` and ``async def`` run on different connections."""
    handlers = prepared_by("x") if why == "prepare" else handlers_of("a")
    handlers.add(Handler(Pattern("other"), repr, "async", "b"))
    source = FakeSource(
        Identity(event_id="evt_1", event_type="booked"), Identity(event_id="evt_2", event_type="other")
    )
    look: list[object] = [False, "given"] if why == "prepare" else []
    played = room.receive(
        endpoint_of(source, handlers=handlers),
        (key("evt_1"), key("evt_2")),
        *look,
        processed("evt_1"),
        processed("evt_2"),
    )
    assert receipt_of(played).outcome is Outcome.PROCESSED
    assert [step.kind for step in played.steps if isinstance(step, Transact)][-2:] == ["sync", "async"]
    assert room.errors == []
    failed = HandlerFailedError("x")
    spoiled = room.receive(
        endpoint_of(source, handlers=handlers),
        (key("evt_1"), key("evt_2")),
        *look,
        failed,
        processed("evt_1"),
        processed("evt_2"),
    )
    assert receipt_of(spoiled).status == 200
    assert room.errors == [("billing", failed)]


SOME = Delivery(method="POST", url="/", headers=Headers(), body=BODY, received_at=0.0)


@pytest.mark.parametrize(
    ("mode", "source", "handlers"),
    [
        ("queued", FakeSource(), None),
        ("queued", several("evt_1", "evt_2"), None),
        ("hybrid", several("evt_1", "evt_2"), None),
        ("hybrid", FakeSource(), Handlers()),
    ],
)
def test_what_is_run_later_is_recorded_for_the_worker(
    room: Room, mode: Any, source: FakeSource, handlers: Handlers | None
) -> None:
    """Queued, and hybrid where there is nothing to run or several events: one step for all of them."""
    endpoint = replace(endpoint_of(source, handlers=handlers), mode=mode)
    events = [each.event_id for each in source.readings if isinstance(each, Identity)]
    queued = [EventResult(outcome=Outcome.QUEUED, event_id=each, state=State.WAITING) for each in events]
    played = room.receive(endpoint, tuple(queued))
    (step,) = played.steps
    assert isinstance(step, Enqueue)
    assert [arrival.key for arrival in step.arrivals] == [key(each) for each in events]
    assert (step.revive, step.to.wait_seconds, step.to.handler_seconds_max) == (False, 4.0, 20.0)
    assert receipt_of(played).results == tuple(queued)


def test_a_hybrid_endpoint_runs_one_event_under_a_lease(room: Room) -> None:
    """This process takes a lease first; without one nothing is recorded."""
    played = room.receive(replace(endpoint_of(), mode="hybrid"), StoreUnavailableError("away"))
    assert kinds(played) == ["Transact"]
    assert play(played.steps[0].plan(), [None]).params("register_worker")[0]["name"] == "w"
    assert (receipt_of(played).status, receipt_of(played).reason) == (503, "store_unavailable")
