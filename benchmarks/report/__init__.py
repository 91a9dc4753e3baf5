"""
Draw ``docs/explanation/performance.md`` and its plots from ``benchmarks/results.json``; no figure is written by hand.

``python -m benchmarks.report`` writes them; a test compares.
"""
