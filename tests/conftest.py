"""List the fixtures of the whole suite; each concern has its file under ``tests/fixtures``."""

from __future__ import annotations

import os
import shutil
import signal

pytest_plugins = [
    "tests.fixtures.cli",
    "tests.fixtures.http_servers",
    "tests.fixtures.postgres",
    "tests.fixtures.pgbouncer",
    "tests.fixtures.programs",
    "tests.fixtures.skips",
    "tests.fixtures.tally",
    "tests.fixtures.workers",
]

#: What only root can try (becoming another account) is no test for anybody else, rather than a skipped one.
collect_ignore = [] if os.geteuid() == 0 else ["integration/test_embedded_as_root.py"]
#: Nor is what needs a program that is no Python package; CI installs it (.ci/run) and leaves nothing out.
if (
    not shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
    and os.environ.get("CI") != "true"
):
    collect_ignore.append("faults/test_worker_pgbouncer.py")

# A suite that runs in the background finds Ctrl-C ignored, and so would all its children: but what it does is tested.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
