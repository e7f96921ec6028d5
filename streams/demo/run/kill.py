"""One SIGKILL that landed, and how soon the interrupted work must move on."""

from __future__ import annotations

from dataclasses import dataclass

RECOVERY_SECONDS = 120.0
"""How many seconds the work that a kill interrupted may take to move on (G8). It takes little more
than a session; the bound is for machines that are busy with other work."""


@dataclass(frozen=True, slots=True)
class Kill:
    """A kill that struck the work of `stage` in `process`; `at` in seconds since the epoch.

    `recovered_after` is how many seconds the work in flight took to move on; None if it never did.
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
