"""Code that changes while jobs run: no finished work is done again under another name."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

import orjson

from simulation.outside import Violation
from streams.errors import HistoryDiverged
from streams.serde.records import Job, Lease
from streams.worker.handler.run_result import describe

if TYPE_CHECKING:
    from simulation.world import World

_ROUNDS = 8
"""More than the steps that a job may have to keep."""
_BEHIND, _NAMES = "; finished and not asked for yet: ", re.compile(", | and ")


class ChangedCode:
    """Which versions ran in each scope, and the runs whose code diverged."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._versions: dict[str, set[int]] = defaultdict(set)
        self._diverged: set[tuple[str, int]] = set()
        self._told: dict[str, list[tuple[str, str, set[str]]]] = defaultdict(list)

    def taken(self, lease: Lease, version: int) -> None:
        self._versions[lease.scope].add(version)

    def works(self, lease: Lease, asked: str, function: str) -> None:
        """A run calls the function of a step; a step that somebody kept has no place.

        Raises:
            Violation: the job has a step of this function, and nobody who was told of both has
                let this one run.
        """
        value = orjson.dumps(function).decode()
        for left in lease.steps:
            again = left.kind == "step" and left.value == value and left.position >= 0
            if again and not self._decided(lease, asked, left.id):
                raise Violation(
                    "step_again", f"{lease.job_id} run {lease.epoch}: {function} as {left.id}"
                )

    def _decided(self, lease: Lease, asked: str, left: str) -> bool:
        """Whether somebody kept or dropped a step, so that `asked` runs, and was told of `left`."""
        how = self._world.people.settled_runs
        return any(
            how.get(run) in ("keep", "drop") and was_asked == asked and left in others
            for run, was_asked, others in self._told[lease.job_id]
        )

    def diverges(self, lease: Lease, asked: str, error: HistoryDiverged) -> None:
        """A run does not ask for a finished step, and says which ones it misses.

        Raises:
            Violation: its job has always had the same code.
        """
        if len(self._versions[lease.scope]) == 1:
            raise Violation("diverged_unchanged", f"{lease.job_id} run {lease.epoch}")
        self._diverged.add((lease.job_id, lease.epoch))
        _, _, others = describe(error, str).partition(_BEHIND)
        self._told[lease.job_id].append((lease.run_id, asked, set(_NAMES.split(others))))

    def went_on(self, job: Job, old: Job) -> None:
        """A job has changed.

        Raises:
            Violation: it diverged, and goes on though nobody has decided, or waits for nothing.
        """
        asked = job.status == "needs_review" and old.status == "running"
        if asked and (job.job_id, job.epoch) in self._diverged and job.diverged is None:
            raise Violation("divergence_unseen", f"{job.job_id}: {job.last_error}")
        waited = old.status == "needs_review" and old.diverged is not None
        goes_on = job.status in ("pending", "scheduled", "running") or job.diverged is None
        ends = job.status == "cancelled"
        decided = old.run_id in self._world.people.settled_runs
        if waited and goes_on and not ends and not decided:
            raise Violation("went_on_undecided", f"{job.job_id} is {job.status}")

    def at_the_end(self) -> None:
        """Every job whose steps are kept goes on.

        Raises:
            Violation: one asks again and again.
        """
        for _ in range(_ROUNDS):
            if not self._world.people.keep_all():
                return
            self._world.judge.at_the_end(settled=self._world.settle(600))
        raise Violation("diverges_forever", f"after {_ROUNDS} decisions to keep a step")
