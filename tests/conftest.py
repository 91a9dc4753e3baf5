"""List the fixtures of the whole suite; each concern has its file under ``tests/fixtures``."""

from __future__ import annotations

import os

pytest_plugins = [
    "tests.fixtures.cli",
    "tests.fixtures.http_servers",
    "tests.fixtures.postgres",
    "tests.fixtures.programs",
    "tests.fixtures.skips",
    "tests.fixtures.tally",
    "tests.fixtures.workers",
]

#: What only root can try (becoming another account) is no test for anybody else, rather than a skipped one.
collect_ignore = [] if os.geteuid() == 0 else ["integration/test_embedded_as_root.py"]
