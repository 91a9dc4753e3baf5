"""Measure what operators do to a large inbox: look at it, and have what is old forgotten while it receives."""
