"""What is no framework's request is refused by what it is, before anything is read of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from webhook_inbox import Inbox
from webhook_inbox.errors import ConfigurationError


@pytest.mark.parametrize("given", [{"body": b"canary"}, b"canary", None], ids=["dict", "bytes", "None"])
def test_receive_request_says_what_it_takes(given: Any) -> None:
    """In an event loop and on a thread; and where a delivery goes that somebody has read already."""
    inbox = Inbox("postgresql://127.0.0.1:1/never_asked")
    said = rf"the framework's own request, not a {type(given).__name__}; .* inbox\.receive\(endpoint, "
    with pytest.raises(ConfigurationError, match=said) as caught:
        inbox.receive_request_sync(given)
    with pytest.raises(ConfigurationError, match=said):
        asyncio.run(inbox.receive_request(given))
    assert "canary" not in str(caught.value)
    inbox.close()
