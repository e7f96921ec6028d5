"""Jobs that share effects, in a random order of claims, outcomes, losses, restarts and answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from support.dispatching import Desk, ScriptedWorker

from streams.serde.job_states import AT_REST, CANCELLED, NEEDS_REVIEW, SUCCEEDED
from streams.serde.link.messages import Leased
from streams.serde.records import Lease, Reply, Settle

DAY_MS = 86_400_000
EFFECTS = ("email:send/reply", "keyed/reply")
"""The tool of the second honours its key."""
PATIENCE = 301


@dataclass
class Run:
    """A run of a handler that asks for both effects; `call` is under way."""

    lease: Lease
    results: list[str] = field(default_factory=list)
    call: Reply | None = None

    @property
    def action(self) -> str:
        return EFFECTS[len(self.results)]


class World:
    """What really happened: which calls did something, and which outcomes are told late."""

    def __init__(self, seed: int, cancels: float) -> None:
        self.chance = Random(seed)
        self.cancels = cancels
        self.desk = Desk()
        self.worker = ScriptedWorker(self.desk, slots=20, backoff=(0,), attempts=99)
        self.worker.heartbeat()
        self.job_ids = [self.desk.event(f"t{n}") for n in range(4)]
        self.runs: dict[str, Run] = {}
        self.followed = 0
        self.did: dict[str, set[str]] = {action: set() for action in EFFECTS}
        self.late: list[tuple[Run, Reply, str, str]] = []

    def step(self) -> None:
        people, faults = [self.settle, self.cancel], [self.restart, self.abort]
        act = self.chance.choices(
            [self.go_on, self.tell_late, *people, self.rest, *faults],
            [20, 2, 1, self.cancels, 2, 1, 1],
        )
        act[0]()

    def follow(self) -> None:
        """Begin the runs that were leased."""
        said = self.desk.said()
        for _, message in said[self.followed :]:
            if isinstance(message, Leased):
                self.runs[message.lease.job_id] = Run(message.lease)
        self.followed = len(said)

    def go_on(self) -> None:
        self.follow()
        running = [r for r in self.runs.values() if self.status(r.lease.job_id) == "running"]
        if not running:
            return
        run = self.chance.choice(running)
        if len(run.results) == len(EFFECTS):
            self.worker.end(run.lease, "succeeded", result="[" + ",".join(run.results) + "]")
        elif run.call is None:
            self.claim(run)
        else:
            self.end_call(run, run.call)

    def claim(self, run: Run) -> None:
        lifetime = DAY_MS if run.action.startswith("keyed") else 0
        terms: dict[str, Any] = {"lifetime_ms": lifetime, "keep_ms": 90 * DAY_MS}
        reply = self.worker.claim(run.lease, run.action, once_per="tenant", **terms)
        match reply.kind:
            case "granted":
                self.grant(run, reply)
            case "done":
                run.results.append(reply.result or "null")
            case "busy":
                awaited = f'["tenant","{run.action}"]'
                self.worker.end(run.lease, "blocked", result=awaited, error=reply.message)
            case "review":
                self.worker.end(run.lease, "review", error=reply.message)
            case "cancel":
                self.worker.end(run.lease, "cancelled", error=reply.message)
            case "lost":
                self.runs.pop(run.lease.job_id)
            case _:
                raise AssertionError(reply)

    def grant(self, run: Run, reply: Reply) -> None:
        run.call = reply
        if self.chance.random() < 0.6:
            under = reply.idempotency_key if run.action.startswith("keyed") else reply.claim_id
            self.did[run.action].add(under)
            assert len(self.did[run.action]) == 1, f"{run.action} was done twice"

    def end_call(self, run: Run, call: Reply) -> None:
        """Tell the outcome, lose it, or tell it later; it is never told wrongly."""
        happened = bool(self.did[run.action])
        truth = "done" if happened else "failed"
        if call.repeat and not happened:
            truth = "unknown"
        told = self.chance.choice([truth, truth, "unknown", "lost", "late"])
        if told == "late":
            self.late.append((run, call, run.action, truth))
        elif told != "lost":
            self.tell(run, call, run.action, told)
        run.call = None
        if told == "done":
            run.results.append('"r"')
        else:
            self.worker.end(run.lease, "retry", error="TransientError: x")

    def tell(self, run: Run, call: Reply, action: str, status: str) -> None:
        result = '"r"' if status == "done" else None
        self.worker.outcome(run.lease, call, status, result, action=action, once_per="tenant")

    def tell_late(self) -> None:
        if self.late:
            self.tell(*self.late.pop(self.chance.randrange(len(self.late))))

    def settle(self) -> None:
        """A person looks at the tool, and answers for one of the jobs."""
        self.rest(PATIENCE)
        action = self.chance.choice(EFFECTS)
        done = bool(self.did[action])
        status, result = ("done", '"r"') if done else ("failed", None)
        body = Settle(action, status, result, "looked", "ops", "tenant")  # type: ignore[arg-type]
        self.desk.command(body, self.chance.choice(self.job_ids))

    def cancel(self) -> None:
        self.desk.cancel(self.chance.choice(self.job_ids))

    def rest(self, seconds: float = 0.0) -> None:
        held = [r.lease for r in self.runs.values() if self.status(r.lease.job_id) == "running"]
        self.worker.stay(seconds or self.chance.uniform(0.1, 20), *held)

    def restart(self) -> None:
        self.desk.driver.restart("dispatcher", keep_state=self.chance.random() < 0.5)
        self.desk.driver.advance(0.5)
        self.rest(0.1)

    def abort(self) -> None:
        self.desk.abort()
        self.rest(0.1)

    def status(self, job_id: str) -> str:
        return self.desk.job(job_id).status

    def finish(self) -> None:
        """Let everything end: late outcomes are told, and a person answers."""
        while self.late:
            self.tell_late()
        for _ in range(400):
            statuses = {self.status(job_id) for job_id in self.job_ids}
            if statuses <= {SUCCEEDED, CANCELLED}:
                return
            if statuses <= AT_REST:
                assert NEEDS_REVIEW in statuses
                self.settle()
            elif "running" not in statuses:
                self.rest(6)
            self.go_on()
        raise AssertionError([self.desk.job(job_id) for job_id in self.job_ids])


@pytest.mark.parametrize("cancels", [0, 0.2])
@pytest.mark.parametrize("seed", range(3))
def test_every_job_ends_with_the_same_results_and_nothing_is_done_twice(
    seed: int, cancels: float
) -> None:
    world = World(seed, cancels)
    for _ in range(80):
        world.step()
    world.finish()
    jobs = [world.desk.job(job_id) for job_id in world.job_ids]
    assert {job.result for job in jobs if job.status == SUCCEEDED} <= {'["r","r"]'}
    assert cancels or {job.status for job in jobs} == {SUCCEEDED}
    letters = [letter.reason for letter in world.desk.dead_letters()]
    assert set(letters) <= {"already_settled", "no_such_effect", "not_in_review", "too_early"}
    parts = world.desk.driver.store("dispatcher", "parts")
    assert [key for key, _ in parts.range(b"v", b"w")] == []
