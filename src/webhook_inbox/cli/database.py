"""Reach the database that a verb names by its DSN, and say in one sentence why it cannot be reached."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TypeVar

import psycopg

from webhook_inbox.drivers.psycopg_settings import libpq_dsn, place
from webhook_inbox.drivers.psycopg_sync import PsycopgRunner
from webhook_inbox.drivers.silence import Watch
from webhook_inbox.errors import StoreUnavailableError
from webhook_inbox.protocol.probe import Probe, no_probe
from webhook_inbox.protocol.steps import Plan
from webhook_inbox.runtime.database import dsn_from_environment

T = TypeVar("T")
POOL_LOGGER = "psycopg.pool"
# What libpq and the server say, and what we say in its place: their text quotes the DSN, sometimes a part of the
# password (P-QUIET). A server that speaks another language only costs the reader the reason.
_REASONS = (
    ("password authentication failed", "the server refuses the user name or the password"),
    ("no password supplied", "the server wants a password and the DSN has none"),
    ("pg_hba.conf", "the server does not let this user in from here (pg_hba.conf)"),
    ("timeout", "no answer in time"),
    ("could not translate host name", "the host's name is not known"),
    ("failed to resolve host", "the host's name is not known"),
    ("Connection refused", "nothing listens there"),
    ("No such file or directory", "nothing listens there"),
    ("No route to host", "there is no way there"),
    ("too many clients", "the server has no connection free"),
    ("remaining connection slots", "the server has no connection free"),
    ("starting up", "the server is starting"),
    ("shutting down", "the server is shutting down"),
    ("SSL", "server and client do not agree on TLS (sslmode)"),
    ("role ", "the server knows no such user"),
    ("database ", "the server has no such database"),
)


def run_plan(database: str | None, plan: Callable[[], Plan[T]], *, probe: Probe = no_probe) -> T:
    """
    Run one plan on a connection of its own.

    Args:
        database: A DSN of any form; None takes the environment's.
        plan: Made when the connection is there.
        probe: Told each fault point; see ``PsycopgRunner``.

    Raises:
        ConfigurationError: There is no DSN, or it is none.
        StoreUnavailableError: Nobody answers there; says where and why, without a password.
        InboxError: Whatever the plan raises.
    """
    dsn = libpq_dsn(database or dsn_from_environment())
    try:
        connection = psycopg.connect(dsn, prepare_threshold=None)
    except psycopg.Error as error:
        raise StoreUnavailableError(f"no connection to {place(dsn)}: {reason(error)}") from error
    with closing(connection), Watch().over(connection) as wait:
        try:
            return PsycopgRunner(connection, probe=probe, wait=wait).run(plan())
        except StoreUnavailableError as error:
            if wait.given_up:
                raise StoreUnavailableError(
                    "the database did not answer in time; does somebody hold a lock on our tables?"
                ) from error
            raise


@contextmanager
def explained(where: str) -> Iterator[None]:
    """
    Say why a pool got no connection to *where*, rather than that it got none.

    The pool tells the reason to its log alone, which quotes the DSN and so is not shown meanwhile (P-QUIET).
    """
    reasons: list[str] = []

    def note(record: logging.LogRecord) -> bool:
        given = record.args if isinstance(record.args, tuple) else ()
        reasons.extend(reason(each) for each in given if isinstance(each, Exception))
        return False

    pool_log = logging.getLogger(POOL_LOGGER)
    pool_log.addFilter(note)
    try:
        yield
    except StoreUnavailableError as error:
        if reasons:
            raise StoreUnavailableError(f"no connection to {where}: {reasons[-1]}") from error
        raise
    finally:
        pool_log.removeFilter(note)


def reason(error: BaseException) -> str:
    """Say why a connection failed, in words that hold nothing of its DSN."""
    text = str(error)
    return next((reason for sign, reason in _REASONS if sign in text), "the connection failed")
