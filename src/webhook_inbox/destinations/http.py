"""
Post messages to a URL, signed by Standard Webhooks.

    POST /hooks                                  one request a message
    webhook-id: <message id>                     the same on every attempt: the receiver's key against duplicates
    webhook-timestamp, webhook-signature         of this attempt
    {"type": ..., "timestamp": ..., "data": ...}

What the other side answers decides, by the specification's own table: 2xx is a confirmation; 410 says that nobody is
there any more; 429, and 503 with ``Retry-After``, ask for a pause; everything else, redirects included, is a failure
that is tried again. No redirect is followed, no proxy of the environment is asked, no cookie is kept, and no more than
64 KiB of an answer is read.

Source: Standard Webhooks specification 1.0.0, "Webhook headers", "Payload structure", "Status codes".
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from webhook_inbox._version import __version__
from webhook_inbox.destinations.broker import require
from webhook_inbox.destinations.standard_signing import Signer
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.instants import http_date
from webhook_inbox.model.message import Failed, Limits, Message, Sent, Verdict
from webhook_inbox.model.secret import SecretsGiven

if TYPE_CHECKING:
    import httpcore

    from webhook_inbox.destinations.addresses import GuardedBackend

ANSWER_BYTES_MAX = 65_536
RETRY_SECONDS_MAX = 86_400.0
_CONNECT_SECONDS_MAX = 5.0
# Said by us alone, whatever a message's own headers are called.
_OURS = frozenset(
    {
        "connection",
        "content-length",
        "content-type",
        "expect",
        "host",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


class Http:
    """
    Post each message to *url*.

    Args:
        url: ``https://``; ``http://`` only with *allow_private*.
        secret: ``whsec_...`` or ``whsk_...`` (Ed25519); several while one is rolled, each signs; or a callable.
        allow_private: Whether addresses that are not public will do: loopback, private networks, the cloud's metadata
            service. Never for a URL that somebody else may choose.
        seconds_max: Seconds from the connection to the end of the answer.
        concurrency_max: Requests that are under way at once, of one relay.
        trust: Whose certificates to believe; the system's authorities unless told.

    Raises:
        ConfigurationError: The URL or a secret cannot be used, or the extra ``http`` is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        secret: SecretsGiven,
        allow_private: bool = False,
        seconds_max: float = 15.0,
        concurrency_max: int = 10,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        require("httpcore", package="httpcore", extra="http")
        self._url = _checked(url, allow_private=allow_private)
        self._signer = Signer(secret)
        self._allow_private = allow_private
        self._seconds_max = seconds_max
        self._trust = trust
        self._backend: GuardedBackend | None = None
        self._pool: httpcore.AsyncConnectionPool | None = None
        parts = urlsplit(url)
        self.place = f"http {parts.scheme}://{parts.netloc}"  # the path of many a webhook's URL is its secret
        self.limits = Limits(
            batch_messages_max=1, batches_max=concurrency_max, send_seconds_max=seconds_max + 1.0
        )

    async def open(self) -> None:
        """Make the pool of connections; the first request connects."""
        import httpcore

        from webhook_inbox.destinations.addresses import GuardedBackend

        self._backend = GuardedBackend(allow_private=self._allow_private)
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=self._trust or ssl.create_default_context(),
            max_connections=self.limits.batches_max,
            keepalive_expiry=30.0,
            network_backend=self._backend,
        )

    async def send(self, messages: Sequence[Message]) -> Sequence[Verdict]:
        """Post each of *messages*."""
        return await asyncio.gather(*(self._post(each) for each in messages))

    async def close(self) -> None:
        """Close the connections."""
        backend, self._backend = self._backend, None
        pool, self._pool = self._pool, None
        if backend is not None:
            backend.close()
        if pool is not None:
            await pool.aclose()

    async def _post(self, message: Message) -> Verdict:
        import httpcore

        try:
            async with asyncio.timeout(self._seconds_max):
                return await self._answered(message)
        except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
            return Failed(f"no connection: {_why(error)}", stop=True)
        except (httpcore.TimeoutException, TimeoutError):
            return Failed(f"no answer in {self._seconds_max:g} s")
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            return Failed(f"the connection broke: {_why(error)}")

    async def _answered(self, message: Message) -> Verdict:
        if self._pool is None:
            raise ConfigurationError("Http: send() before open()")
        body = body_of(message)
        async with self._pool.stream(
            "POST",
            self._url,
            headers=list(self._headers(message, body).items()),
            content=body,
            extensions={"timeout": {"connect": min(_CONNECT_SECONDS_MAX, self._seconds_max / 2)}},
        ) as answer:
            seen = 0
            async for part in answer.aiter_stream():
                seen += len(part)
                if seen > ANSWER_BYTES_MAX:  # leaving it closes the connection
                    break
            return verdict_of(answer.status, {key.lower(): value for key, value in answer.headers})

    def _headers(self, message: Message, body: bytes) -> dict[str, str]:
        now = int(time.time())
        message_id = str(message.id)
        return {
            **{name: value for name, value in message.headers.items() if name not in _OURS},
            "host": urlsplit(self._url).netloc,
            "content-type": "application/json",
            "content-length": str(len(body)),
            "user-agent": f"webhook-inbox/{__version__}",
            "webhook-id": message_id,
            "webhook-timestamp": str(now),
            "webhook-signature": self._signer.signature(message_id, now, body),
        }


