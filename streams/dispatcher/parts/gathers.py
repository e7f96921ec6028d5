"""Gathers: a run asks for a list of jobs, so many at a time, and waits for all of them.

The run says how many there are before it names the first (`SealGather`), then sends the list in
pages (`AddChildren`), and parks. A job that ends lets the next one begin, and changes only the
numbers of its gather, so the cost of an end does not grow with the list.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from streams import user_json
from streams.dispatcher import gathers, metrics
from streams.dispatcher.children import is_still_ending, make
from streams.dispatcher.gathers import Gather
from streams.dispatcher.job import is_live
from streams.dispatcher.living_lease import living, why_not
from streams.dispatcher.part import AT_ONCE, Part
from streams.dispatcher.step import Step
from streams.dispatcher.tree import cause_above, in_workflow, parent_of, stop_below
from streams.dispatcher.waiting import end_wait
from streams.dispatcher.work_list import WorkList
from streams.errors import PoisonRecord
from streams.runtime.part import handles
from streams.runtime.processor import Context
from streams.serde.keys import join, split
from streams.serde.records import (
    AddChildren,
    ChildSpec,
    Command,
    Job,
    Parent,
    ReadChildren,
    ReplyKind,
    SealGather,
)

_FILLING, _FORGETTING = b"F", b"X"
_INPUT_BYTES = 32 * 1024
"""A job with a larger input counts as several of those that one step begins."""
_TOLD_BYTES = 256 * 1024
"""An answer is complete with the result that exceeds this; one has as many again at most."""


class Gathers(Part):
    """The gathers of one partition's jobs."""

    keys: ClassVar = {
        gathers.NUMBERS: "the numbers of gathers",
        gathers.LISTED: "jobs of gathers that are not made yet",
        gathers.ENDS: "how gathered jobs had ended that live again",
        _FILLING: "gathers of which more jobs may begin",
        _FORGETTING: "gathers that are over, until what they kept is deleted",
    }

    def restored(self, ctx: Context) -> None:
        self._filling = WorkList(ctx, _FILLING)
        self._forgetting = WorkList(ctx, _FORGETTING)
        self._behind = b""

    @handles(SealGather)
    def seal(self, step: Step, command: Command, body: SealGather, at: int) -> None:
        """Begin a gather, and say how many jobs of its list are known already."""
        job = living(step, command, body.run_id)
        refusal = why_not(step, job)
        if job is None or refusal is not None:
            step.answer(command, body.claim_id, *(refusal or ("lost",)))
        else:
            step.answer(command, body.claim_id, *self._sealed(step, job, body))

    def _sealed(self, step: Step, job: Job, body: SealGather) -> tuple[ReplyKind, str, str | None]:
        gather = gathers.find(step, job, body.id)
        most = self.topology.workflows.most_children
        if gather is None and body.count > most:
            return "refused", f"{body.count:,} jobs: workflows.most_children is {most:,}", None
        if gather is None:
            gather = gathers.sealed(body, step.now)
            gathers.put(step, in_workflow(step, job), body.id, gather)
        if gather.digest != body.digest.hex():
            return "conflict", f"{body.id} gathered a list of other jobs before", None
        return "made", "", user_json.write({"listed": gather.listed}).decode()

    @handles(AddChildren)
    def add(self, step: Step, command: Command, body: AddChildren, at: int) -> None:
        """Add a page to the list of a gather; the part of it that is known changes nothing.

        Raises:
            PoisonRecord: a digest is none, so that its job could not be read from the list.
        """
        gathers.check_digests(body.children)
        job = living(step, command, body.run_id)
        gather = None if job is None else gathers.find(step, job, body.id)
        if job is None or gather is None or body.first > gather.listed:
            metrics.STALE.labels("AddChildren").inc()
            return
        new = body.children[gather.listed - body.first :][: gather.count - gather.listed]
        gathers.list_more(step, job, body.id, gather.listed, new)
        self._go_on(step, job, body.id, replace(gather, listed=gather.listed + len(new)))

    @handles(ReadChildren)
    def read(self, step: Step, command: Command, body: ReadChildren, at: int) -> None:
        """Tell how some of the jobs ended, the first ones that fit an answer."""
        job = living(step, command, body.run_id)
        if job is None:
            step.answer(command, body.claim_id, "lost", "the lease of this run is over")
            return
        told: list[tuple[str | None, ...]] = []
        size = 0
        for job_id in body.job_ids:
            told.append(tuple(gathers.outcome(step, job, job_id)))
            size += len(user_json.write(told[-1]))
            if size > _TOLD_BYTES:
                break
        step.answer(command, body.claim_id, "made", result=user_json.write(told).decode())

    def ended(self, step: Step, job: Job) -> None:
        if job.parent is not None and job.parent.gather:
            self._count(step, job, job.parent)
        self._forget(step, job)

    def replaced(self, step: Step, job: Job) -> None:
        self._forget(step, job)

    def revived(self, step: Step, job: Job) -> None:
        """Count a job that lives again as one that has not ended, unless its gather is over."""
        run, place = gathers.run_of(job), job.parent
        for key in gathers.leftovers(step, run, None):
            step.store.delete(key)
        self._forgetting.drop(step, run)
        if place is None or not place.gather:
            return
        found, parent = self._found(step, job, place), step.table.get(place.job_id)
        if found is not None and not found[1].is_over:
            parent, gather = found
            gathers.put(step, parent, place.gather, replace(gather, failed=gather.failed - 1))
        elif parent is not None:
            gathers.keep_end(step, parent, job)

    def handled(self, step: Step) -> None:
        self._fill(step)

    def tick(self, step: Step) -> None:
        """Begin jobs of gathers, and delete some of what ended jobs kept."""
        self._fill(step)
        for run, _ in self._forgetting.some(step, 1):
            keys = gathers.leftovers(step, run, AT_ONCE)
            for key in keys:
                step.store.delete(key)
            if len(keys) < AT_ONCE:
                self._forgetting.drop(step, run)

    def rests(self) -> bool:
        return not len(self._filling) and not len(self._forgetting)

    def _count(self, step: Step, job: Job, place: Parent) -> None:
        found = self._found(step, job, place)
        if found is not None and not found[1].is_over:
            parent, gather = found
            self._go_on(step, parent, place.gather, gather.with_end(job))

    def _found(self, step: Step, job: Job, place: Parent) -> tuple[Job, Gather] | None:
        """The parent and the gather that count a job, while the parent has not ended."""
        parent = parent_of(step, job)
        if parent is None or not is_live(parent) or parent.incarnation != place.incarnation:
            return None
        gather = gathers.find(step, parent, place.gather)
        if gather is None or gathers.is_listed(step, parent, gather, job):
            return None
        return parent, gather

    def _go_on(self, step: Step, parent: Job, id_: str, gather: Gather) -> None:
        """Keep the numbers, and see what follows from them."""
        gathers.put(step, parent, id_, gather)
        if gather.room:
            self._filling.put(step, gathers.run_of(parent) + join(id_))
        if not gather.is_over:
            return
        if gather.failure or gather.refusal:
            stop_below(step, parent, id_)
        for wait in parent.waits:
            if wait.kind == "gather" and wait.id == id_:
                end_wait(step, parent, wait, gathers.left(step, wait, gather))

    def _fill(self, step: Step) -> None:
        """Begin jobs of gathers that have room, as many as one step makes.

        Each has its turn, also while others wait for the ends of jobs that are being cancelled.
        """
        if not len(self._filling):
            return
        step.on_undo(setattr, self, "_behind", self._behind)
        found = self._filling.some(step, AT_ONCE, self._behind)
        for name, _ in found:
            if step.looked[Gathers] >= AT_ONCE:
                return
            self._behind = name
            job_id, incarnation, id_ = split(name)
            parent = step.table.get(job_id)
            same = parent is not None and parent.incarnation == int(incarnation)
            if parent is None or not same or self._begin_some(step, parent, id_):
                self._filling.drop(step, name)
        if len(found) < AT_ONCE:
            self._behind = b""

    def _begin_some(self, step: Step, parent: Job, id_: str) -> bool:
        """Make jobs of a gather; whether there is no room for more, or they are not needed."""
        if not is_live(parent) or parent.cancel_requested:
            return True
        if cause_above(step, parent) is not None:
            return False  # it ends, unless a replay has the parent first: then it goes on
        while step.looked[Gathers] < AT_ONCE:
            gather = gathers.find(step, parent, id_)
            if gather is None or not gather.room:
                return True
            spec = gathers.listed(step, parent, id_, gather.begun)
            if is_still_ending(step, parent, spec):
                return False
            step.looked[Gathers] += 1 + len(spec.input) // _INPUT_BYTES
            self._begin(step, parent, id_, gather, spec)
        return False

    def _begin(self, step: Step, parent: Job, id_: str, before: Gather, spec: ChildSpec) -> None:
        """Make the next job of a gather."""
        gathers.begin(step, parent, id_, before)
        try:
            child = make(step, parent, spec, id_)
        except PoisonRecord as error:
            self._go_on(step, _now(step, parent), id_, before.refused(error.detail))
            return
        after = gathers.find(step, parent, id_)
        if after is not None and not is_live(child) and after.ended == before.ended:
            self._go_on(step, _now(step, parent), id_, after.with_end(child))

    def _forget(self, step: Step, job: Job) -> None:
        if job.workflow_id is not None and gathers.leftovers(step, gathers.run_of(job), 1):
            self._forgetting.put(step, gathers.run_of(job))


def _now(step: Step, job: Job) -> Job:
    return step.table.get(job.job_id) or job
