"""Run the handlers of recorded events as a service of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from webhook_inbox.cli.failures import BAD, GOOD
from webhook_inbox.cli.options import AppArgument, JsonOption, LogFormatOption, LogLevelOption
from webhook_inbox.cli.output import counted, say, tell, tell_json, visible

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections import Counter
    from collections.abc import Callable

    from webhook_inbox.inbox import Inbox
    from webhook_inbox.protocol.process import RunOutcome


def worker(
    *,
    app: AppArgument = None,
    drain: Annotated[
        bool, typer.Option("--drain", show_envvar=False, help="Work until nothing is due, then exit.")
    ] = False,
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

    form = known(log_format, log_level)
    inbox = load_inbox(app)
    refuse_unready(inbox, otherwise="not working")
    set_up_logging(form, log_level)
    outcomes, stopped = _work(inbox, drain=drain, json=json)
    if drain:
        _tell_counts(inbox, outcomes, drained=not stopped, json=json)
    else:
        say(f"stopped; {_counts(outcomes)}")
    return leave(BAD if drain and stopped else GOOD)


def _work(inbox: Inbox, *, drain: bool, json: bool) -> tuple[Counter[RunOutcome], bool]:
    """Work in this thread until told to stop; give what the runs came to, and whether it was told."""
    import asyncio

    from webhook_inbox.cli.stop_signals import told_to_stop

    async def work() -> tuple[Counter[RunOutcome], bool]:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()

        def ask() -> None:
            say(f"stopping; what is under way has {inbox.stop_seconds_max:g} s")
            loop.call_soon_threadsafe(stop.set)

        with told_to_stop(ask, seconds_max=inbox.stop_seconds_max) as ending:
            if not drain or not json:
                _announce(inbox, json=json)  # not before signals are heard: who reads it may stop us at once
            async with inbox.running():
                outcomes = await inbox.work(stop=stop, drain=drain)
            ending.code = BAD if drain and stop.is_set() else GOOD
            return outcomes, stop.is_set()

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(work())


def _loop_factory() -> Callable[[], AbstractEventLoop] | None:
    """Give the loop that `serve` runs on, where that extra is installed."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return None
    return new_event_loop


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


def _tell_counts(inbox: Inbox, outcomes: Counter[RunOutcome], *, drained: bool, json: bool) -> None:
    if json:
        tell_json(
            {"worker": inbox.worker_name, "drained": drained, "runs": outcomes.total(), **_sorted(outcomes)}
        )
    else:
        tell(f"{'nothing is due' if drained else 'stopped'}; {_counts(outcomes)}")


def _counts(outcomes: Counter[RunOutcome]) -> str:
    said = [f"{number} {name.replace('_', ' ')}" for name, number in _sorted(outcomes).items()]
    return ": ".join(filter(None, [counted(outcomes.total(), "run"), ", ".join(said)]))


def _sorted(outcomes: Counter[RunOutcome]) -> dict[str, int]:
    """Give the outcomes there were, the good ones first."""
    from webhook_inbox.protocol.process import RunOutcome

    return {each.value: outcomes[each] for each in RunOutcome if outcomes[each]}
