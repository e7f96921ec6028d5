"""Many jobs that wait in rounds, while the stage and the worker die around their parks."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from streams import dispatcher, scheduler
from streams.runtime.link import LINK
from streams.runtime.memory_broker import CrashPoint
from streams.runtime.partition_task import PartitionTask
from streams.runtime.stage import FusedStage
from streams.serde.job_states import TERMINAL
from streams.serde.link.messages import Leased
from streams.serde.records import Lease, StepResult, Wait
from support import decoded
from support.dispatching import ScriptedWorker
from support.family import Family
from support.waiter import HOUR, Waiter, event_wait, sleep

Position = Literal["before", "at", "after"]
"""Where an event comes: one offset before the park, in one batch with it, or one offset after."""
Fault = CrashPoint | Literal["worker_before", "worker_with", "worker_after"]
"""A stage's crash in the commit of a park; or a new boot of its worker, read before it or after."""
PATIENCE = 300


class CountingWorker(ScriptedWorker):
    """Counts the leases that it got, so that a heartbeat need not read them all again."""

    leased = 0

    @property
    def sent(self) -> int:
        return self.leased


class Storm(Waiter):
    """`count` jobs of `draft_reply`, each with as many waits one after another as `rounds` says."""

    worker: CountingWorker

    def __init__(self, count: int, rounds: int, *, fused: bool) -> None:
        super().__init__()
        self.rounds = rounds
        self.sent: Counter[tuple[str, int]] = Counter()
        self._boots = self._read = 0
        self._count = count
        lay_out(self, fused=fused)
        self.boot()
        with self.desk.held_back():
            self.ids = [self.desk.event(f"j{number}") for number in range(count)]

    def boot(self, types: tuple[str, ...] = ()) -> None:
        """A new process of the worker says that it is there: the one before is gone."""
        self._boots += 1
        name, slots = f"w1/b{self._boots}", max(1_000, self._count)
        self.worker = CountingWorker(
            self.desk, name, slots=slots, types=types, attempts=100, backoff=(0,)
        )
        self.worker.heartbeat()

    def suspend(self, seconds: float) -> None:
        """Let the clock go on while nothing happens, as on a machine that is suspended."""
        self.desk.driver._clock.ms += seconds * 1000

    @contextmanager
    def counted(self) -> Iterator[list[int]]:
        """How many records of jobs each transaction of the dispatcher has, but for none."""
        transactions, steps = self.desk.driver.run_of("dispatcher").commits, list[int]()
        commit, log = transactions.commit, self.desk.driver._broker.records["jobs", 0]

        def counting(tasks: Sequence[PartitionTask], *, alone: bool = False) -> None:
            before = len(log)
            commit(tasks, alone=alone)
            if len(log) > before:
                steps.append(len(log) - before)

        transactions.commit = counting  # type: ignore[method-assign]
        yield steps
        transactions.commit = commit  # type: ignore[method-assign]

    def all_leases(self) -> list[Lease]:
        """The new leases, until none come."""
        found: list[Lease] = []
        while more := self.new_leases():
            found += more
        return found

    def new_leases(self) -> list[Lease]:
        """The leases that this process of the worker got since the last call, in order."""
        self.worker.heartbeat()
        self.desk.driver.advance(0.2)
        work = self.desk.driver.output(LINK)
        name = self.worker.name.encode()
        said = [decoded.said(r.value or b"") for r in work[self._read :] if r.key == name]
        own = [message.lease for message in said if isinstance(message, Leased)]
        self._read = len(work)
        self.worker.leased += len(own)
        return own

    def play(
        self, faults: dict[tuple[int, int], Fault], between: Callable[[], None] = lambda: None
    ) -> None:
        """Run every lease until all jobs have ended; `faults` are by job and round.

        `between` is called before each look for leases.
        """
        for _ in range(PATIENCE):
            between()
            for lease in self.new_leases():
                boot = self.worker
                self._run(lease, faults)
                if boot is not self.worker:
                    break
            if all(self.desk.job(job_id).status in TERMINAL for job_id in self.ids):
                return
        raise AssertionError(f"after {PATIENCE} rounds of leases not every job has ended")

    def answers(self, lease: Lease) -> list[str]:
        """The types of the events that a job got, in the order of its waits."""
        found = {left.id: left for left in lease.steps if left.kind == "event"}
        values = [found[wait_id(number)].value for number in range(len(found))]
        return [json.loads(value or "")["event"]["event_type"] for value in values]

    def _run(self, lease: Lease, faults: dict[tuple[int, int], Fault]) -> None:
        got = self.answers(lease)
        assert self.desk.job(lease.job_id).waits == (), "what has ended leaves no other wait"
        assert got == [f"reply.{number}" for number in range(len(got))], lease.job_id
        job, number = self.ids.index(lease.job_id), len(got)
        if number == self.rounds:
            self.worker.end(lease, "succeeded", result=json.dumps(got))
            return
        waits = self._waits(lease, number)
        position: Position = ("before", "at", "after")[(job + number) % 3]
        fault = faults.pop((job, number), None)
        if fault in ("worker_before", "worker_with", "worker_after"):
            self._park_and_lose_the_worker(lease, waits, number, fault)
            return
        if position == "before":
            self._answer(lease.job_id, number)
        with self.desk.held_back():
            if fault is not None:
                self.desk.driver.crash("dispatcher", fault)  # type: ignore[arg-type]
            self.park(lease, *waits)
            if position == "at":
                self._answer(lease.job_id, number)
        assert self.desk.driver.run_of("dispatcher").commits.armed is None, "it did not die"
        if position == "after":
            self._answer(lease.job_id, number)

    def _park_and_lose_the_worker(
        self, lease: Lease, waits: tuple[Wait, ...], number: int, fault: str
    ) -> None:
        """The event comes between the park and the new process, or first."""
        if fault == "worker_before":
            self._answer(lease.job_id, number)
            old, ended = self.worker, dataclasses.replace(self.ended(lease), waits=waits)
            with self.desk.held_back():
                self.boot()
                assert old is not self.worker
                self.desk.command(ended, lease.job_id, lease.epoch)
        elif fault == "worker_with":
            with self.desk.held_back():
                self.park(lease, *waits)
                self._answer(lease.job_id, number)
                self.boot()
        else:
            self.park(lease, *waits)
            self._answer(lease.job_id, number)
            self.boot()

    def _answer(self, job_id: str, number: int) -> None:
        """The event of a round, once, whatever is run again; some bring the next one with them."""
        ahead = self.ids.index(job_id) % 4 == 0 and number + 1 < self.rounds
        for each in range(number, number + 1 + ahead):
            if not self.sent[job_id, each]:
                self.sent[job_id, each] += 1
                self.reply(job_id, type_=f"reply.{each}")

    def _waits(self, lease: Lease, number: int) -> tuple[Wait, ...]:
        """The answer of this round, behind that of the last one, or an hour."""
        last = next((left for left in lease.steps if left.id == wait_id(number - 1)), None)
        wait = event_wait(lease.job_id, wait_id(number), **behind(last))
        return wait, sleep(HOUR, f"hour#{number}")


def lay_out(at: Waiter | Family, *, fused: bool) -> None:
    """Have dispatcher and scheduler go on as one stage, or apart."""
    topology = at.desk.topology
    first, second = scheduler.stage(topology), dispatcher.stage(topology)
    fused_stage = FusedStage("pipeline", (first, second))
    at.desk.driver.lay_out([fused_stage] if fused else [second, first])
    at.desk.driver.advance(0.5)


def wait_id(number: int) -> str:
    return f"answer#{number + 1}"


def behind(left: StepResult | None) -> dict[str, object]:
    """Where the next wait of a loop begins: behind the event that the last one got."""
    if left is None:
        return {}
    taken = json.loads(left.value or "")
    event_id = taken["event"]["event_id"]
    return {"behind": taken["number"], "since": str(taken["at"]), "after_event": event_id}
