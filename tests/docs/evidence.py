"""
Write the page of evidence: ``python -m tests.docs.evidence > docs/explanation/evidence.md``.

What is tried is listed here and compared with the tests; what was counted stands in ``evidence.json``, which a whole
run of the tests writes where WEBHOOK_INBOX_TEST_EVIDENCE names it.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
COUNTED = Path(__file__).with_name("evidence.json")
#: What is done, and where; each of these files is there.
TRIED: dict[str, tuple[tuple[str, str], ...]] = {
    "Every order, every step": (
        (
            "two plans, every order of their steps; a crash, a cut and a lost COMMIT reply at every step",
            "tests/schedules/test_pairs.py",
        ),
        ("the same with three plans, up to a bound", "tests/schedules/test_trios.py"),
        ("retention, migration and operators beside deliveries", "tests/schedules/test_upkeep.py"),
        ("asking a provider beside its deliveries", "tests/schedules/test_walking.py"),
        ("the explorer finds planted mistakes", "tests/schedules/test_mistakes.py"),
        ("a model in plain Python beside the database, step by step", "tests/property/test_inbox_machine.py"),
        (
            "the same for messages, from their transaction to their destinations",
            "tests/property/test_outbox_machine.py",
        ),
        ("every state of lease, token and clock, up to a bound", "tests/property/test_lease_model.py"),
        (
            "walks through that model, made on the database move by move",
            "tests/property/test_lease_replay.py",
        ),
    ),
    "Deaths": (
        (
            "SIGKILL of the receiver at every fault point, on every way through it",
            "tests/faults/test_kill_points.py",
        ),
        ("SIGKILL of a worker at every step of its plans", "tests/faults/test_worker_kills.py"),
        ("SIGKILL of the relay at every step", "tests/faults/test_relay_kills.py"),
        (
            "SIGKILL of the relay around each send to NATS, RabbitMQ, Redis and Kafka (every step: on request)",
            "tests/faults/test_relay_brokers.py",
        ),
        (
            "SIGKILL at the commit, on each kind of database connection",
            "tests/faults/test_databases_killed.py",
        ),
        (
            "SIGKILL at random of receivers, workers and a relay under load (`make faults`: half an hour)",
            "tests/faults/test_chaos.py",
        ),
        ("SIGKILL amid real payloads", "tests/acceptance/test_real_input_killed.py"),
        ("a worker that stands still past its lease, and goes on", "tests/faults/test_worker_leases.py"),
        ("SIGKILL of a worker that has a place of a limited endpoint", "tests/faults/test_worker_limits.py"),
        (
            "SIGTERM, once and twice, with a database that answers and one that does not",
            "tests/faults/test_worker_stops.py",
        ),
        ("a migrator that is killed anywhere", "tests/migrations/test_migrate.py"),
    ),
    "The network and the database": (
        (
            "a cut at every frame of a session; a black hole; latency and crumbs",
            "tests/faults/test_cut_connections.py",
        ),
        ("a client that hangs up at any point", "tests/faults/test_hang_ups.py"),
        (
            "the server killed 20 times under load; away, frozen, read-only, full of connections; limits, locks",
            "tests/faults/test_database_trouble.py",
        ),
        ("15 minutes and 8 hours of outage", "tests/faults/test_worker_outages.py"),
        ("a disk that is full, for data and for the log", "tests/faults/test_disk_full.py"),
        (
            "a primary that is lost under load: synchronous and asynchronous standby",
            "tests/faults/test_failover.py",
        ),
        (
            "a commit that the standby has not confirmed, on each kind of connection",
            "tests/conformance/test_drivers_standby.py",
        ),
        ("PgBouncer in transaction mode", "tests/faults/test_worker_pgbouncer.py"),
        ("each part under a role that may do only what it needs", "tests/integration/test_roles.py"),
        ("NATS, RabbitMQ and Redis that die under a relay", "tests/faults/test_relay_brokers.py"),
        ("a bad night, brought right by the commands of a page", "tests/faults/test_bad_night.py"),
        ("the release before beside this one, while it migrates", "tests/faults/test_rolling_upgrade.py"),
    ),
    "Strangers": (
        (
            "every truncation and every flipped bit of a good signature, for every provider",
            "tests/conformance/test_every_source.py",
        ),
        ("headers and bodies that nobody should send", "tests/property/test_verifiers_total.py"),
        ("the same for every provider", "tests/property/test_providers_total.py"),
        ("our verdict beside the providers' own libraries'", "tests/property/test_official_verifiers.py"),
        ("slow, huge and compressed bodies, on each server", "tests/acceptance/test_servers_bodies.py"),
        (
            "two requests in one: lengths and encodings that disagree",
            "tests/acceptance/test_servers_framing.py",
        ),
        (
            "secrets planted everywhere, and looked for in all that is written",
            "tests/acceptance/test_canaries.py",
        ),
        ("the same event 200 times at once", "tests/faults/test_rivals_over_http.py"),
    ),
}
NOT_TRIED = (
    "a disk that answers with errors; a machine that loses power",
    "a real Kafka broker: the mock cluster inside its client stands in for it",
    "clocks that jump while a test runs: stored instants are moved instead",
    "lost and reordered packets, and partitions in which both sides go on",
    "days of load: the longest runs are of minutes",
    "faults on other versions of PostgreSQL than the one a run finds or installs; Python 3.14",
)
#: What was run by hand on the oldest and the newest that could be had; CONTRIBUTING.md says how.
VERSIONS = (
    (
        "PostgreSQL 14.23, Python 3.11.7",
        "`migrations`, `plans`, `schedules`, `integration` (without `test_embedded_binaries.py`)",
        "2,306",
    ),
    ("PostgreSQL 18.6, Python 3.13.0", "`examples`: each app, in its own processes", "26"),
    (
        "PostgreSQL 15.18, Python 3.13.0",
        "sources: vectors, payloads, handshakes, the providers' own libraries",
        "2,616",
    ),
)
_PROOF = re.compile(r'def test_[^"]*?"""(.*?)"""', re.DOTALL)
_TAG = re.compile(r"\bP-[A-Z]{2,6}\b")


def page() -> str:
    """Give the page."""
    counted = json.loads(COUNTED.read_text(encoding="utf-8"))
    return "\n".join([_HEAD, *_promises(), *_tried(), *_counts(counted), *_versions(), *_not_tried()])


_SUMMARY = (
    "{passed:,} tests passed, Python {python}, `WEBHOOK_INBOX_TEST_SEED={seed}`. "
    "Nothing was lost and nothing applied twice, or the run would have failed."
)
_HEAD = """\
# What was tried

