"""P-CALM over HTTP: whatever bytes a stranger sends, there is one short answer below 500, and nothing is raised."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings, strategies as st

from tests.fixtures.asgi import Exchange, chunks, once, scope_of
from webhook_inbox.http.asgi import AsgiReceiver
from webhook_inbox.http.messages import Message, Scope
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.receipt import EventResult, Receipt
from webhook_inbox.model.settings import Settings
from webhook_inbox.model.states import Outcome
from webhook_inbox.protocol import answers
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.sources import Rejected, Stripe

SECRET = "whsec_fake_calm_00000000"
PLAN = EndpointPlan(
    name="billing",
    source=Stripe(SECRET),
    mode="inline",
    settings=Settings(body_bytes_max=200, header_bytes_max=500),
)
LOADED_NAMES = [
    b"content-length",
    b"transfer-encoding",
    b"content-encoding",
    b"host",
    b"stripe-signature",
    b"upgrade",
    b"expect",
    b"connection",
    b"webhook-id",
]
LOADED_VALUES = [
    b"0",
    b"3",
    b"chunked",
    b"gzip",
    b"identity",
    b"t=1,v1=00",
    b"\xff\x00\r\n",
    b"201",
    b" 3",
    b"h2c",
]


async def settle(plan: EndpointPlan, delivery: Delivery) -> Receipt:
    """Verify as the inbox does; a stranger has no secret, so nothing gets further."""
    verdict = plan.source.verify(delivery, plan.checked_secrets(SECRET))
    if isinstance(verdict, Rejected):
        return answers.rejected(verdict)
    return answers.accepted([EventResult(outcome=Outcome.PROCESSED, event_id="forged")])


APP = AsgiReceiver(find={"billing": PLAN}.get, deliver=settle)

names = st.sampled_from(LOADED_NAMES) | st.binary(max_size=30).map(bytes.lower)
values = st.sampled_from(LOADED_VALUES) | st.binary(max_size=60)
paths = st.sampled_from(["/billing", "/billing/", "//billing", "/hooks/billing", "*", ""]) | st.text(
    max_size=40
)


@st.composite
def scopes(draw: st.DrawFn) -> Scope:
    """Anything that a server might make of a request."""
    path = draw(paths)
    more: dict[str, Any] = {
        "raw_path": draw(
            st.sampled_from([None, path.encode("utf-8", "surrogatepass")]) | st.binary(max_size=40)
        ),
        "query_string": draw(st.binary(max_size=40)),
        "root_path": draw(st.sampled_from(["", "/hooks", "/billing", "/", "//a"])),
        "http_version": draw(st.sampled_from(["1.0", "1.1", "2", "3"])),
        "server": draw(st.sampled_from([None, ("h", 1), ("/run/socket", None)])),
    }
    methods = st.sampled_from(["POST", "POST", "POST", "GET", "HEAD", "OPTIONS", "post"]) | st.text(
        max_size=8
    )
    headers = draw(st.lists(st.tuples(names, values), max_size=draw(st.sampled_from([4, 12, 150]))))
    scope = scope_of(path, method=draw(methods), headers=headers, **more)
    for key in draw(st.sets(st.sampled_from(["raw_path", "query_string", "root_path", "server"]))):
        del scope[key]
    return scope


@st.composite
def bodies(draw: st.DrawFn) -> tuple[list[Message], bool]:
    """Chunks of any size, complete, cut off or never ending; True where the client stays and says no more."""
    parts = draw(st.lists(st.binary(max_size=90), min_size=1, max_size=12))
    ending = draw(st.sampled_from(["complete", "gone", "hangs"]))
    messages = chunks(*parts, complete=ending == "complete")
    return (messages[:-1] if ending == "hangs" else messages), ending == "hangs"


def lost_by_the_application(scope: Scope, body: list[Message]) -> bool:
    """Whether an announced body is called complete and empty, which only an application's middleware does."""
    given = dict(scope["headers"])
    return b"content-length" in given and b"upgrade" not in given and not any(m.get("body") for m in body)


def check_answer(said: Exchange) -> None:
    """One whole answer, as HTTP wants it, and short."""
    assert [message["type"] for message in said.sent[:2]] == ["http.response.start", "http.response.body"]
    assert [message["more_body"] for message in said.sent[1:]][-1] is False
    assert sum(not message["more_body"] for message in said.sent[1:]) == 1
    assert int(said.headers["content-length"]) == len(said.body) < 500
    assert all(value.isprintable() for value in said.headers.values())
    assert said.json()["outcome"] == "rejected" or said.status == 503
    assert b"Traceback" not in said.body


@settings(max_examples=400, deadline=None)
@given(scopes(), bodies())
@example(
    scope_of("/billing", headers=[(b"content-length", b"3"), (b"upgrade", b"h2c")]), (chunks(b""), False)
)
@example(scope_of("/billing", headers=[(b"content-length", "²".encode())]), (chunks(b"ab"), False))
@example(scope_of("/\ud800/billing", root_path="/\ud800", raw_path=None), (chunks(b"x"), False))
def test_no_request_of_a_stranger_gives_a_5xx_or_an_exception(
    scope: Scope, body: tuple[list[Message], bool]
) -> None:
    """P-CALM, P-RAW: every request has one answer below 500, and none is believed."""
    messages, hangs = body
    said = once(APP, scope, list(messages), hang=hangs)
    check_answer(said)
    assert 400 <= said.status < 500 or lost_by_the_application(scope, messages)
