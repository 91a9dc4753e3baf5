"""Prove the user's handlers with sample events."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from webhook_inbox.cli.failures import BAD, GOOD
from webhook_inbox.cli.options import JsonOption, JunitOption, names, option
from webhook_inbox.cli.output import others_aside, tell, tell_json, visible
from webhook_inbox.errors import ConfigurationError

if TYPE_CHECKING:
    from webhook_inbox.inbox import Inbox
    from webhook_inbox.testing.proof import Proof

_DATABASE_VARIABLES = ("WEBHOOK_INBOX_DATABASE_URL", "DATABASE_URL")


def prove(
    *,
    app: Annotated[
        str,
        typer.Argument(metavar="APP", help="Your Inbox as module:attribute, for instance billing.app:inbox."),
    ],
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Payloads; a folder stands for the files in it.")
    ],
    endpoint: Annotated[
        str, option("--endpoint", metavar="NAME", help="Where they arrive, if APP has several.")
    ] = "",
    event_type: Annotated[
        str, option("--type", metavar="NAME", help="Of the events, where it comes in a header.")
    ] = "",
    database: Annotated[
        str, option("--database", metavar="DSN", help="A throw-away one for tests, with your tables.")
    ] = "",
    setup: Annotated[
        str, option("--setup", metavar="FILE", help="SQL that makes your tables, on a server of its own.")
    ] = "",
    tables: Annotated[
        str, option("--tables", metavar="NAMES", help="Those to compare, with commas; else all.")
    ] = "",
    ignore: Annotated[
        str, option("--ignore", metavar="NAMES", help="table.column not to compare, with commas.")
    ] = "",
    one_id: Annotated[bool, option("--one-id", help="Do not try the same event under a second id.")] = False,
    orders: Annotated[int, option("--orders", metavar="N", min=0, help="How many orders to try.")] = 24,
    seed: Annotated[int, option("--seed", metavar="N", help="Chooses the orders.")] = 0,
    seconds: Annotated[float, option("--seconds", metavar="SECONDS", min=0, help="How long at most.")] = 60,
    junit: JunitOption = "",
    json: JsonOption = False,
) -> int:
    """
    Run APP's handlers with sample events under duplicates, other orders, races and crashes.

    Your tables must end the same each time. Give --setup, or --database: its name has the word test in it, it holds no
    event, and it is left as it was. Exit 1 where a difference is found: its rows, and the schedule that shows it.
    """
    from webhook_inbox.cli.database import explained
    from webhook_inbox.cli.load import load_inbox
    from webhook_inbox.cli.payloads import read_payloads
    from webhook_inbox.drivers.psycopg_settings import libpq_dsn, place
    from webhook_inbox.testing.proof import Sample, prove as proving

    payloads = read_payloads(files)
    with _database(database, setup) as dsn, explained(place(libpq_dsn(dsn))), others_aside():
        os.environ |= {name: _spelled_as(os.environ.get(name, ""), dsn) for name in _DATABASE_VARIABLES}
        inbox = load_inbox(app)
        name = _endpoint(inbox, endpoint)
        proof = proving(
            inbox,
            [Sample(name, payload.body, event_type, payload.signed_id) for payload in payloads],
            database=dsn,
            tables=names(tables),
            ignore=names(ignore),
            second_ids=not one_id,
            orders_max=orders,
            seed=seed,
            seconds_max=seconds,
        )
    _tell(proof, json=json)
    if junit:
        Path(junit).write_text(proof.as_junit(), encoding="utf-8")
    return GOOD if proof.holds else BAD


def _tell(proof: Proof, *, json: bool) -> None:
    if json:
        tell_json(proof.as_json())
        return
    for line in str(proof).splitlines():
        tell(visible(line))
    tell("it holds" if proof.holds else "it does not hold")


def _spelled_as(before: str, dsn: str) -> str:
    """Give *dsn* as APP reads it, where *before* names a driver as SQLAlchemy has it (``postgresql+asyncpg://``)."""
    scheme, _, _ = before.partition("://")
    plain, _, rest = dsn.partition("://")
    return f"{scheme}://{rest}" if rest and "+" in scheme and "+" not in plain else dsn


def _endpoint(inbox: Inbox, named: str) -> str:
    there = list(inbox.endpoint_modes)
    if named or len(there) == 1:
        return named or there[0]
    raise ConfigurationError(
        f"which endpoint? --endpoint is one of {', '.join(there) or 'none: APP has none'}"
    )


@contextmanager
def _database(database: str, setup: str) -> Iterator[str]:
    """Yield the DSN of the database that was given, or of a new one on a server that lives as long as the block."""
    if bool(database) == bool(setup):
        raise ConfigurationError("give either --database or --setup: the handlers need their tables")
    if database:
        yield database
        return
    import psycopg

    from webhook_inbox.embedded import EmbeddedPostgres
    from webhook_inbox.testing.databases import serving

    try:
        text = Path(setup).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read {setup}: {error.strerror}") from error
    with EmbeddedPostgres(durable=False) as server, serving(server.dsn) as on:
        dsn = on.dsn_of(on.create())
        try:
            with psycopg.connect(dsn) as conn:
                conn.execute(text)
        except psycopg.Error as error:
            raise ConfigurationError(
                f"{setup}: {error.diag.message_primary or 'it cannot be run'}"
            ) from error
        yield dsn
