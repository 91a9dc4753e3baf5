"""Forget what is old enough, at once, or say what that would be."""

from __future__ import annotations

from typing import Annotated

import typer

from webhook_inbox.cli.failures import GOOD
from webhook_inbox.cli.options import AppArgument, JsonOption
from webhook_inbox.cli.output import counted, tell, tell_json


def prune(
    *,
    app: AppArgument = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", show_envvar=False, help="Forget nothing; say what would be forgotten."),
    ] = False,
    json: JsonOption = False,
) -> int:
    """
    Forget what APP's settings say is old: payloads after payload_days, events after key_days.

    A worker does it once an hour by itself, for what has come of age since; this looks through all there is. Nothing
    goes of what is not settled, of what is dead or quarantined, or of what a person was asked to look at and has not.
    """
    from webhook_inbox.cli.database import ask_inbox
    from webhook_inbox.cli.load import load_inbox
    from webhook_inbox.protocol.prune import Retention, prune as pruning

    inbox = load_inbox(app)
    retentions = [Retention.of(plan) for plan in inbox.endpoint_plans.values()]
    done = ask_inbox(
        inbox,
        lambda each: each.perform(lambda schema: pruning(retentions, schema, dry_run=dry_run)),
        app=app,
    )
    if json:
        tell_json({"dry_run": dry_run, "days": list(done.days), "bodies": done.bodies, "events": done.events})
        return GOOD
    what = [counted(done.bodies, "payload"), counted(done.events, "event")]
    if done.days:
        what.insert(0, f"the payloads of {counted(len(done.days), 'day')}")
    tell(f"{'would forget' if dry_run else 'forgot'} {', '.join(what)}")
    return GOOD
