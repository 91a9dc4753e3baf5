"""Measure from HTTP to commit: each receiver verifies Stripe's signature, records the event once, and answers 200."""
