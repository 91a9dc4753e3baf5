"""Bring a server up at an address, the one it had or a new one."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from webhook_inbox.embedded.address import Address
from webhook_inbox.embedded.binaries import Binaries
from webhook_inbox.embedded.cluster import DATABASE, SUPERUSER, server_command
from webhook_inbox.embedded.folders import Folders
from webhook_inbox.embedded.password import make_password, scram_verifier
from webhook_inbox.embedded.probe import ask
from webhook_inbox.embedded.process import await_answer, kill_process, start_process
from webhook_inbox.errors import EmbeddedPostgresError

#: Without TCP the port is only a part of the socket's name, and each server has a folder of its own.
SOCKET_PORT = 5432
PORT_TRIES_MAX = 10


@dataclass(frozen=True, slots=True)
class Options:
    """Hold what was asked of the server; see ``EmbeddedPostgres``."""

    durable: bool
    tcp: bool
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Launched:
    """Hold a server that has answered a query."""

    process: subprocess.Popen[bytes]
    address: Address


def launch(
    folders: Folders, binaries: Binaries, options: Options, *, known: Address | None, deadline: float
) -> Launched:
    """
    Start the server and return when it has answered.

    Args:
        known: The address of an earlier start, kept; None: choose one.
        deadline: On the monotonic clock, in seconds.

    Raises:
        EmbeddedPostgresError: It did not come up; nothing of it lives.
    """
    if known is not None:
        return _attempt(folders, binaries, options, known, deadline)
    if not options.tcp:
        return _attempt(folders, binaries, options, Address(folders.run, SOCKET_PORT), deadline)
    tries = PORT_TRIES_MAX
    while True:
        address = Address(folders.run, _free_port(), make_password())
        try:
            launched = _attempt(folders, binaries, options, address, deadline)
        except EmbeddedPostgresError as error:
            # Between our look and the server's bind somebody else may have taken the port.
            tries -= 1
            if tries == 0 or "could not bind" not in str(error):
                raise
        else:
            _set_password(folders, address)
            return launched


def _attempt(
    folders: Folders, binaries: Binaries, options: Options, address: Address, deadline: float
) -> Launched:
    command = server_command(
        folders,
        binaries,
        port=address.port,
        tcp=options.tcp,
        durable=options.durable,
        settings=options.settings,
    )
    process = start_process(folders, command)
    try:
        await_answer(process, folders, port=address.port, deadline=deadline)
    except BaseException:
        kill_process(process, folders)
        raise
    return Launched(process, address)


def _set_password(folders: Folders, address: Address) -> None:
    # Until now the superuser had none, or one that nobody knows: nobody could pass scram-sha-256.
    statement = f"ALTER ROLE {SUPERUSER} PASSWORD '{scram_verifier(address.password)}'"
    ask(folders.socket(address.port), statement, user=SUPERUSER, database=DATABASE)


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
