"""How a run ends: what its worker reports, and what the job's history keeps of it."""

from __future__ import annotations

from typing import Final, Literal

ReportedEnd = Literal[
    "succeeded",
    "retry",
    "failed",
    "cancelled",
    "review",
    "released",
    "blocked",
    "full",
    "parked",
    "continued",
]
SUCCEEDED: Final = "succeeded"
RETRY: Final = "retry"
"""The run failed, and another attempt may succeed."""
FAILED: Final = "failed"
"""The run failed, and no attempt can succeed."""
CANCELLED: Final = "cancelled"
REVIEW: Final = "review"
"""A person has to say whether an effect was done."""
RELEASED: Final = "released"
"""The worker gave the job back."""
BLOCKED: Final = "blocked"
"""A run of another job makes an effect that this one asked for."""
FULL: Final = "full"
"""A limit has no room for a call of a tool or model that the run asked for."""
PARKED: Final = "parked"
"""The run goes on in another one, once what its job waits for has come."""
CONTINUED: Final = "continued"
"""The job begins anew, with another input and without what its steps and waits left."""

RunEnd = Literal[ReportedEnd, "lost"]
LOST: Final = "lost"
"""The run lost its lease, so its worker reports nothing."""

AttemptKind = Literal["failed", "timeout", "lost", "released"]
"""The ends of runs that a job's history keeps."""
TIMEOUT: Final = "timeout"
