"""Permits of shared limits: what a partition claims of a limit's owner, and what it is granted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LimitClaim:
    limit: str
    key: str
    holder: int
    incarnation: int
    number: int
    want: int
    granted: int
    returned: int
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class LimitGrant:
    limit: str
    key: str
    incarnation: int
    number: int
    granted: int
    returned: int
    target: int
    tokens: int = 0
    wait_ms: int = 0
