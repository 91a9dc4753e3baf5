"""Reach the database that a verb names by its DSN or its Inbox, and say in one sentence why it cannot be reached."""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, TypeVar

import psycopg

from webhook_inbox.cli.output import others_aside
from webhook_inbox.drivers.psycopg_settings import libpq_dsn, place
from webhook_inbox.drivers.psycopg_sync import PsycopgRunner
from webhook_inbox.drivers.silence import Watch
from webhook_inbox.errors import SchemaVersionError, StoreUnavailableError
from webhook_inbox.protocol.probe import Probe, no_probe
from webhook_inbox.protocol.steps import Plan
from webhook_inbox.runtime.database import dsn_from_environment

if TYPE_CHECKING:
    from webhook_inbox.inbox import Inbox

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
    ("Name or service not known", "the host's name is not known"),
    ("Connection refused", "nothing listens there"),
    ("Connect call failed", "nothing listens there"),
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
# Classes of SQLSTATE in which a server refuses a connection.
_REFUSALS = ("08", "28", "3D", "53", "57P03")


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


def ask_inbox(inbox: Inbox, question: Callable[[Inbox], Awaitable[T]], *, app: str | None) -> T:
    """
    Ask *inbox* one thing, on an event loop of its own and on the connections that its user gave it.

    Args:
        app: By which name the user has given it.

    Raises:
        SchemaVersionError: Names the command that brings up the schema of that very Inbox.
        StoreUnavailableError: Nobody answers there; says where and why, without a password.
        InboxError: Whatever the question raises.
    """

    async def asked() -> T:
        async with inbox.running():
            return await question(inbox)

    with migrated_by(migrate_app(app or "")), explained(inbox.database_place), _unlogged(), others_aside():
        return asyncio.run(asked())


def migrate_app(app: str) -> str:
    """Give what brings up the schema of the Inbox *app*, as it is typed into a shell."""
    return f"webhook-inbox migrate {shlex.quote(app)}"


@contextmanager
def migrated_by(command: str) -> Iterator[None]:
    """Name *command* where a schema is met that has to be brought up."""
    try:
        yield
    except SchemaVersionError as error:
        raise error.helped_by(command) from error


@contextmanager
def _unlogged() -> Iterator[None]:
    """Keep our log silent: an inbox that is started tells of what is wrong, and so does the verb, in its own words."""

    def refuse(_: logging.LogRecord) -> bool:
        return False

    log = logging.getLogger("webhook_inbox")
    log.addFilter(refuse)
    try:
        yield
    finally:
        log.removeFilter(refuse)


@contextmanager
def explained(where: str) -> Iterator[None]:
    """
    Say why there was no connection to *where*, rather than that there was none.

    psycopg's pool tells the reason to its log alone, which quotes the DSN and so is not shown meanwhile (P-QUIET);
    other libraries raise it.
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
        why = reasons[-1] if reasons else _refusal(error)
        if why:
            raise StoreUnavailableError(f"no connection to {where}: {why}") from error
        raise
    finally:
        pool_log.removeFilter(note)


def reason(error: BaseException) -> str:
    """Say why a connection failed, in words that hold nothing of its DSN."""
    return _known_reason(error) or "the connection failed"


def _known_reason(error: BaseException) -> str:
    text = str(error)
    return next((reason for sign, reason in _REASONS if sign in text), "")


def _refusal(error: StoreUnavailableError) -> str:
    """Say why the connection was refused that *error* is raised from; empty where there was one."""
    if error.__cause__ is None or not (error.sqlstate or _REFUSALS[0]).startswith(_REFUSALS):
        return ""
    return _known_reason(error.__cause__)