def body_of(message: Message) -> bytes:
    """Give the body: the same bytes on every attempt, as receivers may compare them."""
    event_type = json.dumps(message.event_type)
    timestamp = json.dumps(message.created_at.astimezone(UTC).isoformat().replace("+00:00", "Z"))
    return f'{{"type": {event_type}, "timestamp": {timestamp}, "data": '.encode() + message.payload + b"}"


def verdict_of(status: int, headers: Mapping[bytes, bytes]) -> Verdict:
    """Say what an answer means; nothing of its body is looked at."""
    if 200 <= status < 300:  # noqa: PLR2004 - what the specification calls success
        return Sent()
    reason = f"answered {status}"
    wait = retry_after(headers.get(b"retry-after"))
    if status == HTTPStatus.GONE:
        return Failed(f"{reason}: nobody is there any more", permanent=True, stop=True)
    if status == HTTPStatus.TOO_MANY_REQUESTS or (
        status == HTTPStatus.SERVICE_UNAVAILABLE and wait is not None
    ):
        return Failed(reason, retry_in_seconds=wait, stop=True)
    return Failed(reason, retry_in_seconds=wait)


def retry_after(value: bytes | None) -> float | None:
    """Read ``Retry-After``, seconds or a date, at most a day; None where it cannot be read, or asks for no pause."""
    text = (value or b"").decode("latin-1").strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:10]), RETRY_SECONDS_MAX) or None
    at = http_date(text)
    seconds = 0.0 if at is None else (at - datetime.now(UTC)).total_seconds()
    return min(max(seconds, 0.0), RETRY_SECONDS_MAX) or None


def _why(error: BaseException) -> str:
    """Say what kind of failure it was; the text of one that is not ours may quote anything (P-QUIET)."""
    from webhook_inbox.destinations.addresses import AddressError

    while (
        not isinstance(error, AddressError) and (beneath := error.__cause__ or error.__context__) is not None
    ):
        error = beneath
    return str(error) if isinstance(error, AddressError) else type(error).__name__


def _checked(url: str, *, allow_private: bool) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ConfigurationError("Http(url): it is no URL") from None
    if parts.scheme not in ("https", "http") or not parts.hostname or port == 0:
        raise ConfigurationError("Http(url): give an address such as https://mail.example/hooks")
    if "@" in parts.netloc:
        raise ConfigurationError("Http(url): leave out user and password; the signature says who sends")
    if parts.scheme == "http" and not allow_private:
        raise ConfigurationError(
            "Http(url): http:// can be read and changed on its way; give https://, or say allow_private=True"
        )
    if not url.isascii() or any(each.isspace() for each in url):
        raise ConfigurationError("Http(url): write it in ASCII, without blanks (a name as xn--...)")
    return url
