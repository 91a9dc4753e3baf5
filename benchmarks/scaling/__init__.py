"""Measure our own worker where more of it works, and where some events always fail."""
