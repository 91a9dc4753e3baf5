"""List the fixtures of the whole suite; each concern has its file under ``tests/fixtures``."""

from __future__ import annotations

pytest_plugins = ["tests.fixtures.postgres", "tests.fixtures.programs", "tests.fixtures.skips"]
