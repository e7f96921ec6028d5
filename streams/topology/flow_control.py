"""How many jobs a flood of events makes, and which of them run: on a route or on a job type.

Jobs are compared within a tenant and a job type: by the value that `by` names, or all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from streams.topology.by_value import Compared, value_of
from streams.topology.declared import Declared, Text

MOST_BATCHED = 500
"""A job of a batch has at most so many events: it has to fit a record with all of them."""

Seconds = Annotated[float, Field(gt=0, le=7 * 86_400, strict=True)]
"""Bodies are kept for longer than jobs wait."""


@dataclass(frozen=True, slots=True)
class Debounce(Declared):
    """The newest of several events runs, once `seconds` have passed without another.

    It runs at the latest `max_seconds` after the first of them.
    """

    seconds: Seconds
    max_seconds: Seconds | None = None
    by: Text | None = None


@dataclass(frozen=True, slots=True)
class Singleton(Declared):
    """Of the jobs with one value, one is kept.

    - `newest`: the newest of those that have not begun.
    - `first`: the one that has not ended.
    - `queue_one`: the one that has begun and not ended, and the newest behind it.
    """

    keep: Literal["newest", "first", "queue_one"]
    by: Text | None = None


@dataclass(frozen=True, slots=True)
class Batch(Declared):
    """One job for up to `size` events, at the latest `seconds` after the first of them."""

    size: Annotated[int, Field(ge=2, le=MOST_BATCHED, strict=True)]
    seconds: Seconds
    by: Text | None = None


Rule = Debounce | Singleton | Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowControl(Declared):
    """What a route or a job type declares; at most one of the first three."""

    debounce: Debounce | None = None
    singleton: Singleton | None = None
    batch: Batch | None = None
    expires_after_seconds: Seconds | None = None
    """A job that has not begun so long after it could have is cancelled."""

    @property
    def rule(self) -> Rule | None:
        """How its jobs take each other's place, if they do."""
        return self.debounce or self.singleton or self.batch


@dataclass(frozen=True, slots=True)
class PriorityBy:
    """Which priority an event's job has, by a value of the event."""

    by: str
    levels: tuple[tuple[str, str], ...]
    otherwise: str
    """The priority for a value that is not listed, and for none."""

    def of(self, event: Compared) -> str:
        return dict(self.levels).get(value_of(self.by, event) or "", self.otherwise)
