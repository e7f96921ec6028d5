"""What an application imports to write middleware of its own; see docs/middleware.md.

These names are public, as those of `streams` are.
"""

from streams.worker.handler.run_result import RunResult
from streams.worker.middleware.contract import (
    EffectCall,
    GoOn,
    GoOnWithEffect,
    Middleware,
    Run,
    WorkerParts,
)
from streams.worker.middleware.isolation import Isolation
from streams.worker.middleware.metrics import Metrics
from streams.worker.middleware.policy import Approve, Deny, Policy
from streams.worker.middleware.preflight import Preflight
from streams.worker.middleware.redaction import Redacted
from streams.worker.middleware.run_log import RunLog
from streams.worker.middleware.time_limit import TimeLimit
from streams.worker.middleware.tracing import Tracing
from streams.worker.middleware.typed_input import TypedInput
from streams.worker.middleware.weight import Weight

__all__ = [
    "Approve",
    "Deny",
    "EffectCall",
    "GoOn",
    "GoOnWithEffect",
    "Isolation",
    "Metrics",
    "Middleware",
    "Policy",
    "Preflight",
    "Redacted",
    "Run",
    "RunLog",
    "RunResult",
    "TimeLimit",
    "Tracing",
    "TypedInput",
    "Weight",
    "WorkerParts",
]
