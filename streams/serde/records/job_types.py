"""What applications announce of their job types."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AnnouncedType:
    name: str
    max_attempts: int
    backoff: tuple[float, ...]
    timeout_seconds: float
    tools: tuple[str, ...] | None
    input_schema: str | None
    result_schema: str | None


@dataclass(frozen=True, slots=True)
class JobTypes:
    app: str
    version: str | None
    types: tuple[AnnouncedType, ...]
