"""Examine a receiver from outside."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from webhook_inbox.cli.failures import BAD, GOOD
from webhook_inbox.cli.options import JsonOption, JunitOption, names, option
from webhook_inbox.cli.output import is_terminal, say, tell, tell_json, visible
from webhook_inbox.cli.signing import EventTypeOption, SecretOption, SourceOption, known_secret

if TYPE_CHECKING:
    from webhook_inbox.testing.audit import Report

_SEEDS = 2**32


def audit(
    *,
    url: Annotated[
        str, typer.Argument(metavar="URL", help="The endpoint, for instance http://127.0.0.1:8000/billing.")
    ],
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE", help="Payloads that have an effect, in the order in which they happen."
        ),
    ],
    source: SourceOption,
    event_type: EventTypeOption = None,
    secret: SecretOption = None,
    fresh: Annotated[
        str, option("--fresh", metavar="NAMES", help="Members that are new in each event; its id first.")
    ] = "id",
    public_url: Annotated[
        str, option("--public-url", metavar="URL", help="What the source signs as its URL, if not URL.")
    ] = "",
    database: Annotated[
        str, option("--database", metavar="DSN", help="The receiver's PostgreSQL; it is only read.")
    ] = "",
    effects_sql: Annotated[
        str, option("--effects-sql", metavar="SQL", help="Counts the effects of event %(event_id)s there.")
    ] = "",
    effect_seconds: Annotated[
        float, option("--effect-seconds", metavar="SECONDS", min=0, help="How long an effect may take.")
    ] = 15.0,
    still_seconds: Annotated[
        float,
        option(
            "--still-seconds",
            metavar="SECONDS",
            min=0,
            help="How long no second effect must come after a failure, where the work is done after the answer.",
        ),
    ] = 3.0,
    breaking: Annotated[
        str, option("--break", metavar="COMMAND", help="Makes the receiver's work fail; no shell's text.")
    ] = "",
    mending: Annotated[str, option("--mend", metavar="COMMAND", help="Ends what --break began.")] = "",
    answer_seconds: Annotated[
        float | None,
        option(
            "--answer-seconds",
            metavar="SECONDS",
            min=0.1,
            show_default=False,
            help="Within what the provider wants an answer. Default: as its page says, else 10.",
        ),
    ] = None,
    only: Annotated[
        str, option("--only", metavar="NAMES", help="Checks to run, with commas; else all.")
    ] = "",
    seed: Annotated[
        int | None,
        option("--seed", metavar="N", show_default=False, help="Send the very events of an earlier audit."),
    ] = None,
    seconds: Annotated[
        float, option("--seconds", metavar="SECONDS", min=1, help="After that no check is begun.")
    ] = 180.0,
    owned: Annotated[
        bool, option("--i-own-this-receiver", help="Audit what is not on this machine: it is yours.")
    ] = False,
    junit: JunitOption = "",
    json: JsonOption = False,
) -> int:
    """
    Examine any receiver from outside: signatures, copies, cuts, hostile input, and what a failure leaves behind.

    Sends signed events made out of FILE, and what nobody signed; --effects-sql and --break let it see what is lost or
    doubled. Nothing but loopback is connected to, no redirect is followed. Exit 1 where the grade is below B.
    """
    from webhook_inbox.cli.payloads import read_payloads
    from webhook_inbox.testing.audit import Settings, audit as auditing

    settings = Settings(
        url=url,
        source=source,
        secret=known_secret(source, secret, event_type),
        payloads=[payload.body for payload in read_payloads(files)],
        fresh=names(fresh),
        event_type=event_type or "",
        public_url=public_url,
        database=database,
        effects_sql=effects_sql,
        effect_seconds=effect_seconds,
        still_seconds=still_seconds,
        breaking=breaking,
        mending=mending,
        answer_seconds=answer_seconds,
        only=frozenset(names(only)),
        seed=random.randrange(_SEEDS) if seed is None else seed,  # noqa: S311 - a choice, no key
        seconds_max=seconds,
        owned=owned,
    )
    report = auditing(settings, told=_watched)
    _tell(report, json=json)
    if junit:
        Path(junit).write_text(report.as_junit(), encoding="utf-8")
    return GOOD if report.good else BAD


def _tell(report: Report, *, json: bool) -> None:
    if json:
        tell_json(report.as_json())
        return
    for line in report.lines():
        tell(visible(line))


def _watched(check: str) -> None:
    if is_terminal(sys.stderr):
        say(f"{check} ...")
