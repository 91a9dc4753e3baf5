"""Hand claimed messages to a destination, and take whatever it does for a verdict on each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from webhook_inbox.destinations.destination import Destination
from webhook_inbox.drivers.waiting import is_cancelled
from webhook_inbox.model.failure import describe
from webhook_inbox.model.message import Failed, Message, Verdict
from webhook_inbox.protocol.relay import Claimed
from webhook_inbox.telemetry.spans import sending, sent

# A message that makes a client fail takes the others of its batch along: from this attempt on each goes alone (P-FLOW).
ALONE_FROM = 3


def parted(claims: Sequence[Claimed], size: int) -> list[list[Sequence[Claimed]]]:
    """
    Share *claims* out into batches of *size*, in their order.

    Returns:
        What is to be sent beside each other: a batch each, and last those that have failed more than once, one by one.
    """
    alone = [each for each in claims if size > 1 and each.message.attempt >= ALONE_FROM]
    rest = [each for each in claims if not (size > 1 and each.message.attempt >= ALONE_FROM)]
    batches: list[list[Sequence[Claimed]]] = [
        [rest[start : start + size]] for start in range(0, len(rest), size)
    ]
    return batches + ([[[each] for each in alone]] if alone else [])


async def send(destination: Destination, claims: Sequence[Claimed]) -> tuple[Sequence[Verdict], bool]:
    """
    Send *claims*; what raises, hangs or answers for others leaves all of them in doubt.

    Returns:
        A verdict each, in their order; and whether the destination can go on as it is.
    """
    messages = [each.message for each in claims]
    with sending(messages) as span:
        verdicts, goes_on = await _send(destination, messages)
        sent(span, verdicts)
    return verdicts, goes_on


async def _send(destination: Destination, messages: Sequence[Message]) -> tuple[Sequence[Verdict], bool]:
    seconds_max = destination.limits.send_seconds_max
    try:
        async with asyncio.timeout(seconds_max) as limit:
            verdicts = await destination.send(messages)
        if len(verdicts) == len(messages) and all(isinstance(each, Verdict) for each in verdicts):
            return verdicts, True
        reason = "not one verdict for each message: a defect of the destination"
    except TimeoutError as error:
        reason = f"no answer in {seconds_max:g} s" if limit.expired() else str(describe(error))
    except asyncio.CancelledError as error:
        if is_cancelled(error):
            raise
        reason = str(describe(error))  # nobody has told us to end: a client has cancelled what it waited for
    except Exception as error:  # noqa: BLE001 - whatever a client raises, it is why they failed
        reason = str(describe(error))
    return [Failed(reason)] * len(messages), False
