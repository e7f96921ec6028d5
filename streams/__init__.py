"""Tidegate: webhooks become jobs whose effects happen once.

These names are the public API; everything else may change between releases.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from streams.errors import (
    AmbiguousStep,
    ApprovalExpired,
    ApprovalRejected,
    ChildConflict,
    ChildFailed,
    HistoryDiverged,
    JobFailed,
    PermanentError,
    PolicyDenied,
    RetryAfter,
    TransientError,
    WaitRefused,
    WaitTimeout,
)
from streams.worker.app import App
from streams.worker.blocking.context import BlockingContext
from streams.worker.handler.context import Context
from streams.worker.handler.decision import Decision
from streams.worker.handler.outcome import Outcome
from streams.worker.job_types import Retry

if TYPE_CHECKING:
    from streams.event_reader.consume import EventsPurged, consume
    from streams.event_reader.sinks import DatabaseSink, SqliteSink
    from streams.event_reader.topic_sink import KafkaSink

__all__ = [
    "AmbiguousStep",
    "App",
    "ApprovalExpired",
    "ApprovalRejected",
    "BlockingContext",
    "ChildConflict",
    "ChildFailed",
    "Context",
    "DatabaseSink",
    "Decision",
    "EventsPurged",
    "HistoryDiverged",
    "JobFailed",
    "KafkaSink",
    "Outcome",
    "PermanentError",
    "PolicyDenied",
    "Retry",
    "RetryAfter",
    "SqliteSink",
    "TransientError",
    "WaitRefused",
    "WaitTimeout",
    "consume",
]

_OF_READERS = {
    "consume": "consume",
    "EventsPurged": "consume",
    "DatabaseSink": "sinks",
    "KafkaSink": "topic_sink",
    "SqliteSink": "sinks",
}
"""Names for readers of `events`, and their modules: a worker does not load them."""


def __getattr__(name: str) -> Any:
    if name not in _OF_READERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"streams.event_reader.{_OF_READERS[name]}"), name)
