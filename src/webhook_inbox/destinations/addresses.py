"""
Connect to public addresses only, whatever a URL says.

A URL that a tenant may choose leads, if nobody looks, to the cloud's metadata service or to the database next door. Its
text proves nothing: there are a dozen ways to spell 127.0.0.1, and a name may resolve to another address the second
time. So the address itself is looked at, after the name was resolved, and that very address is connected to.

Source: IANA, special-purpose address registries; OWASP, "Server Side Request Forgery Prevention".
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any

import httpcore

# Addresses in which an IPv4 address is hidden that a gateway would lead to: NAT64, and IPv4-compatible ones.
_EMBEDDED = (IPv6Network("64:ff9b::/96"), IPv6Network("::/96"))
# All that has been given out to anybody: what lies outside leads, if anywhere, to a gateway next door (64:ff9b:1::/48).
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_RESOLVE_SECONDS = 5.0
_RESOLVERS = 4


class AddressError(httpcore.ConnectError):
    """Say why nothing was connected to, in words of our own: the name leads nowhere, or to no public address."""


def is_public(address: str) -> bool:
    """Say whether *address* (as the resolver gives it) is one of the public internet."""
    found = ip_address(address.partition("%")[0])
    while isinstance(found, IPv6Address):
        inner = _within(found)
        if inner is None:
            return found in _GLOBAL_UNICAST and found.is_global
        found = inner
    return found.is_global and not found.is_multicast


def _within(address: IPv6Address) -> IPv4Address | None:
    """Give the IPv4 address that *address* leads to, if it is such a one."""
    if (mapped := address.ipv4_mapped or address.sixtofour) is not None:
        return mapped
    if address.teredo is not None:
        return IPv4Address("0.0.0.0")  # noqa: S104 - refused: it names two hosts, and neither can be trusted
    if any(address in network for network in _EMBEDDED):
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return None


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """
    Resolve a name once, look at what it resolved to, and connect to that.

    It resolves on threads of its own: a name server that hangs holds up no other destination.

    Args:
        allow_private: Whether any address will do.
    """

    def __init__(self, *, allow_private: bool) -> None:
        self._allow_private = allow_private
        self._inner = httpcore.AnyIOBackend()
        self._resolvers = ThreadPoolExecutor(_RESOLVERS, thread_name_prefix="webhook-inbox-resolver")

    def close(self) -> None:
        """Let go of the threads; a name server that hangs is not waited for."""
        self._resolvers.shutdown(wait=False, cancel_futures=True)

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's own signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """
        Connect to the first address of *host* that answers.

        Raises:
            AddressError: It resolves to nothing, or to an address that is not public: then none is tried.
            ConnectError: None answers.
        """
        addresses = await self._resolved(host, port)
        if not self._allow_private and not all(map(is_public, addresses)):
            raise AddressError("its address is not public (allow_private=True lets it)")
        for address in addresses[:-1]:
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._inner.connect_tcp(addresses[-1], port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    async def _resolved(self, host: str, port: int) -> list[str]:
        resolve = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        try:
            async with asyncio.timeout(_RESOLVE_SECONDS):
                found = await asyncio.get_running_loop().run_in_executor(self._resolvers, resolve)
        except (OSError, UnicodeError, TimeoutError) as error:
            raise AddressError("its name does not resolve") from error
        return list(dict.fromkeys(str(each[4][0]) for each in found))
