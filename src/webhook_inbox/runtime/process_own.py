"""Hold what is one process's own: a server may make the inbox, and fork then (gunicorn's ``--preload``)."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

from webhook_inbox.drivers.driver import Driver
from webhook_inbox.model.settings import Settings
from webhook_inbox.protocol.probe import no_probe
from webhook_inbox.protocol.receiving import Receiving
from webhook_inbox.protocol.run import Running
from webhook_inbox.runtime.counting import Counting
from webhook_inbox.runtime.database import Drivers
from webhook_inbox.runtime.heartbeat import Heartbeat
from webhook_inbox.runtime.hooks import Hooks
from webhook_inbox.runtime.lookout import Lookout
from webhook_inbox.runtime.notifier import Notifier
from webhook_inbox.runtime.wake import channel_of
from webhook_inbox.sql.statements import Statements
from webhook_inbox.telemetry.registry import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """
    Hold what all processes of an inbox that came of one by a fork have in common.

    Attributes:
        drivers: For the database given.
        schema: Where the tables are.
        settings: The inbox's.
        hooks: Told of each exception that made a delivery or a run fail, and of each event that died in a run.
        metrics: Counts, and is told what is not settled.
        works: Says whether a worker runs in the process that asks.
    """

    drivers: Drivers
    schema: str
    settings: Settings
    hooks: Hooks
    metrics: Metrics
    works: Callable[[], bool]

    @property
    def sql(self) -> Statements:
        """Give the statements, rendered for the schema."""
        return Statements.of(self.schema)

    def own_driver(self) -> Driver:
        """Make a driver with one connection that nobody else uses, whatever pool the user gave."""
        return self.drivers.own(self.settings, self.sql)

    def once_driver(self) -> Driver:
        """Make one that connects for each plan, and soon gives up where it cannot: what it is for can wait."""
        return self.drivers.once(self.sql)

    def new_heartbeat(self, name: str, drivers: Drivers) -> Heartbeat:
        """Make one beside *drivers*: it may have to borrow of them, on the event loop that they run on."""
        return Heartbeat(
            replace(self, drivers=drivers).own_driver,
            name=name,
            seconds=self.settings.lease_seconds,
            sql=self.sql,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOwn:
    """
    Hold what is one process's own.

    Attributes:
        pid: The process's.
        running: Runs handlers, under the process's name.
        heartbeat: Holds the lease of what a delivery runs at once.
        inbox: What a delivery is received into.
        notifier, lookout, counting: Work beside the deliveries.
    """

    pid: int
    running: Running
    heartbeat: Heartbeat
    inbox: Receiving
    notifier: Notifier
    lookout: Lookout
    counting: Counting

    @classmethod
    def new(cls, of: Common) -> Self:
        """Make what the calling process needs; nothing is opened or started before it is used."""
        name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        running = Running(sql=of.sql, worker=name, report=of.hooks.error, dead=of.hooks.dead)
        heartbeat = of.new_heartbeat(name, of.drivers)
        beside = replace(
            of, drivers=replace(of.drivers, probe=no_probe)
        )  # fault points are of what bears a promise
        return cls(
            pid=os.getpid(),
            running=running,
            heartbeat=heartbeat,
            inbox=Receiving(schema=of.schema, sql=of.sql, running=running, lease=heartbeat),
            notifier=Notifier(of.own_driver, channel=channel_of(of.schema), sql=of.sql),
            lookout=Lookout(beside.own_driver, schema=of.schema, sql=of.sql, name=name, works=of.works),
            counting=Counting(beside.once_driver, tally=of.metrics.tally, sql=of.sql),
        )

    def stop(self) -> None:
        """Stop what works beside the deliveries, but the heartbeat."""
        self.notifier.stop()
        self.lookout.stop()
        self.counting.stop()
