"""Call the functions that users gave beside their handlers: prepare stages, and those that are asked for secrets."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable
from typing import cast

from webhook_inbox.drivers.waiting import is_cancelled
from webhook_inbox.errors import (
    ConfigurationError,
    HandlerFailedError,
    HandlerTimeoutError,
    VerificationKeyError,
)
from webhook_inbox.model.failure import describe
from webhook_inbox.model.steering import STEERING
from webhook_inbox.protocol.flow import Ask, Prepare


def prepared(step: Prepare) -> object:
    """
    Run a prepare stage on this thread; give its answer, or the Steering that it raised.

    Raises:
        HandlerError: It failed, or took too long.
    """
    started = time.monotonic()
    try:
        answer = step.function(step.event)
    except STEERING as steering:
        return steering
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        raise HandlerFailedError(f"{step.name}: prepare failed") from error
    if inspect.iscoroutine(answer):
        answer.close()
        raise HandlerFailedError(f"{step.name}: prepare is async def, which a thread cannot await")
    if time.monotonic() - started > step.seconds_max:
        raise HandlerTimeoutError(f"{step.name}: prepare took longer than {step.seconds_max}s")
    return answer


async def prepared_on_loop(step: Prepare) -> object:
    """Run an ``async def`` prepare stage; see ``prepared``."""
    try:
        async with asyncio.timeout(step.seconds_max) as limit:
            return await step.function(step.event)
    except STEERING as steering:
        return steering
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        if is_cancelled(error):
            raise
        if limit.expired():
            raise HandlerTimeoutError(f"{step.name}: prepare took longer than {step.seconds_max}s") from error
        raise HandlerFailedError(f"{step.name}: prepare failed") from error


def answered(step: Ask) -> object:
    """
    Ask on this thread; give the answer.

    Raises:
        ConfigurationError: The function failed, or is ``async def``.
        VerificationKeyError: As the function raised it.
    """
    answer = _call(step)
    if inspect.iscoroutine(answer):
        answer.close()
        raise ConfigurationError(
            "secrets are asked for by an async def function, which a thread cannot await"
        )
    return answer


async def answered_on_loop(step: Ask) -> object:
    """
    Ask on the running loop; see ``answered``.

    What is no ``async def`` is called on a thread: it may ask a database, which would stop the loop. One that has not
    answered in time is left to its thread.
    """
    try:
        async with asyncio.timeout(step.seconds_max) as limit:
            if inspect.iscoroutinefunction(inspect.unwrap(step.function)):
                answer = _call(step)
            else:
                answer = await asyncio.to_thread(_call, step)
            return await cast("Awaitable[object]", answer) if inspect.isawaitable(answer) else answer
    except (ConfigurationError, VerificationKeyError):
        raise
    except (Exception, asyncio.CancelledError) as error:
        if is_cancelled(error):
            raise
        if limit.expired():
            raise ConfigurationError(f"asking for secrets took longer than {step.seconds_max}s") from None
        raise _failed(error) from error


def _call(step: Ask) -> object:
    try:
        return step.function(step.argument)
    except VerificationKeyError:
        raise
    except Exception as error:
        raise _failed(error) from error


def _failed(error: BaseException) -> ConfigurationError:
    return ConfigurationError(f"asking for secrets failed: {describe(error)}")
