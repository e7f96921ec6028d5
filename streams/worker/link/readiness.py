"""Why leases cannot reach this worker now, if they cannot."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from streams.errors import Fenced
from streams.serde.link.messages import Refused

log = structlog.get_logger(__name__)

_SILENT_SECONDS = 12.5
"""How long a heartbeat may be on its way before its owner counts as silent."""


class Readiness:
    """What the connections came to. It is called under the lock of the leases."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._welcome: set[str] = set()
        self._faults: dict[str, str] = {}
        self._refusals: set[str] = set()  # they say more than the end of their connections
        self._asked: dict[int, float] = {}

    @property
    def why(self) -> str | None:
        """What is the matter; None if leases can come."""
        if not self._welcome:
            told = "; ".join(f"{name}: {why}" for name, why in self._faults.items())
            return f"no owner of partitions takes this worker ({told or 'none answered so far'})"
        oldest = min(self._asked.values(), default=self._clock())
        if self._clock() - oldest > _SILENT_SECONDS:
            partition = min(self._asked, key=self._asked.__getitem__)
            return f"the owner of partition {partition} acknowledges nothing: see its log"
        return None

    def welcomed(self, name: str) -> None:
        """An owner takes the worker."""
        self._welcome.add(name)
        self._faults.pop(name, None)
        self._refusals.discard(name)

    def lost(self, name: str, why: str) -> None:
        """A connection is gone, or could not be made."""
        self._welcome.discard(name)
        if name not in self._refusals:
            self._faults[name] = why

    def refused(self, name: str, refused: Refused, failed: Callable[[Exception], None]) -> None:
        """An owner does not take the worker; if a later process has its name, it must end."""
        if self._faults.get(name) != refused.message:
            log.error("an owner refuses this worker", owner=name, reason=refused.message)
        self._faults[name] = refused.message
        self._refusals.add(name)
        if refused.reason == "replaced":
            failed(Fenced(refused.message))

    def asked(self, partition: int) -> None:
        """A partition was sent a heartbeat."""
        self._asked.setdefault(partition, self._clock())

    def heard(self, partition: int) -> None:
        """A partition has acknowledged its heartbeat."""
        self._asked.pop(partition, None)

    def forget(self, partition: int) -> None:
        """A partition has another owner, or none."""
        self._asked.pop(partition, None)
