"""Measure what a queue costs by itself: its handlers do nothing but tell that they ran."""
