"""Run the handlers of recorded events as a service of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from webhook_inbox.cli.failures import BAD, GOOD
from webhook_inbox.cli.options import AppArgument, JsonOption, LogFormatOption, LogLevelOption
from webhook_inbox.cli.output import say, tell, tell_json, visible
from webhook_inbox.cli.scraped import MetricsHostOption, MetricsPortOption, scraped

if TYPE_CHECKING:
    from webhook_inbox.inbox import Inbox


def worker(
    *,
    app: AppArgument = None,
    drain: Annotated[
        bool, typer.Option("--drain", show_envvar=False, help="Work until nothing is due, then exit.")
    ] = False,
    metrics_port: MetricsPortOption = None,
    metrics_host: MetricsHostOption = "127.0.0.1",
    log_format: LogFormatOption = "text",
    log_level: LogLevelOption = "info",
    json: JsonOption = False,
) -> int:
    """
    Run the handlers of recorded events for APP; any number of workers share the work.

    Refuses to start, with exit 2, on a database that it cannot use. SIGTERM claims nothing more, finishes what is under
    way or gives it back within stop_seconds_max, and exits 0; a second one ends it at once.
    """
    from webhook_inbox.cli.load import load_inbox
    from webhook_inbox.cli.logs import known, set_up_logging
    from webhook_inbox.cli.ready import refuse_unready
    from webhook_inbox.cli.stop_signals import leave
    from webhook_inbox.cli.until_told import counts, counts_said, until_told
    from webhook_inbox.protocol.process import RunOutcome

    form = known(log_format, log_level)
    inbox = load_inbox(app)
    refuse_unready(inbox, app, otherwise="not working")
    set_up_logging(form, log_level)
    with scraped(inbox, metrics_host, metrics_port):
        outcomes, stopped = until_told(
            inbox,
            lambda stop: inbox.work(stop=stop, drain=drain),
            drain=drain,
            announce=None if drain and json else lambda: _announce(inbox, json=json),
        )
    told = counts(outcomes, RunOutcome)
    said = counts_said(outcomes.total(), "run", told)
    if not drain:
        say(f"stopped; {said}")
    elif json:
        tell_json({"worker": inbox.worker_name, "drained": not stopped, "runs": outcomes.total(), **told})
    else:
        tell(f"{'stopped' if stopped else 'nothing is due'}; {said}")
    return leave(BAD if drain and stopped else GOOD)


def _announce(inbox: Inbox, *, json: bool) -> None:
    """Say who works, and for which endpoints."""
    import os
    import sys

    if json:
        endpoints = [{"endpoint": name, "mode": mode} for name, mode in inbox.endpoint_modes.items()]
        tell_json({"worker": inbox.worker_name, "endpoints": endpoints, "pid": os.getpid()})
        sys.stdout.flush()
    else:
        names = ", ".join(f"{name} ({mode})" for name, mode in inbox.endpoint_modes.items())
        say(f"worker {visible(inbox.worker_name)} works for {names}, with {visible(inbox.database_place)}")
