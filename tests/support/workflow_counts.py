"""The numbers of workflows, counted from the rows of jobs, against the records of `workflows`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from streams.serde.codec import WORKFLOW
from streams.serde.job_states import LIVE
from streams.serde.keys import workflow_key
from streams.serde.records import Job


@dataclass(slots=True)
class _Count:
    """`jobs` also counts those that are not kept any more, in the states in which they were."""

    jobs: Counter[str] = field(default_factory=Counter)
    kept: int = 0


class WorkflowCounts:
    """Follows the topics `jobs` and `workflows` record by record; `error` makes what is raised."""

    def __init__(self, error: Callable[[str, str], Exception]) -> None:
        self._error = error
        self._counts: dict[bytes, _Count] = {}
        self._records: dict[bytes, bytes] = {}
        self._changed: set[bytes] = set()

    def changed(self, before: Job | None, after: Job | None) -> None:
        """A row of a job, as it was and as it is now."""
        old, new = _place(before), _place(after)
        if before is not None and old is not None and old != new:
            self._left(old)
        if after is None or new is None:
            return
        count = self._counts.setdefault(new, _Count())
        if before is not None and old == new:
            count.jobs[before.status] -= 1
        else:
            count.kept += 1
        count.jobs[after.status] += 1
        self._changed.add(new)

    def told(self, key: bytes, value: bytes | None) -> None:
        """A record of `workflows`."""
        self._changed.add(key)
        if value is None:
            self._records.pop(key, None)
        else:
            self._records[key] = value

    def look(self) -> None:
        """Compare both, as one transaction has left them."""
        for place in self._changed:
            count, value = self._counts.get(place), self._records.get(place)
            found = None if value is None else WORKFLOW.decode(value)
            numbers = None if found is None else (+Counter(found.jobs), found.kept)
            counted = None if count is None else (+count.jobs, count.kept)
            if numbers != counted:
                raise self._error("miscounted", f"{place!r}: {found}, counted {counted}")
            is_live = count is not None and any(count.jobs[status] for status in LIVE)
            if found is not None and is_live != (found.status == "running"):
                raise self._error("miscounted", f"{found} has {counted}")
        self._changed.clear()

    def _left(self, place: bytes) -> None:
        """A workflow has a row less; without any row it is forgotten."""
        count = self._counts[place]
        count.kept -= 1
        self._changed.add(place)
        if not count.kept:
            del self._counts[place]


def _place(job: Job | None) -> bytes | None:
    if job is None or job.workflow_id is None:
        return None
    return workflow_key(job.tenant_id, job.workflow_id)
