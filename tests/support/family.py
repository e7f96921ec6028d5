"""A desk whose scripted worker asks for jobs of its jobs, as a handler's run does."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

from streams.runtime.link import LINK
from streams.serde.codec import WORKFLOW
from streams.serde.ids import child_job_id, new_id
from streams.serde.keys import workflow_key
from streams.serde.link.messages import Leased
from streams.serde.records import (
    AddChildren,
    ChildSpec,
    Ended,
    Enqueue,
    Job,
    Lease,
    ReadChildren,
    Reply,
    SealGather,
    StepResult,
    Wait,
    Workflow,
)
from streams.serde.step_ids import CHILD, end_id, gathered_id
from streams.topology.limits import Limit
from support import decoded
from support.dispatching import Desk, ScriptedWorker

SPACES = b"kKGlYFXaj"
"""The key spaces of children, gathers and waits in the store `parts`."""
PAGE = 200


class Caller(ScriptedWorker):
    """A worker that counts the leases that it got, and handles parents and their children."""

    leased = 0

    @property
    def sent(self) -> int:
        return self.leased


class Family:
    """Jobs of `draft_reply` ask for jobs of `refund`, unless a test says otherwise."""

    def __init__(self, *limits: Limit, slots: int = 2_000) -> None:
        self.desk = Desk(*limits)
        self._slots = slots
        self._boots = self._read = 0
        self.boot()

    def boot(self, *types: str) -> None:
        """A new process of the worker: the one before is gone."""
        self._boots += 1
        name = f"w1/b{self._boots}"
        self.worker = Caller(self.desk, name, slots=self._slots, types=types, backoff=(0,))
        self.worker.heartbeat()

    def go_on(self, seconds: float = 0.2) -> list[Lease]:
        """The leases that came since the last call, after some time."""
        self.worker.heartbeat()
        self.desk.driver.advance(seconds)
        work = self.desk.driver.output(LINK)
        name = self.worker.name.encode()
        said = [decoded.said(r.value or b"") for r in work[self._read :] if r.key == name]
        own = [message.lease for message in said if isinstance(message, Leased)]
        self._read = len(work)
        self.worker.leased += len(own)
        return own

    def pass_days(self, days: float) -> None:
        """Let days pass, in which the stage looks at its jobs a few times a day."""
        for _ in range(round(days * 4)):
            self.desk.driver._clock.ms += 6 * 3_600_000
            self.desk.driver.advance(0.2)

    def root(self, key: str = "root") -> Lease:
        """The lease of a new job without a body, which may wait for as long as it likes."""
        self.desk.submit(f"job_{key}")
        return self.lease_of(f"job_{key}")

    def lease_of(self, job_id: str, seconds: float = 0.2) -> Lease:
        """The lease of a job that is ready."""
        return next(lease for lease in self.go_on(seconds) if lease.job_id == job_id)

    def enqueue(self, lease: Lease, call: str = "c", **fields: Any) -> str:
        """Ask for a job; its id."""
        reply = self.ask_for(lease, call, **fields)
        assert reply.kind == "made", reply
        found: str = json.loads(reply.result or "")["job_id"]
        return found

    def ask_for(self, lease: Lease, call: str = "c", **fields: Any) -> Reply:
        """Ask for a job; the answer."""
        self.say_enqueue(lease, call, **fields)
        return self._answer()

    def say_enqueue(self, lease: Lease, call: str = "c", **fields: Any) -> None:
        """Ask for a job, and do not wait for the answer."""
        left = StepResult(call, CHILD, 0, b"c", value="{}")
        self._say(lease, Enqueue, left, spec(call, **fields))

    def seal(
        self,
        lease: Lease,
        count: int,
        *,
        id_: str = "gather[all]",
        limit: int = 50,
        tolerated: int = 0,
        min_success: int = 0,
        digest: bytes = b"list",
    ) -> Reply:
        """Seal the list of a gather; the answer."""
        numbers = count, limit, tolerated, min_success
        self._say(lease, SealGather, id_, digest, *numbers)
        return self._answer()

    def add(self, lease: Lease, first: int, specs: Sequence[ChildSpec], id_: str) -> None:
        """Send a page of the list."""
        body = AddChildren(lease.run_id, id_, first, tuple(specs))
        self.desk.command(body, lease.job_id, lease.epoch)

    def gather(
        self, lease: Lease, count: int, *, id_: str = "gather[all]", parks: bool = True, **more: Any
    ) -> list[str]:
        """Seal a list of jobs, send it, and park for it; the ids of the jobs."""
        reply = self.seal(lease, count, id_=id_, **more)
        assert reply.kind == "made", reply
        listed = json.loads(reply.result or "")["listed"]
        for first in range(listed, count, PAGE):
            numbers = range(first, min(count, first + PAGE))
            self.add(lease, first, [spec(gathered_id(id_, n, None)) for n in numbers], id_)
        if parks:
            self.park(lease, gather_wait(id_))
        return [child_id(lease, gathered_id(id_, n, None)) for n in range(count)]

    def outcomes(self, lease: Lease, job_ids: Sequence[str]) -> list[Any]:
        """What a run reads of its gathered jobs."""
        self._say(lease, ReadChildren, tuple(job_ids))
        found: list[Any] = json.loads(self._answer().result or "")
        return found

    def park(self, lease: Lease, *waits: Wait) -> None:
        body = Ended(lease.run_id, "parked", None, None, None, None, waits=waits)
        self.worker.order(body, lease.job_id, lease.epoch)

    def end(self, lease: Lease, status: str = "succeeded", **more: Any) -> None:
        result = json.dumps(lease.job_id) if status == "succeeded" else None
        self.worker.end(lease, status, **{"result": result, "free": 1_000} | more)

    def fail(self, *leases: Lease) -> None:
        """End runs that find no remedy, in this order."""
        for lease in leases:
            self.end(lease, "failed", error="no")

    def job(self, job_id: str) -> Job:
        return self.desk.job(job_id)

    def workflow(self, job_id: str) -> Workflow:
        """The newest record of a job's workflow."""
        job = self.job(job_id)
        place = workflow_key(job.tenant_id, job.workflow_id or "")
        values = [r.value for r in self.desk.driver.output("workflows") if r.key == place]
        return WORKFLOW.decode(values[-1])

    def leftovers(self) -> list[bytes]:
        """What children, gathers and waits have left in the store."""
        store = self.desk.driver.store("dispatcher", "parts")
        spaces = [bytes([space]) for space in SPACES]
        return [key for space in spaces for key, _ in store.range(space, bytes([space[0] + 1]))]

    def _answer(self) -> Reply:
        """The newest answer to a question; other replies tell runs to stop."""
        return [reply for reply in self.desk.replies() if reply.claim_id][-1]

    def _say(self, lease: Lease, body: Callable[..., Any], *asked: object) -> None:
        asks = body(new_id("clm"), lease.run_id, *asked)
        self.worker.order(asks, lease.job_id, lease.epoch)


def spec(call: str, type_: str = "refund", input_: str = '{"n":1}', **more: Any) -> ChildSpec:
    """A job that a call asks for."""
    digest = sha256(f"{type_}{input_}".encode()).digest()
    return ChildSpec(call, type_, input_, digest, **more)


def child_id(lease: Lease, call: str) -> str:
    """The job that a call of a run asks for."""
    return child_job_id(lease.tenant_id, lease.scope, call)


def gather_wait(id_: str = "gather[all]", **more: Any) -> Wait:
    return Wait(id_, "gather", 0, b"g", **{"group": 0, **more})


def end_wait(call: str, job_id: str, **more: Any) -> Wait:
    """The wait for the end of the job that a call asked for."""
    return Wait(end_id(call), "job", -1, b"e", **{"group": 0, "job_id": job_id, **more})
