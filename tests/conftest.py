"""List the fixtures of the whole suite; each concern has its file, ``tests/fix_*.py``."""

from __future__ import annotations

pytest_plugins = ["tests.fix_skips"]
