"""Run the receiver as a service of its own."""

from __future__ import annotations

from typing import Annotated

from webhook_inbox.cli.extras import require
from webhook_inbox.cli.options import AppArgument, JsonOption, LogFormatOption, LogLevelOption, option
from webhook_inbox.errors import ConfigurationError


def serve(
    *,
    app: AppArgument = None,
    host: Annotated[
        str, option("--host", metavar="ADDRESS", help="Where your proxy reaches it.")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        option("--port", metavar="N", min=0, max=65_535, help="0 takes any that is free, and says which."),
    ] = 8000,
    workers: Annotated[int, option("--workers", metavar="N", min=1, max=256, help="Processes.")] = 1,
    with_worker: Annotated[
        bool, option("--with-worker", help="Run the handlers of recorded events too, in each process.")
    ] = False,
    with_relay: Annotated[
        bool, option("--with-relay", help="Send the messages of the outbox too, in each process.")
    ] = False,
    concurrency_max: Annotated[
        int,
        option(
            "--concurrency-max",
            metavar="N",
            min=1,
            help="Connections a process; further ones hear 503 at once.",
        ),
    ] = 512,
    ops_port: Annotated[
        int | None,
        option(
            "--ops-port",
            metavar="N",
            min=0,
            max=65_535,
            show_default=False,
            help="Serve /healthz, /readyz and /metrics there; without it, nowhere. Each worker takes a port from N on.",
        ),
    ] = None,
    ops_host: Annotated[
        str, option("--ops-host", metavar="ADDRESS", help="Where your own machines reach them.")
    ] = "127.0.0.1",
    log_format: LogFormatOption = "text",
    log_level: LogLevelOption = "info",
    access_log: Annotated[
        bool, option("--access-log", help="Log each request too, without its query.")
    ] = False,
    json: JsonOption = False,
) -> int:
    """
    Receive deliveries for APP at POST /{endpoint}.

    Refuses to start, with exit 2, on a database that it cannot serve. SIGTERM stops accepting, finishes what is under
    way and exits 0. Meant to stand behind a proxy that speaks TLS.
    """
    require("serve", "server", "uvicorn", "httptools")
    from webhook_inbox.cli.load import load_inbox
    from webhook_inbox.cli.logs import guard_foreign_loggers, known
    from webhook_inbox.cli.ready import refuse_unready, refuse_without_destination
    from webhook_inbox.cli.server import Serving, serve_alone, serve_with_workers

    form = known(log_format, log_level)
    if workers > 1 and ops_port == 0:
        raise ConfigurationError(
            "--ops-port 0 is for one worker; with several, name the first of their ports"
        )
    inbox = load_inbox(app)
    if with_relay:
        refuse_without_destination(inbox)
    refuse_unready(inbox, app, otherwise="not serving")
    guard_foreign_loggers()
    serving = Serving(
        reference=app or "",
        host=host,
        port=port,
        workers=workers,
        concurrency_max=concurrency_max,
        ops_host=ops_host,
        ops_port=ops_port,
        log_format=form,
        log_level=log_level,
        access_log=access_log,
        with_worker=with_worker,
        with_relay=with_relay,
        json=json,
    )
    return serve_alone(serving, inbox) if workers == 1 else serve_with_workers(serving, inbox)
