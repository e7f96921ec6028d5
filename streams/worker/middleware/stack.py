"""The middleware of an application, in order; `DEFAULT` is what each application begins with."""

from __future__ import annotations

from collections.abc import Callable

from streams.worker.middleware.contract import Middleware, WorkerParts
from streams.worker.middleware.isolation import Isolation
from streams.worker.middleware.metrics import Metrics
from streams.worker.middleware.preflight import Preflight
from streams.worker.middleware.redaction import Redacted
from streams.worker.middleware.run_log import RunLog
from streams.worker.middleware.time_limit import TimeLimit
from streams.worker.middleware.tracing import Tracing
from streams.worker.middleware.typed_input import TypedInput

DEFAULT: tuple[Callable[[WorkerParts], Middleware], ...] = (
    Tracing,
    Isolation,
    Metrics,
    RunLog,
    Redacted,
    TimeLimit,
    TypedInput,
    Preflight,
)
"""Outermost first: a run passes them downwards, and its result passes them upwards."""
