"""
Fetch what a provider publishes for all its receivers, such as a certificate, and keep it for a while.

Only from an address that the source has checked: https, to a host on its list. No redirect is followed, no proxy of the
environment is asked, and both size and time are bounded. One fetch is under way at a time, and of what was never there
so many a minute: a stranger who names addresses can neither have us ask for them all, nor drive out what was there.

    200          kept for an hour
    4xx          None, for a minute: the provider knows no such thing, so whoever named it is a stranger
                 (408, 425 and 429 are no such answer)
    anything else raises VerificationKeyError, for five seconds: the endpoint answers 503, and the provider sends again
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

from webhook_inbox.errors import VerificationKeyError
from webhook_inbox.sources.deadline import hold_to

BYTES_MAX = 65_536
FETCH_SECONDS_MAX = 5.0
KEPT_SECONDS, REFUSED_SECONDS, FAILED_SECONDS = 3_600, 60, 5
KEPT_MAX = 64
FETCHES_A_MINUTE_MAX = 20
_MINUTE_SECONDS = 60
_CHUNK_BYTES = 4_096
# What these say is "not now" rather than "no".
_LATER = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})


def fetch(url: str, *, trust: ssl.SSLContext | None = None, port: int | None = None) -> bytes | None:
    """
    Give what is at *url*, an https address; None where its host answers 4xx: it knows no such thing.

    Args:
        trust, port: As for ``ask``.

    Raises:
        VerificationKeyError: As ``ask``, or the host answers otherwise.
    """
    status, content = ask(url, trust=trust, port=port)
    if status == HTTPStatus.OK:
        return content
    if HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in _LATER:
        return None
    raise VerificationKeyError(f"{urlsplit(url).hostname} answers {status}")


def ask(
    url: str,
    *,
    post: bytes | None = None,
    trust: ssl.SSLContext | None = None,
    port: int | None = None,
) -> tuple[int, bytes]:
    """
    Give what the host of *url*, an https address, answers: its status and its body.

    Args:
        post: JSON to post there; None: nothing is posted, it is got.
        trust: Which certificates of hosts to believe; those of the system unless told.
        port: Where to connect to, if not at the address's own port.

    Raises:
        VerificationKeyError: The host cannot be reached, is too slow, says too much, or does not speak HTTP.
    """
    parts = urlsplit(url)
    connection = http.client.HTTPSConnection(
        parts.hostname or "",
        port or parts.port,
        timeout=FETCH_SECONDS_MAX,
        context=trust or ssl.create_default_context(),
    )
    hold_to(connection, time.monotonic() + FETCH_SECONDS_MAX)
    headers = {"accept-encoding": "identity"}
    if post is not None:
        headers["content-type"] = "application/json"
    try:
        connection.request("GET" if post is None else "POST", parts.path, body=post, headers=headers)
        response = connection.getresponse()
        return response.status, _read(response)
    except (OSError, http.client.HTTPException) as error:
        # What the exception says may be anybody's words; its name says what to look for.
        raise VerificationKeyError(f"{parts.hostname} cannot be asked: {type(error).__name__}") from error
    finally:
        connection.close()


def _read(response: http.client.HTTPResponse) -> bytes:
    content = bytearray()
    while chunk := response.read1(_CHUNK_BYTES):
        content += chunk
        if len(content) > BYTES_MAX:
            raise VerificationKeyError(f"a key of more than {BYTES_MAX} bytes is not read")
    if response.length:  # the host has hung up before it said all
        raise http.client.IncompleteRead(b"", response.length)
    return bytes(content)


@dataclass(frozen=True, slots=True)
class _Kept:
    """Hold an answer, or the failure to get one; then *content* is what was there before, and not given any more."""

    content: bytes | None
    until: float
    failure: str = ""

    def given(self) -> bytes | None:
        if self.failure:
            raise VerificationKeyError(self.failure)
        return self.content


class Fetched:
    """
    Keep what was fetched.

    Args:
        fetching: Gives what is at an address, or has another name, or None where its host knows no such thing; raises
            otherwise.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        fetching: Callable[[str], bytes | None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetching = fetching
        self._clock = clock
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._under_way = threading.Lock()
        self._naming = threading.Lock()
        self._named = ""
        self._fetches: list[float] = []

    def get(self, url: str) -> bytes | None:
        """
        Give what is at *url*; None where its host knows no such thing. Asked on a thread: it waits for the network.

        Raises:
            VerificationKeyError: It cannot be fetched now.
        """
        if kept := self._fresh(url):
            return kept.given()
        self._begin(url)
        try:
            kept = self._fresh(url) or self._fetched(url)  # whoever held the lock may have fetched it
        finally:
            self._under_way.release()
        return kept.given()

    def _begin(self, url: str) -> None:
        """
        Begin the one fetch that may be under way.

        Only for the same name, or for one that was there before, is another waited for. A name that was never there is
        anybody's: each would hold a thread meanwhile, of those on which genuine deliveries ask for what is kept.
        """
        with self._naming:
            waits = url == self._named or self._was_there(url)
            if self._under_way.acquire(blocking=False):
                self._named = url
                return
        if not waits:
            raise VerificationKeyError("another fetch is under way")
        if not self._under_way.acquire(timeout=FETCH_SECONDS_MAX):
            raise VerificationKeyError(f"another fetch takes longer than {FETCH_SECONDS_MAX:g} seconds")
        self._named = url

    def _was_there(self, url: str) -> bool:
        kept = self._kept.get(url)
        return kept is not None and kept.content is not None

    def _fresh(self, url: str) -> _Kept | None:
        kept = self._kept.get(url)
        return kept if kept is not None and self._clock() < kept.until else None

    def _count(self) -> None:
        """Refuse a fetch beyond those that are allowed within a minute."""
        now = self._clock()
        self._fetches = [at for at in self._fetches if now - at < _MINUTE_SECONDS]
        if len(self._fetches) >= FETCHES_A_MINUTE_MAX:
            raise VerificationKeyError(
                f"more than {FETCHES_A_MINUTE_MAX} fetches within a minute: strangers name keys that are not there"
            )
        self._fetches.append(now)

    def _fetched(self, url: str) -> _Kept:
        before = self._kept[url].content if url in self._kept else None
        if before is None:
            self._count()
        try:
            content = self._fetching(url)
        except VerificationKeyError as error:
            # Those who wait for the same would each wait as long, one after the other, each on a thread.
            return self._keep(url, _Kept(before, self._clock() + FAILED_SECONDS, failure=str(error)))
        seconds = REFUSED_SECONDS if content is None else KEPT_SECONDS
        return self._keep(url, _Kept(content, self._clock() + seconds))

    def _keep(self, url: str, kept: _Kept) -> _Kept:
        self._kept.pop(url, None)
        self._kept[url] = kept
        if len(self._kept) > KEPT_MAX:
            refused = (each for each, kept in self._kept.items() if kept.content is None)
            del self._kept[next(refused, next(iter(self._kept)))]
        return kept
