"""Measure how fast one worker process drains what is queued: ours, and the queues that a user could pick instead."""
