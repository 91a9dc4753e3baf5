"""Deliver a sample's event as a plan: its prepare stages, and the transaction that holds its record and its effect."""

from __future__ import annotations

import asyncio
import inspect
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from webhook_inbox.errors import HandlerFailedError
from webhook_inbox.model.receipt import EventResult
from webhook_inbox.model.steering import STEERING
from webhook_inbox.protocol.flow import Flow, Prepare, Transact
from webhook_inbox.protocol.inline import prepare_item
from webhook_inbox.protocol.record import record_one
from webhook_inbox.protocol.recording import Item, Recording
from webhook_inbox.protocol.steps import Plan

T = TypeVar("T")


def delivering(item: Item, to: Recording) -> Plan[EventResult]:
    """Record *item* with its effect, as an inline endpoint does; see ``record_one``."""
    ready = yield from _played(prepare_item(item, to))
    return (yield from record_one(ready, to))


def _played(flow: Flow[T]) -> Plan[T]:
    """Do on one connection what *flow* asks for: it runs plans that leave no transaction open, and prepare stages."""
    answer: object = None
    while True:
        try:
            step = flow.send(answer)
        except StopIteration as stop:
            value: T = stop.value
            return value
        match step:
            case Transact(plan):
                answer = yield from plan()
            case Prepare():
                answer = _prepared(step)
            case _:
                raise TypeError(f"{type(step).__name__} is no part of a prepare stage")


def _prepared(step: Prepare) -> object:
    try:
        if not inspect.iscoroutinefunction(step.function):
            return step.function(step.event)
        # This thread may have an event loop already, which stands still while its plan asks.
        with ThreadPoolExecutor(1) as beside:
            return beside.submit(asyncio.run, step.function(step.event)).result()
    except STEERING as steering:
        return steering
    except Exception as error:
        raise HandlerFailedError(f"{step.name}: prepare failed") from error
