"""Judge a server and how our tables are kept there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from webhook_inbox.model.finding import Finding, Weight
from webhook_inbox.protocol.doctor import Health, ServerHealth, TableHealth
from webhook_inbox.protocol.endpoint import EndpointPlan

SKEW_SECONDS_MAX = 5.0
OLD_TRANSACTION_SECONDS = 3600.0
_TIMEOUTS = ("idle_in_transaction_session_timeout", "statement_timeout", "transaction_timeout")
# Beside the pools: to listen, for the lease and to prove that notifications arrive, of receiver and worker.
_SESSIONS_BESIDE = 6
_DENIED_SHOWN = 10


def server_findings(server: ServerHealth) -> Iterator[Finding]:
    """Judge what holds for everything on the server."""
    yield from _access(server)
    yield from _durability(server)
    yield from _encoding(server)
    yield from _time(server)


def _access(server: ServerHealth) -> Iterator[Finding]:
    if server.read_only:
        yield Finding(
            name="read_only",
            weight=Weight.WRONG,
            what="The database is read-only.",
            why="Nothing can be recorded, so every delivery is answered 503.",
            remedy="Connect to the primary, or unset default_transaction_read_only for this user and database.",
        )
    if server.pooled:
        yield Finding(
            name="pooler",
            weight=Weight.NOTE,
            what="A pooler stands between this app and the server.",
            why="In transaction mode nobody hears a notification: events wait up to poll_seconds for a worker.",
            remedy="Give workers a DSN of the server itself, or leave it: nothing is lost.",
        )


def _time(server: ServerHealth) -> Iterator[Finding]:
    if abs(server.skew_seconds) > SKEW_SECONDS_MAX:
        way = "ahead of" if server.skew_seconds > 0 else "behind"
        yield Finding(
            name="clock_skew",
            weight=Weight.RISKY,
            what=f"The server's clock is {abs(server.skew_seconds):.0f} s {way} this machine's.",
            why="Signed times are held against this machine's clock, so if it is the wrong one, good deliveries "
            "are refused.",
            remedy="Run NTP on both.",
        )
    if (server.oldest_seconds or 0.0) > OLD_TRANSACTION_SECONDS:
        yield Finding(
            name="old_transaction",
            weight=Weight.RISKY,
            what=f"A transaction has been open for {(server.oldest_seconds or 0.0) / 3600:.1f} h.",
            why="Vacuum can remove no row that it may still see, so the tables grow and claims get slow.",
            remedy="See pg_stat_activity (xact_start) and pg_prepared_xacts; end what nobody needs.",
        )


def _durability(server: ServerHealth) -> Iterator[Finding]:
    for name in ("fsync", "full_page_writes"):
        if server.settings.get(name) == "off":
            yield Finding(
                name=name,
                weight=Weight.WRONG,
                what=f"{name} is off on the server.",
                why="If its machine fails, events that were answered 200 are lost, or the database is damaged.",
                remedy=f"Set {name} = on in postgresql.conf.",
            )
    if server.settings.get("synchronous_commit") == "off":
        yield Finding(
            name="synchronous_commit",
            weight=Weight.NOTE,
            what="synchronous_commit is off for this user or database.",
            why="The inbox switches it on for its own commits; what else your app commits may be lost.",
            remedy="Leave it if that is meant.",
        )


def _encoding(server: ServerHealth) -> Iterator[Finding]:
    encoding = server.settings.get("server_encoding", "UTF8")
    if encoding not in {"UTF8", "SQL_ASCII"}:  # the latter keeps whatever bytes it is given
        yield Finding(
            name="encoding",
            weight=Weight.RISKY,
            what=f"The database is in {encoding}.",
            why="A delivery with a character that it lacks, in a header perhaps, cannot be stored and is answered 503 "
            "each time.",
            remedy="Move to a database in UTF8.",
        )


def timeout_findings(server: ServerHealth, plans: Sequence[EndpointPlan]) -> Iterator[Finding]:
    """Judge time limits of the server that are shorter than a handler's."""
    longest = max((plan.settings.handler_seconds_max for plan in plans), default=0.0)
    for name in _TIMEOUTS:
        seconds = int(server.settings.get(name, "0")) / 1000
        if 0 < seconds < longest:
            yield Finding(
                name=name,
                weight=Weight.RISKY,
                what=f"The server's {name} is {seconds:g} s; a handler may take {longest:g} s.",
                why="The server ends a handler that the inbox would let go on; it fails and is run again.",
                remedy=f"Set {name} higher for this user, or handler_seconds_max lower.",
            )


