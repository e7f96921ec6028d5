"""Flow control: jobs of one tenant, type and value take each other's place before they begin.

`topology.yaml` says which do (`FlowControl`), `superseding` has the rules, and `groups` the state.
Each event has its own job, as its ingress answered. A job that another one runs for ends
`cancelled`, and names that one in `superseded_by`.

Left alone are jobs of replays, which a person asked for, jobs that a run asked for, jobs whose
submission named their time, and jobs that lack the value by which their rule compares them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import structlog

from streams.dispatcher import groups, metrics
from streams.dispatcher.groups import Groups, Place, group_of
from streams.dispatcher.job import is_live
from streams.dispatcher.live_index import Live
from streams.dispatcher.part import Part
from streams.dispatcher.routing import declared_for, has_begun, is_replay
from streams.dispatcher.shared import Shared
from streams.dispatcher.step import Step
from streams.dispatcher.superseding import complete, meet, meeting
from streams.dispatcher.transitions import requeue
from streams.runtime.processor import Context
from streams.serde.job_states import PENDING, SCHEDULED
from streams.serde.records import Job
from streams.topology.by_value import INPUT, value_of, value_of_input
from streams.topology.flow_control import Batch, Rule

log = structlog.get_logger(__name__)


class FlowControl(Part):
    """Lets new jobs take the place of others, or others take theirs."""

    keys: ClassVar = groups.KEYS

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._is_declared = any(
            declared.rule is not None
            for declared in (*self.topology.routes, *self.topology.job_types.values())
        )
        self._without_value: set[tuple[str, str]] = set()  # logged, each once

    def restored(self, ctx: Context) -> None:
        self._groups = Groups(ctx)

    def admitted(self, step: Step, job: Job) -> None:
        """Decide between a new job and those of its group, unless it is left alone."""
        now = step.table.get(job.job_id)
        if not self._is_declared or now is None or now.status != PENDING:
            return
        # A run waits for the job that it asked for; one that lives again may stand for others.
        if is_replay(now) or has_begun(now) or now.parent is not None or now.event_count:
            return
        rule = self._rule(now)
        value = None if rule is None else self._value(now, rule)
        if rule is not None and value is not None:
            meet(rule, meeting(step, self._groups, now, group_of(now, rule, value)))

    def revived(self, step: Step, job: Job) -> None:
        self.admitted(step, job)

    def begins(self, step: Step, job: Job) -> Job:
        """Close the place of a job that is leased: what comes from now on is not for this run."""
        place = self._groups.place(step, job.job_id)
        if place is None:
            return job
        job = complete(step, self._groups, job, place)
        group = self._groups.group(step, place.group)
        if group.open == job.job_id:
            group = replace(group, open=None)
        if place.stays and group.begun in (None, job.job_id):
            group = replace(group, begun=job.job_id)
            self._groups.set_place(step, job.job_id, replace(place, taken=0, noted=0, size=0))
        else:
            self._groups.set_place(step, job.job_id, None)
        self._groups.set_group(step, place.group, group)
        return job

    def ended(self, step: Step, job: Job) -> None:
        """Give up the place of a job; one that waits for its end goes on."""
        place = self._groups.place(step, job.job_id)
        if place is None:
            return
        now = step.table.get(job.job_id) or job
        ended = complete(step, self._groups, now, place)
        if ended is not now:
            step.table.put(ended)
        self._leave(step, job.job_id, place)

    def is_due(self, step: Step, live: Live) -> bool:
        return live.status == SCHEDULED and not live.at

    def mend(self, step: Step, job: Job) -> bool:
        """Let a job go on that waits for the end of one that is not there."""
        awaited = step.table.get(job.queued_behind or "")
        if awaited is not None and is_live(awaited):
            return False
        metrics.TIMERS_LOST.inc()
        requeue(step, job)
        return True

    def _leave(self, step: Step, job_id: str, place: Place) -> None:
        self._groups.set_place(step, job_id, None)
        group = self._groups.group(step, place.group)
        if group.open == job_id:
            group = replace(group, open=None)
        has_ended = group.begun == job_id
        if has_ended:
            group = replace(group, begun=None)
        self._groups.set_group(step, place.group, group)
        waiting = step.table.get(group.open or "") if has_ended else None
        if waiting is not None and waiting.queued_behind is not None:
            requeue(step, waiting)

    def _rule(self, job: Job) -> Rule | None:
        """The rule of a job; a batch has events alone."""
        rules = (declared.rule for declared in declared_for(job, self.topology))
        rule = next((rule for rule in rules if rule is not None), None)
        return None if isinstance(rule, Batch) and job.event is None else rule

    def _value(self, job: Job, rule: Rule) -> str | None:
        """The value by which a job is compared; None, and counted, if it has none."""
        if rule.by is None:
            return ""
        if job.event is None or rule.by.startswith(INPUT):
            value = value_of_input(rule.by, job.input)
        else:
            value = value_of(rule.by, job.event)
        if value:
            return value
        metrics.FLOW_WITHOUT_VALUE.labels(metrics.of_type(job.type)).inc()
        if (job.type, rule.by) not in self._without_value:
            self._without_value.add((job.type, rule.by))
            log.warning(
                "job is left alone by flow control: it has no value to compare",
                type=job.type,
                by=rule.by,
                job_id=job.job_id,
            )
        return None
