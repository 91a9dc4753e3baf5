"""Measure from the 200 to the effect, on a system that has nothing else to do."""
