"""Events that cancel jobs, in a random order of events, runs, faults and changes of routes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest
from support.dispatching import ScriptedWorker
from support.event_cancels import (
    CREATED,
    ROUTES,
    TYPES,
    UPDATED,
    cancelling,
    event,
    kept,
    statuses,
)

from streams.dispatcher.parts import event_cancels

SUBJECTS = ("t1", "t2")
WITHOUT_CANCELS = (CREATED, replace(UPDATED, cancels=None))


@pytest.fixture(autouse=True)
def _few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that most cancels take several steps."""
    monkeypatch.setattr(event_cancels, "AT_ONCE", 3)
    monkeypatch.setattr(event_cancels, "_EACH", 1)


class World:
    """What the order of the records says of each job: `live`, or how it has to end."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.desk = cancelling()
        self.worker = ScriptedWorker(self.desk, slots=8, types=TYPES, attempts=99, backoff=(1,))
        self.expected: dict[str, str] = {}
        self.subject: dict[str, str] = {}
        self.number = 0

    def step(self) -> None:
        acts = [self.create, self.solve, self.update, self.work, self.together, self.rest]
        faults = [self.restart, self.abort, self.flap]
        self.chance.choices([*acts, *faults], [9, 3, 3, 8, 2, 2, 1, 1, 1])[0]()

    def event(self, type_: str) -> tuple[str, str]:
        subject = self.chance.choice(SUBJECTS)
        self.number += 1
        return event(self.desk, f"e{self.number}", type_, subject), subject

    def create(self) -> None:
        job_id, subject = self.event("ticket.created")
        self.expected[job_id], self.subject[job_id] = "live", subject

    def solve(self) -> None:
        _, subject = self.event("ticket.solved")
        self.cancelled(subject)

    def update(self) -> None:
        job_id, subject = self.event("ticket.updated")
        self.cancelled(subject)
        self.expected[job_id], self.subject[job_id] = "live", subject

    def cancelled(self, subject: str) -> None:
        for job_id, end in self.expected.items():
            if end == "live" and self.subject[job_id] == subject:
                self.expected[job_id] = "cancelled"

    def work(self) -> None:
        """A worker comes by, and a run ends."""
        leases = {lease.job_id: lease for lease in self.desk.leases()}
        running = [job_id for job_id in leases if statuses(self.desk, job_id) == ["running"]]
        self.worker.heartbeat(free=self.chance.choice([0, 2]))
        if running:
            job_id = self.chance.choice(running)
            end = self.chance.choice(["succeeded", "retry", "failed", "cancelled"])
            self.worker.end(leases[job_id], end, error="TransientError: x", free=0)
            if end != "retry" and self.expected[job_id] == "live":
                self.expected[job_id] = end

    def together(self) -> None:
        with self.desk.held_back():
            for _ in range(self.chance.randrange(2, 12)):
                self.chance.choice([self.create, self.create, self.solve, self.update])()

    def rest(self) -> None:
        self.desk.driver.advance(self.chance.uniform(0.05, 0.5))

    def restart(self) -> None:
        self.desk.driver.restart("dispatcher", keep_state=self.chance.random() < 0.5)

    def abort(self) -> None:
        self.desk.abort()

    def flap(self) -> None:
        """Other routes come, and go before their round is over or after."""
        self.desk.deploy(routes=WITHOUT_CANCELS)
        if self.chance.random() < 0.5:
            self.rest()
        self.desk.deploy(routes=ROUTES)

    def ends(self) -> Iterator[tuple[str, str, str]]:
        for job_id, expected in self.expected.items():
            (status,) = statuses(self.desk, job_id)
            yield job_id, expected, status


@pytest.mark.parametrize("seed", range(6))
def test_a_job_ends_as_the_order_of_the_records_says(seed: int) -> None:
    world = World(seed)
    for _ in range(150):
        world.step()
    world.desk.driver.advance(30)
    world.worker.leave()  # runs that were asked to stop end without a word
    world.desk.driver.advance(30)
    for job_id, expected, status in world.ends():
        is_live = status in ("pending", "scheduled", "running")
        assert expected == ("live" if is_live else status), job_id
    assert len(kept(world.desk)) == 2 * list(world.expected.values()).count("live")
