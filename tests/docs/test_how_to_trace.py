"""The page about traces and logs runs as it stands."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from webhook_inbox.cli.logs import JsonLines
from webhook_inbox.telemetry.events import EVENT_RUN

TEXT = (Path(__file__).parents[2] / "docs" / "how-to" / "trace.md").read_text(encoding="utf-8")
USE = """
import asyncio, time
from webhook_inbox import Inbox
from webhook_inbox.sources import Stripe
from webhook_inbox.testing.signing import sign_stripe

inbox = Inbox()
inbox.endpoint("billing", Stripe("whsec_fake"))

async def main():
    body = b'{"id": "evt_1", "object": "event", "type": "invoice.paid"}'
    async with inbox.running():
        await inbox.receive("billing", headers=sign_stripe(body, "whsec_fake", int(time.time())), body=body)

asyncio.run(main())
"""


def test_the_set_up_exports_the_spans_of_an_app(database: str) -> None:
    """With the block of the page above its ``Inbox``, an app tells of its deliveries."""
    (set_up,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    environment = {**os.environ, "WEBHOOK_INBOX_DATABASE_URL": database}
    done = subprocess.run(
        [sys.executable, "-c", set_up + USE],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
    )
    assert (done.returncode, '"name": "receive billing"' in done.stdout) == (0, True), done.stderr


def test_the_line_of_json_is_one_that_is_written(caplog: pytest.LogCaptureFixture) -> None:
    """But for its time, it is what the service writes of such an event."""
    (shown,) = re.findall(r"^{.*}$", TEXT, re.MULTILINE)
    with caplog.at_level(logging.INFO, logger="webhook_inbox"):
        EVENT_RUN.log("billing", '"evt_1"', "processed", 1)
    line = json.loads(JsonLines().format(caplog.records[0]))
    assert json.loads(shown) | {"time": line["time"]} == line
