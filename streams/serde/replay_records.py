"""The values of replays of events on the topic `replays`, one frozen dataclass for each record.

As in `records`, field names and meanings are documented in `schemas/replay.avsc`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

ReplayStatus = Literal["running", "paused", "stopped", "done", "expired"]
RUNNING: Final = "running"
PAUSED: Final = "paused"
STOPPED: Final = "stopped"
DONE: Final = "done"
EXPIRED: Final = "expired"
ENDED: frozenset[str] = frozenset({STOPPED, DONE, EXPIRED})


@dataclass(frozen=True, slots=True)
class ReplayRange:
    partition: int
    first: int
    end: int | None = None


@dataclass(frozen=True, slots=True)
class ReplayAsked:
    note: str
    tenant_id: str | None
    source: str | None
    types: tuple[str, ...]
    subject: str | None
    since: int | None
    until: int | None
    offsets: tuple[ReplayRange, ...]
    job: str | None
    priority: str
    rate: float
    digest: bytes


@dataclass(frozen=True, slots=True)
class ReplayPaused:
    paused: bool


@dataclass(frozen=True, slots=True)
class ReplayStopped:
    note: str


@dataclass(frozen=True, slots=True)
class ReplaySpan:
    partition: int
    first: int
    next: int
    end: int


@dataclass(frozen=True, slots=True)
class ReplayProgress:
    status: ReplayStatus
    spans: tuple[ReplaySpan, ...]
    events: int = 0
    jobs: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    samples: dict[str, str] = field(default_factory=dict)
    unreadable: int = 0
    notes: tuple[str, ...] = ()
    started_at: int = 0
    worked_ms: int = 0
    error: str | None = None


ReplayBody = ReplayAsked | ReplayPaused | ReplayStopped | ReplayProgress


@dataclass(frozen=True, slots=True)
class ReplayRecord:
    replay_id: str
    at: int
    by: str
    body: ReplayBody
