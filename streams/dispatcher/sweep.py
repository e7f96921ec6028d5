"""Goes over all live jobs, a part in each punctuation, to correct what no command corrects.

It wakes jobs whose timer was lost, has waiting jobs follow a changed topology, and ends those of
erased tenants. A round begins at the start, every five minutes, and when a tenant is erased.
"""

from __future__ import annotations

from itertools import islice

from streams.dispatcher import live_index, metrics
from streams.dispatcher.closed_tenants import ERASED_REASON
from streams.dispatcher.jobs import due_at, is_live
from streams.dispatcher.lifecycle import Lifecycle
from streams.dispatcher.live_index import Live
from streams.serde.records import Job
from streams.state.store import KeyValueStore

_ROUTING = b"R"
"""The store key of the digest of the routing that every live job follows."""
_ROUND_SECONDS = 300.0
_LOOKED_AT = 500
"""How many live jobs one punctuation looks at while jobs are rerouted."""
_GLANCED_AT = 150
"""The same in an ordinary round, so that a punctuation of an idle partition stays short."""
_CHANGED = 200
_LATE_MS = 60_000
_START = ""


class Sweep:
    """Goes over one partition's live jobs; `rerouting` is True until all follow the topology.

    `routing` is the digest of the topology's routing (`rerouting`).
    """

    def __init__(self, routing: bytes) -> None:
        self._digest = routing
        self._behind: str | None = _START  # the id behind which it goes on; None between rounds
        self._before: str | None = _START
        self._due = self._due_before = 0.0
        self.rerouting = True

    def restored(self, store: KeyValueStore) -> None:
        """Go over the last part again, because its changes may have been taken back."""
        self._behind = self._before
        self._due = min(self._due, self._due_before)  # a round that had begun begins again
        self.rerouting = store.get(_ROUTING) != self._digest

    def begin(self) -> None:
        """Begin a round, after the one that is under way."""
        self._due = 0.0

    def go_on(self, life: Lifecycle) -> None:
        """Look at the next part of the jobs."""
        self._before, self._due_before = self._behind, self._due
        if self._behind is None:
            if life.ctx.monotonic < self._due:
                return
            self._behind = _START
        if self._behind == _START:
            self._due = life.ctx.monotonic + _ROUND_SECONDS
        found = live_index.entries(life.ctx.store("jobs"), self._behind)
        most = _LOOKED_AT if self.rerouting else _GLANCED_AT
        part = list(islice(found, most))
        changed = 0
        for job_id, live in part:
            self._behind = job_id
            if self._is_due(live, life):
                changed += self._mended(life.store.get(job_id), life)
            if changed == _CHANGED:
                return
        if len(part) < most:
            self._finish(life.ctx.store("jobs"))

    def _finish(self, store: KeyValueStore) -> None:
        self._behind = None
        if self.rerouting:
            store.put(_ROUTING, self._digest)
            self.rerouting = False

    def _is_due(self, live: Live, life: Lifecycle) -> bool:
        """Whether the job itself has to be decoded; most need not be."""
        late = live.status == "scheduled" and live.at + _LATE_MS < life.now
        return late or self.rerouting or live.tenant_id in life.tenants.erased

    def _mended(self, job: Job | None, life: Lifecycle) -> bool:
        if job is None:
            return False
        if job.tenant_id in life.tenants.erased:
            return _stopped(job, life)
        if job.status == "scheduled" and due_at(job) + _LATE_MS < life.now:
            metrics.TIMERS_LOST.inc()
            life.requeue(job)
            return True
        waits = job.status in ("pending", "scheduled")
        return waits and self.rerouting and life.reroute(job)


def _stopped(job: Job, life: Lifecycle) -> bool:
    told = job.status == "running" and job.cancel_requested
    if told or not is_live(job):
        return False
    life.stop(job, ERASED_REASON)
    return True
