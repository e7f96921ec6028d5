"""What an owner of partitions tells each worker that dials it, and what it demands of one."""

from __future__ import annotations

from dataclasses import dataclass

from streams.topology.model import LeasePolicy


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of one owner: `owner` is its name, and `pools` are those that exist."""

    owner: str
    partitions: int
    pools: frozenset[str]
    leases: LeasePolicy

    @property
    def silence_seconds(self) -> float:
        """A connection that gave no beat for so long is cut."""
        return 3 * self.leases.heartbeat_seconds
