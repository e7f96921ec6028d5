"""Jobs that failed and are replayed, and what is refused."""

from __future__ import annotations

from streams.serde.records import DeadLetter, Lease
from support.dispatching import Desk, ScriptedWorker

EFFECT = "email:send/reply"


def failed(desk: Desk, worker: ScriptedWorker, key: str = "t1", *, done: bool = False) -> Lease:
    lease = desk.lease(desk.event(key))
    if done:
        worker.outcome(lease, worker.claim(lease), "done", '"sent"')
    worker.end(lease, "failed", error="PermanentError: x")
    return lease


def refusal(desk: Desk) -> DeadLetter:
    """The newest dead letter of a record."""
    return [letter for letter in desk.dead_letters() if letter.kind == "record"][-1]