The promises are [here](promises.md), what an attacker meets is [there](attacks.md). This page says where each promise
is held by tests, which faults are brought about, how often in one whole run, and what is not covered. Each fault is
witnessed (a signal's status, a SQLSTATE, a counter), and afterwards the database is compared with what the sender was
told, which is kept outside of it.
"""


def _promises() -> list[str]:
    held: dict[str, set[str]] = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        for docstring in _PROOF.findall(path.read_text(encoding="utf-8")):
            for tag in _TAG.findall(docstring):
                held.setdefault(tag, set()).add(path.relative_to(ROOT / "tests").parts[0])
    rows = [f"| {tag} | {', '.join(sorted(rooms))} |" for tag, rooms in sorted(held.items())]
    return ["## Promises", "", "| promise | held by tests in `tests/` |", "| --- | --- |", *rows, ""]


def _tried() -> list[str]:
    lines = []
    for title, rows in TRIED.items():
        lines += [f"## {title}", "", "| what is done | where |", "| --- | --- |"]
        lines += [*(f"| {what} | `{where}` |" for what, where in rows), ""]
    return lines


def _counts(counted: dict[str, object]) -> list[str]:
    numbers = counted["counted"]
    assert isinstance(numbers, dict)
    return [
        "## Counted in one run",
        "",
        _SUMMARY.format_map(counted),
        "",
        "| what | how often |",
        "| --- | ---: |",
        *(f"| {what} | {number:,} |" for what, number in numbers.items()),
        "",
    ]


def _versions() -> list[str]:
    rows = [f"| {version} | {what} | {passed} |" for version, what, passed in VERSIONS]
    return [
        "## Other versions",
        "",
        "A whole run takes the newest server of its machine. These parts passed on versions that were named.",
        "",
        "| on | tests | passed |",
        "| --- | --- | ---: |",
        *rows,
        "",
    ]


def _not_tried() -> list[str]:
    return ["## Not covered", "", *(f"- {what}" for what in NOT_TRIED), ""]


if __name__ == "__main__":
    sys.stdout.write(page())
