"""Secrets that are asked for with each delivery: rotation and tenants without a restart."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.fixtures.receiving import STRIPE_SECRET, Bench, books, stripe_event
from tests.integration.conftest import OpenBench
from webhook_inbox import Outcome, Receipt, Secret
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.sources import Stripe


def asking(bench: Bench, answer: Callable[[Any], Any], *, async_: bool) -> None:
    """Open an endpoint whose secrets are *answer*'s, asked on the loop where *async_*."""

    async def asks(delivery: Any) -> Any:
        return answer(delivery)

    bench.on(bench.endpoint(source=Stripe(secrets=asks if async_ else answer)), do=books)


@pytest.fixture(params=[False, True], ids=["def", "async def"])
def async_(request: pytest.FixtureRequest, bench: Bench) -> bool:
    """Whether the function that is asked is an ``async def``; a thread can await none."""
    return bool(request.param) and bench.way != "thread"


def refused(receipt: Receipt) -> tuple[int, str]:
    """How a delivery was refused."""
    return receipt.status, receipt.reason


def test_the_secrets_of_each_delivery_are_asked_for(bench: Bench, async_: bool) -> None:
    """The function sees the delivery before it is believed; the label of the secret that matched is recorded."""
    seen: list[Any] = []

    def answer(delivery: Any) -> Any:
        seen.append(delivery)
        return [Secret("whsec_fake_of_old", label="old"), Secret(STRIPE_SECRET, label="of acct_1")]

    asking(bench, answer, async_=async_)
    assert bench.deliver("evt_1", headers=[("X-Tenant", "acct_1")]).outcome is Outcome.PROCESSED
    (delivery,) = seen
    assert (delivery.headers["x-tenant"], delivery.body) == ("acct_1", stripe_event("evt_1"))
    assert bench.events()[0]["secret_label"] == "of acct_1"


def test_a_secret_can_be_rolled_without_a_restart(bench: Bench, async_: bool) -> None:
    """What is answered counts from the next delivery on."""
    current: list[str] = ["whsec_fake_of_somebody_else"]
    asking(bench, lambda _: current[0], async_=async_)
    assert refused(bench.deliver("evt_1")) == (400, "signature_mismatch")
    current[0] = STRIPE_SECRET
    assert bench.deliver("evt_1").outcome is Outcome.PROCESSED
    current[0] = "whsec_fake_of_somebody_else"
    assert refused(bench.deliver("evt_1")) == (400, "signature_mismatch")


@pytest.mark.parametrize("nothing", [None, (), [], {}], ids=repr)
def test_a_stranger_who_names_no_tenant_is_refused(bench: Bench, async_: bool, nothing: Any) -> None:
    """P-CALM: no secret for this delivery is the sender's affair: 400, no row."""
    asking(bench, lambda _: nothing, async_=async_)
    receipt = bench.deliver("evt_1")
    assert (receipt.outcome, *refused(receipt)) == (Outcome.REJECTED, 400, "secret_unknown")
    assert bench.events() == []


@pytest.mark.parametrize("useless", ["", " ", 7, b"bytes", ["good", ""], "sk_test_fake_api_key"], ids=repr)
def test_a_secret_that_cannot_be_right_is_our_fault(bench: Bench, async_: bool, useless: Any) -> None:
    """P-ACK, P-QUIET: 503, the value in no answer and no message; the resend is believed once it is mended."""
    errors: list[BaseException] = []
    bench.inbox.on_error(lambda _, error: errors.append(error))
    asking(bench, lambda _: useless, async_=async_)
    receipt = bench.deliver("evt_1")
    assert (receipt.outcome, *refused(receipt)) == (Outcome.UNAVAILABLE, 503, "configuration")
    assert isinstance(errors[0], ConfigurationError)
    assert "sk_test_fake" not in str(errors[0]) + receipt.body.decode()


def test_a_function_that_raises_is_our_fault(bench: Bench, async_: bool) -> None:
    """P-ACK, P-QUIET: 503; the hook gets the error itself, the answer does not quote it."""
    errors: list[BaseException] = []
    bench.inbox.on_error(lambda _, error: errors.append(error))

    def answer(_: Any) -> Any:
        raise KeyError("vault of the payload")

    asking(bench, answer, async_=async_)
    receipt = bench.deliver("evt_1")
    assert (receipt.outcome, *refused(receipt)) == (Outcome.UNAVAILABLE, 503, "configuration")
    assert [type(error) for error in errors] == [KeyError]
    assert b"vault" not in receipt.body
    assert bench.events() == []


@pytest.mark.parametrize("open_bench", ["thread"], indirect=True)
def test_a_thread_cannot_ask_an_async_function(bench: Bench) -> None:
    """``receive_sync`` says what is wrong, and nothing warns of a coroutine that nobody awaited."""
    errors: list[BaseException] = []
    bench.inbox.on_error(lambda _, error: errors.append(error))
    asking(bench, lambda _: STRIPE_SECRET, async_=True)
    assert refused(bench.deliver("evt_1")) == (503, "configuration")
    assert "async def" in str(errors[0])


@pytest.mark.parametrize("open_bench", ["loop", "loop and threads"], indirect=True)
def test_a_def_function_does_not_stop_the_loop(open_bench: OpenBench) -> None:
    """P-FLOW: it may ask a database or a vault; deliveries to other endpoints go on meanwhile."""
    bench = open_bench()
    asked, answer_now = threading.Event(), threading.Event()

    def answer(_: Any) -> Any:
        asked.set()
        assert answer_now.wait(30)
        return STRIPE_SECRET

    asking(bench, answer, async_=False)
    bench.on(bench.endpoint("other"), do=books)
    slow: list[Receipt] = []
    thread = threading.Thread(target=lambda: slow.append(bench.deliver("evt_1")))
    thread.start()
    assert asked.wait(30)
    began = time.monotonic()
    assert bench.deliver("evt_2", to="other").outcome is Outcome.PROCESSED
    assert time.monotonic() - began < 10
    answer_now.set()
    thread.join(30)
    assert slow[0].outcome is Outcome.PROCESSED


@pytest.mark.parametrize("open_bench", ["loop"], indirect=True)
def test_a_function_that_was_cancelled_is_our_fault(bench: Bench) -> None:
    """P-ACK, P-CALM: what an async def function waited for was cancelled: 503; the delivery itself is not."""

    async def asks(delivery: Any) -> Any:
        task = asyncio.create_task(asyncio.sleep(10))
        task.cancel()
        await task

    bench.on(bench.endpoint(source=Stripe(secrets=asks)), do=books)
    receipt = bench.deliver("evt_1")
    assert (receipt.outcome, *refused(receipt)) == (Outcome.UNAVAILABLE, 503, "configuration")


@pytest.mark.parametrize("open_bench", ["loop"], indirect=True)
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_function_that_does_not_answer_is_not_waited_for(open_bench: OpenBench, kind: str) -> None:
    """P-ACK, P-CALM: past handler_seconds_max 503, and nothing waits on: strangers cause deliveries, too."""
    bench, go = open_bench(handler_seconds_max=0.3), threading.Event()

    async def hangs(delivery: Any) -> Any:
        await asyncio.Event().wait()

    secrets = hangs if kind == "async def" else lambda _: go.wait(30)
    bench.on(bench.endpoint(source=Stripe(secrets=secrets)), do=books)
    receipt = bench.deliver("evt_1")
    go.set()
    assert (receipt.outcome, *refused(receipt)) == (Outcome.UNAVAILABLE, 503, "configuration")
