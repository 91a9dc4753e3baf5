"""
Run uvicorn around an inbox: one process, or a supervisor with several.

What is set, and why:

| setting | value | reason |
| --- | --- | --- |
| protocol | httptools under ``GuardedHttp`` | the fastest, with the head bounded in time and bytes |
| concurrency | 512 connections a process | beyond it 503 at once; bounds memory to as many bodies |
| backlog | 1,024 | see ``sockets`` |
| keep-alive | 65 s | longer than a proxy's own 60 s (nginx, AWS), which would else meet a connection just closed |
| WebSocket | none | there is nothing to upgrade to |
| drain | as long as a delivery may take | SIGTERM finishes what is under way |
"""

from __future__ import annotations

import logging
import math
import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.supervisors import Multiprocess

from webhook_inbox.cli.failures import BAD, GOOD
from webhook_inbox.cli.logs import LogFormat, log_config
from webhook_inbox.cli.output import say, tell_json, visible
from webhook_inbox.cli.served_app import ServedApp, WorkerApp
from webhook_inbox.cli.sockets import BACKLOG, bind, url_of
from webhook_inbox.inbox import Inbox

KEEP_ALIVE_SECONDS = 65
_DRAIN_MARGIN_SECONDS = 5.0
_STARTUP_FAILED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """
    Say how to serve.

    Attributes:
        reference: The Inbox, as the user named it.
        host: Where providers reach it.
        port: 0: any that is free.
        workers: Processes, from 1.
        concurrency_max: Connections per process.
        ops_host: Where operators reach their pages.
        ops_port: None: no such pages; with several workers, the first of as many ports.
        log_format: Of stderr.
        log_level: Of our own logger.
        access_log: Whether a line is written for every request.
        with_worker: Whether each process runs the handlers of recorded events too.
        with_relay: Whether each process sends the messages of the outbox too.
        json: Whether stdout tells a program where we listen.
    """

    reference: str
    host: str
    port: int
    workers: int
    concurrency_max: int
    ops_host: str
    ops_port: int | None
    log_format: LogFormat
    log_level: str
    access_log: bool
    with_worker: bool
    with_relay: bool
    json: bool

    def config(self, app: Any, inbox: Inbox, **more: Any) -> uvicorn.Config:  # noqa: ANN401 - an ASGI app, or what makes one
        """Give uvicorn's configuration for *app*; logging that the user's module has set up is left as it is."""
        log = log_config(self.log_format, self.log_level, access_log=self.access_log)
        return uvicorn.Config(
            app,
            http="webhook_inbox.cli.head_guard:GuardedHttp",
            ws="none",
            lifespan="on",
            limit_concurrency=self.concurrency_max,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_drain_seconds(inbox),
            server_header=False,
            access_log=self.access_log,
            log_config=None if logging.getLogger().handlers else log,
            **more,
        )

    def announce(self, listener: socket.socket, ops: list[str], inbox: Inbox) -> None:
        """Say where we listen and for which endpoints: connections wait in the backlog from now on."""
        url, names = url_of(listener), tuple(inbox.endpoint_modes)
        if self.json:
            tell_json(
                {
                    "listening": url,
                    "endpoints": names,
                    "ops": ops,
                    "workers": self.workers,
                    "with_worker": self.with_worker,
                    "with_relay": self.with_relay,
                    "pid": os.getpid(),
                }
            )
            sys.stdout.flush()
        else:
            beside = f"; ops on {', '.join(ops)}" if ops else ""
            working = "; working off what is recorded" if self.with_worker else ""
            relaying = f"; sending to {', '.join(inbox.destinations)}" if self.with_relay else ""
            say(
                f"listening on {url} for {', '.join(names)}, with {visible(inbox.database_place)}"
                f"{beside}{working}{visible(relaying)}"
            )
            waiting = [name for name, mode in inbox.endpoint_modes.items() if mode != "inline"]
            if waiting and not self.with_worker:
                say(
                    f"events of {', '.join(waiting)} wait for a worker: run `webhook-inbox worker "
                    f"{visible(self.reference)}` beside this, or serve --with-worker"
                )

    def say_stopping(self, inbox: Inbox) -> None:
        """Say that no more is accepted."""
        if not self.json:
            say(f"stopping; what is under way has {_drain_seconds(inbox)} s")

    def say_stopped(self) -> None:
        """Say that everything is finished."""
        if not self.json:
            say("stopped")


def serve_alone(serving: Serving, inbox: Inbox) -> int:
    """Serve in this process until SIGTERM or SIGINT, and finish what is under way."""
    listener = bind(serving.host, serving.port)
    ops = None if serving.ops_port is None else bind(serving.ops_host, serving.ops_port)
    server = _Server(
        serving.config(
            ServedApp(inbox, ops, with_worker=serving.with_worker, with_relay=serving.with_relay), inbox
        )
    )

    def stop(_signal: int, _frame: FrameType | None) -> None:
        server.should_exit = True

    # uvicorn raises the signal again when it has drained; this takes it, and the exit code is 0.
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, stop)
    serving.announce(listener, [url_of(ops)] if ops else [], inbox)
    server.stopping = lambda: serving.say_stopping(inbox)
    try:
        server.run(sockets=[listener])
    except SystemExit:
        return BAD  # uvicorn's way to say that it did not start; its log says why
    serving.say_stopped()
    return GOOD


def serve_with_workers(serving: Serving, inbox: Inbox) -> int:
    """Serve in several processes under uvicorn's supervisor, which replaces one that dies."""
    ports = range(0)
    if serving.ops_port is not None:
        ports = range(serving.ops_port, serving.ops_port + serving.workers)
    listener = bind(serving.host, serving.port)
    ops = [bind(serving.ops_host, port) for port in ports]
    urls = [url_of(each) for each in ops]
    for each in ops:
        each.close()  # they are free, which is what we wanted to know: the workers take them
    app = WorkerApp(
        reference=serving.reference,
        ops_host=serving.ops_host,
        ops_ports=ports,
        with_worker=serving.with_worker,
        with_relay=serving.with_relay,
    )
    config = serving.config(app, inbox, factory=True, workers=serving.workers)
    supervisor = _Supervisor(config, sockets=[listener])
    supervisor.stopping = lambda: serving.say_stopping(inbox)
    serving.announce(listener, urls, inbox)
    supervisor.run()
    if any(each.exitcode == _STARTUP_FAILED for each in supervisor.processes):
        return BAD
    serving.say_stopped()
    return GOOD


def _drain_seconds(inbox: Inbox) -> int:
    return math.ceil(inbox.request_seconds_max + _DRAIN_MARGIN_SECONDS)


def _nothing() -> None:
    """Stand where nobody has given something to do."""


class _Server(uvicorn.Server):
    """Call *stopping* when it begins to drain."""

    stopping: Callable[[], None] = staticmethod(_nothing)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.stopping()
        await super().shutdown(sockets)


class _Supervisor(Multiprocess):
    """Let go of the listening socket when the workers drain: else it would take connections that nobody serves."""

    stopping: Callable[[], None] = staticmethod(_nothing)

    def terminate_all(self) -> None:
        self.stopping()
        for each in self.sockets:
            each.close()
        super().terminate_all()
