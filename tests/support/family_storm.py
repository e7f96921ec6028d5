"""A parent that gathers many jobs, while jobs and stage end in every way around it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

from streams.serde.job_states import TERMINAL
from streams.serde.records import Job, Lease
from support import decoded
from support.family import Family, child_id
from support.wait_storm import lay_out

GATHER = "gather[all]"
ROOT = "job_root"
PATIENCE = 200


class FamilyStorm(Family):
    """`count` jobs of one parent; `bad` says by its place how one ends: dead, cancelled, review."""

    def __init__(
        self, count: int, *, limit: int = 60, bad: dict[int, str] | None = None, fused: bool = False
    ) -> None:
        super().__init__()
        self.count, self.limit, self.bad = count, limit, bad or {}
        self.ran: Counter[str] = Counter()
        self.places: dict[str, int] = {}
        lay_out(self, fused=fused)
        self.boot()
        self.desk.submit(ROOT)

    def play(self, between: Callable[[], None] = lambda: None) -> None:
        """Run every lease until the parent has ended."""
        for _ in range(PATIENCE):
            between()
            leases = self.go_on()
            for lease in leases:
                if lease.job_id == ROOT:
                    self.run_parent(lease)
            with self.desk.held_back():
                for lease in leases:
                    if lease.job_id != ROOT:
                        self.run_child(lease)
            self.replay_the_reviewed(leases)
            if self.jobs()[ROOT].status in TERMINAL:
                return
        raise AssertionError(f"after {PATIENCE} rounds the parent has not ended")

    def run_parent(self, lease: Lease) -> None:
        """Gather the list, or give how its jobs ended."""
        if any(left.id == GATHER for left in lease.steps):
            told = self.outcomes(lease, list(self.places))
            self.end(lease, result=json.dumps(sorted(Counter(each[0] for each in told).items())))
            return
        ids = self.gather(lease, self.count, limit=self.limit, tolerated=self.count)
        self.places = {job_id: place for place, job_id in enumerate(ids)}

    def run_child(self, lease: Lease) -> None:
        """End a job as it should, each run as often as it is leased."""
        self.ran[lease.job_id] += 1
        end = self.bad.get(self.places.get(lease.job_id, -1), "succeeded")
        if end == "cancelled":
            self.desk.cancel(lease.job_id)
            self.end(lease, "cancelled")
        elif end == "review":
            self.end(lease, "review", error="who knows", diverged="step")
        elif end == "failed":
            self.end(lease, "failed", error="no")
        else:
            self.end(lease)

    def replay_the_reviewed(self, leases: list[Lease]) -> None:
        """A person has the jobs done again that asked for it."""
        for lease in leases:
            if self.bad.get(self.places.get(lease.job_id, -1)) == "review":
                self.desk.replay(f"job_again_{lease.job_id[4:]}", lease.job_id)

    def jobs(self) -> dict[str, Job]:
        """The newest record of each job."""
        newest = {record.key: record.value for record in self.desk.driver.output("jobs")}
        found = (decoded.job(value) for value in newest.values() if value is not None)
        return {job.job_id: job for job in found}

    def assert_whole(self) -> None:
        """Each job was made once and has ended, it is counted so, and nothing is left of it."""
        self.go_on(1)
        jobs = self.jobs()
        assert {job.status for job in jobs.values()} <= TERMINAL
        assert all(job.incarnation == 1 for job in jobs.values())
        extra = sum(end == "review" for end in self.bad.values())
        assert len(jobs) == self.count + extra + 1
        counted = Counter(job.status for job in jobs.values())
        found = self.workflow(ROOT)
        assert (found.jobs, found.kept) == (dict(counted), len(jobs))
        assert self.leftovers() == []
        assert {letter.reason for letter in self.desk.dead_letters()} <= {"permanent_error"}

    def child(self, lease: Lease, place: int) -> str:
        return child_id(lease, f"{GATHER}/{place}")
