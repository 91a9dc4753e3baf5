"""Measure every receiver with the same events: as fast as it answers, then at rates of our own."""

from __future__ import annotations

from functools import partial

from benchmarks.harness.suite import Subject, Suite
from benchmarks.receive.load import Traffic, measure
from benchmarks.receive.receivers import RECEIVERS

TRAFFIC = Traffic(connections=32, rates=(300, 2_000))  # the first rate is within everybody's reach

SUITE = Suite(
    name="receive",
    about="HTTP to commit: 3 KB Stripe events, 32 connections in a closed loop, one process unless named otherwise",
    subjects=tuple(
        Subject(
            name=each.name,
            group=each.group,
            title=each.title,
            setting=each.setting,
            measure=partial(measure, each, TRAFFIC),
        )
        for each in RECEIVERS
    ),
    reference="http_limit",
    seconds=5.0,
)
