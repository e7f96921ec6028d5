"""Where new work comes in: it is refused while too much waits, by what dispatchers publish."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from simulation.outside import Violation
from streams.limits.backlog import Backlog, QueueCaps
from streams.runtime.processor import Record
from streams.serde.codec import BACKLOG
from streams.topology.limits import MaxQueued

_TOPIC = "jobs.backlog"


class Door:
    """What an ingress knows of the backlog."""

    def __init__(
        self, caps: tuple[MaxQueued, ...], records: Mapping[tuple[str, int], list[Record]]
    ) -> None:
        self._records = records
        self._backlog = Backlog(QueueCaps(caps))
        self._read: Counter[tuple[str, int]] = Counter()

    def refuses(self, tenant: str, job_type: str) -> bool:
        """Whether a sender is told to try again later."""
        self._follow()
        return self._backlog.full(tenant, job_type) is not None

    def at_the_end(self) -> None:
        """Once nothing waits, nothing is refused.

        Raises:
            Violation: a report of former jobs is left.
        """
        self._follow()
        if left := self._backlog.known():
            raise Violation("backlog", f"nothing waits, and {left} is published")

    def _follow(self) -> None:
        for place, log in self._records.items():
            if place[0] == _TOPIC:
                for record in log[self._read[place] :]:
                    report = None if record.value is None else BACKLOG.decode(record.value)
                    self._backlog.hear(int(record.key or b""), report)
                self._read[place] = len(log)
