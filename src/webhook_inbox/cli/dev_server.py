"""Serve under a supervisor that starts the process anew when code changes."""

from __future__ import annotations

from pathlib import Path

import uvicorn
from uvicorn.supervisors.watchfilesreload import WatchFilesReload

from webhook_inbox.cli.failures import GOOD
from webhook_inbox.cli.output import say
from webhook_inbox.cli.served_app import WorkerApp
from webhook_inbox.cli.server import Serving
from webhook_inbox.cli.sockets import bind, url_of
from webhook_inbox.inbox import Inbox


def serve_reloading(serving: Serving, inbox: Inbox) -> int:
    """
    Serve in one process until SIGTERM or SIGINT; another takes its place when a .py file under this folder changes.

    The port stays open meanwhile: deliveries wait. A process that does not start leaves it to the next change.
    """
    listener, pages = bind(serving.host, serving.port), bind(serving.ops_host, 0)
    port, pages_url = pages.getsockname()[1], url_of(pages)
    pages.close()  # each process takes it in its turn
    app = WorkerApp(
        reference=serving.reference,
        ops_host=serving.ops_host,
        ops_ports=range(port, port + 1),
        with_worker=serving.with_worker,
        with_relay=serving.with_relay,
        reloading=True,
    )
    config = serving.config(app, inbox, factory=True, reload=True)
    config.reload_dirs = [Path.cwd()]  # uvicorn fills it in only for an app that is a string
    supervisor = WatchFilesReload(config, target=uvicorn.Server(config).run, sockets=[listener])
    serving.announce(listener, [pages_url], inbox)
    for name in inbox.endpoint_modes:
        say(f"  {url_of(listener)}/{name}")
    for name in (*inbox.endpoint_modes,)[:1]:
        say(f"  try it: webhook-inbox send {url_of(listener)}/{name} --source NAME --secret SECRET FILE")
    say(f"  {pages_url}/metrics, {pages_url}/healthz, {pages_url}/readyz")
    say(f"starting anew whenever a .py file in {Path.cwd().name}/ changes; Ctrl-C ends it")
    supervisor.run()
    return GOOD
