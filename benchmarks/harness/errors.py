"""Say that a run does not count."""

from __future__ import annotations


class BenchmarkError(Exception):
    """Nothing was measured: something that the run needs is missing, or did not start, or did not end."""


class InvariantError(BenchmarkError):
    """What was measured is worth nothing: effects and events differ."""
