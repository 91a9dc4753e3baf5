"""Ask a provider what it has sent, and take in what never arrived."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from webhook_inbox.cli.event_filter import moment
from webhook_inbox.cli.failures import BAD, GOOD
from webhook_inbox.cli.options import JsonOption
from webhook_inbox.cli.output import duration, styled, tell, tell_json, visible
from webhook_inbox.errors import ConfigurationError

if TYPE_CHECKING:
    from webhook_inbox.model.reconciled import Reconciled, Tally, Walked


def reconcile(
    *,
    app: Annotated[
        str,
        typer.Argument(metavar="APP", help="Your Inbox as module:attribute, for instance billing.app:inbox."),
    ],
    endpoint: Annotated[str, typer.Argument(metavar="ENDPOINT", help="The name of an endpoint of it.")],
    since: Annotated[
        str,
        typer.Option(
            "--since",
            metavar="AGO",
            show_envvar=False,
            show_default=False,
            help="How far back: 90m, 3h, 2d or 1w. Default: three days behind the last run.",
        ),
    ] = "",
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", show_envvar=False, help="Take in nothing; say how many are missing."),
    ] = False,
    json: JsonOption = False,
) -> int:
    """
    Ask the provider of ENDPOINT what it has sent, and take in what never arrived.

    Events without a handler are left. A run that is interrupted goes on when it is started again. Exit 1 where
    something failed, or is older than the provider keeps. The endpoint's source needs an api_key.
    """
    from webhook_inbox.cli.database import ask_inbox
    from webhook_inbox.cli.load import load_inbox

    inbox = load_inbox(app)
    seconds = _seconds(since)
    done = ask_inbox(
        inbox, lambda each: each.reconcile(endpoint, since_seconds=seconds, dry_run=dry_run), app=app
    )
    if json:
        tell_json(_facts(done, dry_run=dry_run))
    else:
        for walk in done.walks:
            _show(walk, dry_run=dry_run)
    return GOOD if done.good else BAD


def _seconds(since: str) -> float | None:
    ago = moment("--since", since)
    if ago is None or isinstance(ago, timedelta):
        return None if ago is None else ago.total_seconds()
    raise ConfigurationError("--since takes how long ago: 90m, 3h, 2d or 1w")


def _facts(done: Reconciled, *, dry_run: bool) -> dict[str, Any]:
    return {
        "endpoint": done.endpoint,
        "dry_run": dry_run,
        "good": done.good,
        **_counts(done.tally),
        "lists": [
            {
                "account": each.account,
                "since": each.since.isoformat() if each.since else None,
                "until": each.until.isoformat() if each.until else None,
                **_counts(each.tally),
                "out_of_reach_seconds": each.out_of_reach_seconds,
                "unfit": [{"event_id": unfit.event_id, "reason": unfit.reason} for unfit in each.unfit],
                "error": each.error or None,
            }
            for each in done.walks
        ],
    }


def _counts(tally: Tally) -> dict[str, int]:
    return {
        "seen": tally.seen,
        "present": tally.present,
        "recovered": tally.recovered,
        "failed": tally.failed,
        "out_of_reach": tally.out_of_reach,
    }


def _show(walk: Walked, *, dry_run: bool) -> None:
    tally = walk.tally
    whose = f"account {visible(walk.account)}: " if walk.account else ""
    parts = [
        f"seen {tally.seen}",
        f"present {tally.present}",
        f"{'missing' if dry_run else 'recovered'} {tally.recovered}",
        f"failed {tally.failed}",
        f"out of reach {tally.out_of_reach}",
    ]
    tell(whose + ", ".join(parts))
    for unfit in walk.unfit:
        tell(styled(f"bad: event {visible(unfit.event_id) or '-'}: {visible(unfit.reason)}", "red"))
    if walk.out_of_reach_seconds:
        span = duration(walk.out_of_reach_seconds)
        tell(styled(f"bad: {span} of what was asked for are older than the provider keeps", "red"))
    if walk.error:
        tell(styled(f"bad: {whose}the list was not walked to its end: {visible(walk.error)}", "red"))
