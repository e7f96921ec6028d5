"""Runs an application's jobs in a plain pytest: without Kafka, on a virtual clock, in milliseconds.

The pipeline and the worker are the product's own, over topics and stores in memory; see
docs/testing.md.
"""

from streams.testing.artifacts import Saved
from streams.testing.bench import Bench
from streams.testing.crash_points import Crash, crash_points
from streams.testing.job import Job
from streams.testing.middleware_rules import middleware_rules
from streams.testing.refused import Refused
from streams.testing.values import Call, DeadLetter, Effect, FailedRun, LogLine

__all__ = [
    "Bench",
    "Call",
    "Crash",
    "DeadLetter",
    "Effect",
    "FailedRun",
    "Job",
    "LogLine",
    "Refused",
    "Saved",
    "crash_points",
    "middleware_rules",
]
