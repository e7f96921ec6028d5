"""Flow control in a random order of events, runs, cancels, faults and changes of the topology."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from support import decoded
from support.derived import derived, faults, processor, rebuilt
from support.flow_control import ROUTE, event, kept, started, statuses, worker

from streams.serde.job_states import TERMINAL
from streams.serde.records import Job
from streams.topology.flow_control import Batch, Debounce, Rule, Singleton

RULES: dict[str, Rule] = {
    "debounce": Debounce(3, 8, "subject"),
    "newest": Singleton("newest", "subject"),
    "first": Singleton("first", "subject"),
    "queue_one": Singleton("queue_one", "subject"),
    "batch": Batch(4, 3, "subject"),
}
SUBJECTS = ("t1", "t2")


class World:
    """What was sent, and what has to be true of the jobs at any time."""

    def __init__(self, name: str, seed: int) -> None:
        self.name, self.chance = name, Random(f"{name}{seed}")
        self.routes = (replace(ROUTE, **_declared(RULES[name]), expires_after_seconds=40),)
        self.desk = started(routes=self.routes)
        self.worker = worker(self.desk, slots=3, attempts=99, backoff=(1,))
        self.sent: dict[str, str] = {}
        self.subject: dict[str, str] = {}

    def step(self) -> None:
        acts = [self.event, self.burst, self.work, self.end, self.rest, self.cancel, self.again]
        faults = [self.restart, self.abort, self.change]
        weights = [8, 2, 5, 6, 6, 1, 1, 1, 1, 0.5]
        self.chance.choices([*acts, *faults], weights)[0]()
        self.check()

    def event(self) -> None:
        key, subject = f"e{len(self.sent)}", self.chance.choice(SUBJECTS)
        self.sent[f"evt_{key}"] = event(self.desk, key, subject)
        self.subject[self.sent[f"evt_{key}"]] = subject

    def burst(self) -> None:
        with self.desk.held_back():
            for _ in range(self.chance.randrange(2, 9)):
                self.event()

    def work(self) -> None:
        self.worker.heartbeat(free=self.chance.choice([0, 1, 2]))

    def end(self) -> None:
        leases = {lease.job_id: lease for lease in self.desk.leases()}
        running = [job_id for job_id in leases if statuses(self.desk, job_id) == ["running"]]
        if running:
            lease = leases[self.chance.choice(running)]
            how = self.chance.choice(["succeeded", "succeeded", "retry", "failed", "released"])
            self.worker.end(lease, how, error="TransientError: x", free=0)

    def rest(self) -> None:
        self.desk.driver.advance(self.chance.choice([0.1, 0.5, 1, 2, 4, 15]))

    def cancel(self) -> None:
        if self.sent:
            self.desk.cancel(self.chance.choice(list(self.sent.values())))

    def again(self) -> None:
        if self.sent:
            event_id = self.chance.choice(list(self.sent))
            self.desk.again(event_id.removeprefix("evt_"))

    def restart(self) -> None:
        self.desk.driver.restart("dispatcher", keep_state=self.chance.random() < 0.5)

    def abort(self) -> None:
        self.desk.abort()

    def change(self) -> None:
        """The rule is taken away for a while."""
        self.desk.deploy(routes=(ROUTE,))
        self.desk.driver.advance(self.chance.choice([0, 0.2]))
        self.desk.deploy(routes=self.routes)

    def jobs(self) -> dict[str, Job]:
        newest = {r.key: r.value for r in self.desk.driver.output("jobs")}
        found = (decoded.job(value) for value in newest.values() if value is not None)
        return {job.job_id: job for job in found}

    def check(self) -> None:
        """No event is forgotten, and none is in two jobs."""
        jobs = self.jobs()
        assert jobs.keys() == set(self.sent.values())
        stands = {job_id: self._taker(jobs, job_id) for job_id in jobs}
        for job_id, taker in stands.items():
            assert self.subject[job_id] == self.subject[taker]
        named = Counter(
            event_id
            for job_id, job in jobs.items()
            if job.superseded_by is None and (job.run_id or job.status in TERMINAL)
            for event_id in job.all_event_ids
        )
        assert set(named.values()) <= {1}
        if self.name != "first":
            wanted = {e for e, job_id in self.sent.items() if self._is_over(jobs[stands[job_id]])}
            assert set(named) == wanted

    def check_memory(self) -> None:
        task = self.desk.driver.task("dispatcher")
        assert derived(processor(task)) == rebuilt(task)
        assert list(faults(task)) == []

    def _is_over(self, job: Job) -> bool:
        return job.run_id is not None or job.status in TERMINAL

    def _taker(self, jobs: dict[str, Job], job_id: str) -> str:
        while (by := jobs[job_id].superseded_by) is not None:
            job_id = by
        return job_id


def _declared(rule: Rule) -> dict[str, Any]:
    return {type(rule).__name__.lower(): rule}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", RULES)
def test_every_event_is_in_one_job_that_runs_or_says_why_not(name: str, seed: int) -> None:
    world = World(name, seed)
    for number in range(120):
        world.step()
        if number % 10 == 0:
            world.check_memory()
    while [job for job in world.jobs().values() if job.status not in TERMINAL]:
        world.worker.stay(4, free=3)
        for lease in {lease.job_id: lease for lease in world.desk.leases()}.values():
            if statuses(world.desk, lease.job_id) == ["running"]:
                world.worker.end(lease, "succeeded", free=3)
    world.check()
    assert kept(world.desk) == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("keep", ["first", "queue_one"])
def test_one_job_of_a_value_runs_at_a_time(keep: str, seed: int) -> None:
    world = World(keep, seed)
    world.change = world.event  # type: ignore[method-assign]  # the rule holds all the time
    for _ in range(150):
        world.step()
        begun = Counter(
            world.subject[job.job_id]
            for job in world.jobs().values()
            if job.status not in TERMINAL and job.run_id is not None
        )
        assert max(begun.values(), default=0) <= 1
        live = Counter(
            world.subject[j.job_id] for j in world.jobs().values() if j.status not in TERMINAL
        )
        assert max(live.values(), default=0) <= (1 if keep == "first" else 2)
