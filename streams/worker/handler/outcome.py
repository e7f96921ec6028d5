"""How one job of a gather ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one job of a gather ended: `result` if its `status` is "succeeded", else `error`."""

    status: str
    result: Any
    error: str | None
    job_id: str
