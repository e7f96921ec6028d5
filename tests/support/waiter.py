"""A desk whose worker parks runs, and the waits of its jobs."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from streams.event_match import match_of
from streams.serde.records import Lease, Listen, StepResult, Wait
from streams.topology.model import Events, JobType
from support.dispatching import ROUTES, Desk, ScriptedWorker

HOUR = 3_600


class Waiter:
    """A desk whose worker parks runs; jobs of `draft_reply` wait for events of zendesk."""

    def __init__(self, *, declared: bool = True, **changes: Any) -> None:
        self.desk = Desk()
        kept = (Events("zendesk", "reply.*"),) if declared else ()
        types = {"draft_reply": JobType("draft_reply", waits_for=kept)}
        self.desk.start_with(*ROUTES, job_types=types, **changes)
        self.worker = ScriptedWorker(self.desk, slots=1000)
        self.worker.heartbeat()

    def job(self, key: str = "a") -> Lease:
        """The lease of a new job, made by an event."""
        return self.go_on(self.desk.event(key))

    def jobs(self, count: int) -> list[Lease]:
        """The leases of many new jobs."""
        with self.desk.held_back():
            ids = {self.desk.event(f"j{n}") for n in range(count)}
        self.worker.heartbeat()
        self.desk.driver.advance(0.2)
        return [lease for lease in self.desk.leases() if lease.job_id in ids]

    def go_on(self, job_id: str) -> Lease:
        self.worker.heartbeat()
        self.desk.driver.advance(0.2)
        return self.desk.lease(job_id)

    def park(self, lease: Lease, *waits: Wait) -> None:
        body = dataclasses.replace(self.ended(lease), waits=waits)
        self.desk.command(body, lease.job_id, lease.epoch)

    def listen(self, lease: Lease, wait: Wait) -> None:
        body = Listen(f"clm_{wait.id}", lease.run_id, wait)
        self.desk.command(body, lease.job_id, lease.epoch)

    def ended(self, lease: Lease) -> Any:
        from streams.serde.records import Ended

        return Ended(lease.run_id, "parked", None, None, None, None)

    def reply(self, subject: str, type_: str = "reply.sent", **more: Any) -> None:
        """An event that a job may wait for."""
        self.desk.event(subject, type_=type_, **more)

    def status(self, lease: Lease) -> str:
        return self.desk.job(lease.job_id).status

    def left(self, lease: Lease) -> dict[str, StepResult]:
        """What the newest run of a job got of earlier ones."""
        return {result.id: result for result in self.go_on(lease.job_id).steps}

    def timers(self) -> int:
        store = self.desk.driver.store("scheduler", "timers")
        return sum(1 for _ in store.range(b"t", b"u"))

    def index(self) -> list[bytes]:
        store = self.desk.driver.store("dispatcher", "parts")
        spaces = [(b"a", b"b"), (b"j", b"k"), (b"o", b"p"), (b"m", b"n")]
        return [key for space in spaces for key, _ in store.range(*space)]


def event_wait(subject: str = "t1", id_: str = "answer", **more: Any) -> Wait:
    given = {"source": "zendesk", "event_type": "reply.*", "subject": subject}
    text = match_of(given | more.pop("match", {})).text()
    return Wait(id_, "event", 0, b"d", **{"group": 0, "match": text, "since": "job", **more})


def sleep(seconds: float, id_: str = "sleep", **more: Any) -> Wait:
    return Wait(id_, "time", 0, b"s", **{"group": 0, "timeout_ms": round(seconds * 1000), **more})


def subject_of(result: StepResult) -> str:
    found: str = json.loads(result.value or "")["event"]["subject"]
    return found
