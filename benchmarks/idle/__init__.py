"""Measure a worker that has nothing to do: what it costs, and how soon it picks up what comes."""
