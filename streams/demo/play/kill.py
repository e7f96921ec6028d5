"""One SIGKILL that landed, and how soon what it interrupted has to move on."""

from __future__ import annotations

from dataclasses import dataclass

RECOVERY_SECONDS = 30.0
"""Within so long the very work that a kill interrupted must have moved on (G8)."""


@dataclass(frozen=True, slots=True)
class Kill:
    """It struck the work of `stage` in `process`; `at` in seconds since the epoch.

    `recovered_after` are the seconds until what was in flight had moved on; None: it never did.
    A killed worker was in the middle of an effect of `job_id`, leased to it under `epoch`.
    """

    stage: str
    process: str
    pid: int
    at: float
    in_flight: str
    job_id: str = ""
    epoch: int = 0
    recovered_after: float | None = None
