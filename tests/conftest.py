"""List the fixtures of the whole suite; each concern has its file under ``tests/fixtures``."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator

import pytest

from tests.faults.small_disk import may_mount
from tests.fixtures.previous_release import reachable
from webhook_inbox.runtime import counting

pytest_plugins = [
    "tests.fixtures.cli",
    "tests.fixtures.http_servers",
    "tests.fixtures.http_apps",  # it imports the one before, which pytest has to import first
    "tests.fixtures.brokers",  # so does it
    "tests.fixtures.roles",
    "tests.fixtures.postgres",  # so does this one, with the one before
    "tests.fixtures.pgbouncer",
    "tests.fixtures.programs",
    "tests.fixtures.moves",
    "tests.fixtures.skips",
    "tests.fixtures.spans",
    "tests.fixtures.tally",
    "tests.fixtures.workers",
]

#: What only root can try (becoming another account) is no test for anybody else, rather than a skipped one.
collect_ignore = [] if os.geteuid() == 0 else ["integration/test_embedded_as_root.py"]
#: Nor is what needs a disk that is full, for who may mount none; in a container even root may not.
if not may_mount():
    collect_ignore.append("faults/test_disk_full.py")
#: Nor is what needs a program that is no Python package; CI installs it (.ci/run) and leaves nothing out.
_BROKERS = [
    "conformance/test_brokers.py",
    "docs/test_how_to_relay_destinations.py",
    "faults/test_relay_brokers.py",
    "integration/test_destination_rabbitmq.py",
    "integration/test_destination_redis.py",
]
_NEEDED_BY = {
    "pgbouncer": ["faults/test_worker_pgbouncer.py"],
    "promtool": ["docs/test_alerts.py"],
    "rabbitmq-server": _BROKERS,
    "redis-server": _BROKERS,
}
if os.environ.get("CI") != "true":
    for _program, _tests in _NEEDED_BY.items():
        if not shutil.which(_program, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"):
            collect_ignore.extend(_tests)


@pytest.fixture(autouse=True, scope="session")
def _counts_stay_in_the_process() -> Iterator[None]:
    """Have no thread of an inbox that a test has left take its counts to a database while another test measures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "EVERY_SECONDS", 86_400.0)
        yield


#: Files with few tests that take long come first, so that no process is left alone with one in the end.
_LONG = ("tests/faults/", "tests/schedules/", "tests/examples/", "tests/acceptance/", "tests/migrations/")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what takes long first; in what order, chance has decided before."""
    items.sort(key=lambda item: not item.nodeid.startswith(_LONG))


#: Nor is what needs the release before this one, where a clone has no history (git fetch --unshallow brings it).
if not reachable():
    collect_ignore.append("faults/test_rolling_upgrade.py")

# A suite that runs in the background finds Ctrl-C ignored, and so would all its children: but what it does is tested.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
