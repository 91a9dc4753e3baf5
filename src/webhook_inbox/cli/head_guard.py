"""
Bound what a request's head may cost, where uvicorn bounds nothing: the time that it takes to arrive, and its bytes.

uvicorn on httptools keeps every header line of a head that never ends, for as long as the sender likes. The receiver's
own limits come too late for that: an application is asked only when the head is complete. So it is watched from here.

    connection ──► head: this clock and limit ──► body: the receiver's limits ──► answer ──► idle: uvicorn's keep-alive
                   408, 431

Promises: P-CALM.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_SECONDS_MAX = 10.0
# The receiver's own limits (8 KiB of URL; setting header_bytes_max, 32 KiB) answer first, unless they are raised far.
HEAD_BYTES_MAX = 262_144


class GuardedHttp(HttpToolsProtocol):
    """Close a connection whose request head is late or endless."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the clock: a connection that never sends anything is late too."""
        super().connection_made(transport)  # type: ignore[arg-type]  # uvicorn narrows it, as all servers of TCP do
        self._in_head, self._in_body = False, False
        self._head_bytes = 0
        self._clock: asyncio.TimerHandle | None = None
        self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._stop_clock()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, then look whether a head is still incomplete."""
        before = self._in_head
        super().data_received(data)
        if self.transport.is_closing() or not self._awaits_head():
            return
        self._start_clock()
        self._head_bytes += (
            len(data) if before else 0
        )  # what came with the end of another request is one read at most
        if self._head_bytes > HEAD_BYTES_MAX:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_message_begin(self) -> None:
        """Note that a head begins."""
        super().on_message_begin()
        self._in_head, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        """Note that the head is complete; what follows is the receiver's to bound."""
        self._in_head, self._in_body = False, True
        self._stop_clock()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Note that the body is complete."""
        self._in_body = False
        super().on_message_complete()

    def _awaits_head(self) -> bool:
        idle = self.cycle is None or self.cycle.response_complete
        return self._in_head or (idle and not self._in_body)

    def _start_clock(self) -> None:
        if self._clock is None:
            self._clock = self.loop.call_later(HEAD_SECONDS_MAX, self._late)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _late(self) -> None:
        self._clock = None
        if self.transport.is_closing() or not self._awaits_head():
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self._start_clock()  # the answer to an earlier request is on its way; it is not torn off
        elif self._in_head:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)
        else:
            self.transport.close()

    def _refuse(self, status: HTTPStatus) -> None:
        self._stop_clock()
        line = f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        self.transport.write(f"{line}content-length: 0\r\nconnection: close\r\n\r\n".encode("ascii"))
        self.transport.close()