def connection_findings(
    server: ServerHealth, plans: Sequence[EndpointPlan], processes: int
) -> Iterator[Finding]:
    """Judge whether the server has a connection for all that *processes* may open, each receiving and working."""
    kinds = {handler.kind for plan in plans if plan.mode != "queued" for handler in plan.handlers}
    pools = max(1, len(kinds)) + 1  # those that receive, and the worker's
    connections_max = max((plan.settings.connections_max for plan in plans), default=0)
    wanted = processes * (pools * connections_max + _SESSIONS_BESIDE)
    there = int(server.settings["max_connections"]) - int(server.settings["superuser_reserved_connections"])
    if wanted > there:
        yield Finding(
            name="connections",
            weight=Weight.RISKY,
            what=f"The app may open {wanted} connections ({processes} x {wanted // processes}); the server "
            f"has {there}.",
            why="Under load some get none, and deliveries are answered 503.",
            remedy="Lower connections_max, run fewer processes, or put a pooler before the server.",
        )


def schema_findings(health: Health) -> Iterator[Finding]:
    """Judge the schema's version."""
    schema = health.schema
    if schema.pending:
        yield Finding(
            name="schema_behind",
            weight=Weight.WRONG,
            what=f"Schema {schema.schema!r} is at version {schema.applied}; this release needs {schema.known}.",
            why="Deliveries are answered 503 until it is there; what it holds was not looked at.",
            remedy="Run webhook-inbox migrate APP.",
        )
    elif schema.applied > schema.known:
        yield Finding(
            name="schema_newer",
            weight=Weight.NOTE if schema.served else Weight.WRONG,
            what=f"Schema {schema.schema!r} is at version {schema.applied}; this release knows {schema.known}.",
            why="It is served during an upgrade."
            if schema.served
            else "This release cannot serve it: deliveries are answered 503.",
            remedy="Upgrade webhook-inbox here too.",
        )


def table_findings(tables: TableHealth) -> Iterator[Finding]:
    """Judge privileges, indexes and vacuum."""
    if tables.denied:
        more = len(tables.denied) - _DENIED_SHOWN
        shown = ", ".join(tables.denied[:_DENIED_SHOWN])
        yield Finding(
            name="privileges",
            weight=Weight.WRONG,
            what=f"This user lacks {shown}{f' and {more} more' if more > 0 else ''}.",
            why="What needs them fails.",
            remedy="Run what webhook-inbox roles prints, and GRANT this user the role of what it does; --part says "
            "which, where it does not do everything.",
        )
    if tables.missing:
        yield Finding(
            name="indexes",
            weight=Weight.WRONG,
            what=f"Missing or invalid: {', '.join(tables.missing)}.",
            why="Without them duplicates are not seen (inbox_event_key), or each claim reads a whole table.",
            remedy="REINDEX what is invalid; make what is missing anew, as webhook-inbox migrate --sql has it.",
        )
    if tables.unvacuumed:
        yield Finding(
            name="autovacuum",
            weight=Weight.RISKY,
            what=f"Autovacuum is off on {', '.join(tables.unvacuumed)}.",
            why="Each event updates its row several times; dead rows are never removed, and claims get slow.",
            remedy="ALTER TABLE ... RESET (autovacuum_enabled).",
        )
