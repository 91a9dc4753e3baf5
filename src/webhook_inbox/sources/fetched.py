"""
Fetch what a provider publishes for all its receivers, such as a certificate, and keep it for a while.

Only from an address that the source has checked: https, to a host on its list. No redirect is followed, no proxy of the
environment is asked, and both size and time are bounded. One fetch is under way at a time, and of what was never there
so many a minute: a stranger who names addresses can neither have us ask for them all, nor drive out what was there.

    200          kept for an hour
    4xx          None, for a minute: the provider knows no such thing, so whoever named it is a stranger
    anything else raises: the endpoint answers 503, and the provider sends again
"""

from __future__ import annotations

import http.client
import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

BYTES_MAX = 65_536
FETCH_SECONDS_MAX = 5.0
KEPT_SECONDS, REFUSED_SECONDS = 3_600, 60
KEPT_MAX = 64
FETCHES_A_MINUTE_MAX = 20
_MINUTE_SECONDS = 60
_CHUNK_BYTES = 4_096


def fetch(url: str, *, trust: ssl.SSLContext | None = None, port: int | None = None) -> bytes | None:
    """
    Give what is at *url*, an https address; None where its host answers 4xx.

    Args:
        trust: Which certificates of hosts to believe; those of the system unless told.
        port: Where to connect to, if not at the address's own port.

    Raises:
        OSError: The host cannot be reached, is too slow, says too much, or answers otherwise.
    """
    parts = urlsplit(url)
    until = time.monotonic() + FETCH_SECONDS_MAX
    connection = http.client.HTTPSConnection(
        parts.hostname or "",
        port or parts.port,
        timeout=FETCH_SECONDS_MAX,
        context=trust or ssl.create_default_context(),
    )
    try:
        connection.request("GET", parts.path, headers={"accept-encoding": "identity"})
        response = connection.getresponse()
        if HTTPStatus.BAD_REQUEST <= response.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            return None
        if response.status != HTTPStatus.OK:
            raise ConnectionError(f"{parts.hostname} answers {response.status}")
        return _read(response, until)
    except http.client.HTTPException as error:
        raise ConnectionError(f"{parts.hostname} does not speak HTTP") from error
    finally:
        connection.close()


def _read(response: http.client.HTTPResponse, until: float) -> bytes:
    content = bytearray()
    while chunk := response.read1(_CHUNK_BYTES):
        content += chunk
        if len(content) > BYTES_MAX:
            raise ConnectionError(f"more than {BYTES_MAX} bytes")
        if time.monotonic() > until:
            raise TimeoutError(f"slower than {FETCH_SECONDS_MAX:g} seconds")
    return bytes(content)


@dataclass(frozen=True, slots=True)
class _Kept:
    content: bytes | None
    until: float


class Fetched:
    """
    Keep what was fetched.

    Args:
        fetching: Gives what is at an address, or None where its host knows no such thing; raises otherwise.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        fetching: Callable[[str], bytes | None] = fetch,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetching = fetching
        self._clock = clock
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._under_way = threading.Lock()
        self._fetches: list[float] = []

    def get(self, url: str) -> bytes | None:
        """
        Give what is at *url*; None where its host knows no such thing. Asked on a thread: it waits for the network.

        Raises:
            OSError: It cannot be fetched now.
        """
        kept = self._kept.get(url)
        if kept is not None and self._clock() < kept.until:
            return kept.content
        if not self._under_way.acquire(timeout=FETCH_SECONDS_MAX):
            raise TimeoutError("another fetch is under way")
        try:
            kept = self._kept.get(url)  # whoever held the lock may have fetched it
            if kept is not None and self._clock() < kept.until:
                return kept.content
            if kept is None or kept.content is None:
                self._count()
            return self._fetched(url)
        finally:
            self._under_way.release()

    def _count(self) -> None:
        """Refuse a fetch beyond those that are allowed within a minute."""
        now = self._clock()
        self._fetches = [at for at in self._fetches if now - at < _MINUTE_SECONDS]
        if len(self._fetches) >= FETCHES_A_MINUTE_MAX:
            raise ConnectionError(f"more than {FETCHES_A_MINUTE_MAX} fetches within a minute")
        self._fetches.append(now)

    def _fetched(self, url: str) -> bytes | None:
        content = self._fetching(url)
        seconds = REFUSED_SECONDS if content is None else KEPT_SECONDS
        self._kept.pop(url, None)
        self._kept[url] = _Kept(content, self._clock() + seconds)
        if len(self._kept) > KEPT_MAX:
            refused = (each for each, kept in self._kept.items() if kept.content is None)
            del self._kept[next(refused, next(iter(self._kept)))]
        return content
