"""Serve."""

from __future__ import annotations


def serve() -> int:
    """Serve."""
    return 0
