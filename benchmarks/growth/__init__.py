"""Measure our own costs as rows, connections and bodies grow, and what an event leaves on disk."""
