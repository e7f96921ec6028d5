"""Publishes how many jobs wait, where that is near a cap of `max_queued`: on `jobs.backlog`.

Each partition has one record there, which replaces the one before, so that the next owner of the
partition corrects what a dead one has left. It is written only if a depth changed, ten times a
second at most, and more seldom the longer it is. Nothing is refused here: a job that is to be made
is made.
"""

from __future__ import annotations

from typing import ClassVar

from streams.dispatcher.part import Change, Part
from streams.dispatcher.shared import Shared
from streams.dispatcher.step import Step
from streams.limits.backlog import Depths, Line, QueueCaps, depths_of, report_of
from streams.runtime.processor import Context
from streams.serde.codec import BACKLOG
from streams.serde.job_states import PENDING

TOPIC = "jobs.backlog"
_REPORT = b"V"
_GAP_SECONDS = 0.1
_SECONDS_A_LINE = 0.001
_SETTLED_SECONDS = 1.0
"""A small change is published once the last report is so old."""


class BacklogReports(Part):
    """The report of one partition."""

    keys: ClassVar = {_REPORT: "the depths of the backlog that are published"}
    awaits_logs = True

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        caps = QueueCaps(self.topology.max_queued)
        self._depths = Depths(caps, self.topology.partitions)
        self._counts = bool(caps)
        self._published: dict[Line, int] = {}
        self._published_at = float("-inf")

    def restored(self, ctx: Context) -> None:
        """Load what the last owner published."""
        value = ctx.store("parts").get(_REPORT)
        self._published = {} if value is None else depths_of(BACKLOG.decode(value))

    def changed(self, change: Change) -> None:
        """Count the jobs that wait for a slot, also those that a limit holds back."""
        if not self._counts:
            return
        for live, more in ((change.before, -1), (change.after, 1)):
            if live is not None and live.status == PENDING:
                self._depths.count(live.tenant_id, live.type, more)

    def tick(self, step: Step) -> None:
        """Publish the depths near a cap if they changed."""
        since = step.monotonic - self._published_at
        if since < _GAP_SECONDS + _SECONDS_A_LINE * len(self._published):
            return
        depths = self._depths.near()
        if depths == self._published:
            return
        if since >= _SETTLED_SECONDS or self._depths.has_moved(self._published):
            self._publish(step, depths)

    def _publish(self, step: Step, depths: dict[Line, int]) -> None:
        step.on_undo(self._return_to, self._published, self._published_at)
        self._return_to(depths, step.monotonic)
        partition = self.shared.partition
        value = BACKLOG.encode(report_of(partition, depths)) if depths else None
        if value is None:
            step.store.delete(_REPORT)
        else:
            step.store.put(_REPORT, value)
        step.ctx.forward(TOPIC, str(partition).encode(), value)

    def _return_to(self, published: dict[Line, int], at: float) -> None:
        self._published, self._published_at = published, at
