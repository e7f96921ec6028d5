"""Effects that jobs of a tenant share: claims, outcomes and settlements of one effect."""

from __future__ import annotations

from typing import Any

from streams.serde.records import DeadLetter, Lease, LedgerEntry, Reply, Settle
from support.dispatching import Desk, ScriptedWorker

EFFECT = "email:send/reply"
DAY_MS = 86_400_000
KEEP_MS = 90 * DAY_MS
PATIENCE = 301
"""Seconds after which no call of the handlers, whose timeout is 300 s, can be under way."""


def job(desk: Desk, key: str, tenant: str = "acme") -> Lease:
    return desk.lease(desk.event(key, tenant))


def claim(worker: ScriptedWorker, lease: Lease, once_per: str = "tenant", **fields: Any) -> Reply:
    return worker.claim(lease, once_per=once_per, **{"keep_ms": KEEP_MS, **fields})


def outcome(
    worker: ScriptedWorker,
    lease: Lease,
    reply: Reply,
    status: Any,
    result: str | None = None,
    once_per: str = "tenant",
) -> None:
    worker.outcome(lease, reply, status, result, once_per=once_per)


def shared(desk: Desk) -> list[LedgerEntry]:
    """The shared entries of the store."""
    store = desk.driver.store("dispatcher", "ledger")
    kept = {key for key, _ in store.range(b"", b"\xff")}
    found = {(e.tenant_id, e.scope, e.action): e for e in desk.ledger() if e.scope[0] == "@"}
    return [e for name, e in found.items() if "\0".join(name).encode() in kept]


def next_run(desk: Desk, worker: ScriptedWorker, lease: Lease) -> Lease:
    worker.end(lease, "retry", error="TransientError: x")
    return desk.lease(lease.job_id)


def in_review(desk: Desk, worker: ScriptedWorker, lease: Lease) -> Lease:
    assert claim(worker, lease).kind == "review"
    worker.end(lease, "review", error="who knows")
    assert desk.job(lease.job_id).status == "needs_review"
    return lease


def settle(desk: Desk, job_id: str, status: Any, *, tenant: str = "acme", **fields: Any) -> None:
    told = {"action": EFFECT, "result": None, "note": "asked", "submitted_by": "ops"}
    body = Settle(status=status, **{**told, "once_per": "tenant", **fields})
    desk.command(body, job_id, tenant=tenant)


def refusals(desk: Desk) -> list[DeadLetter]:
    return [letter for letter in desk.dead_letters() if letter.kind == "record"]


def later(desk: Desk, worker: ScriptedWorker, seconds: float = PATIENCE) -> None:
    desk.driver.advance(seconds)
    worker.heartbeat()


def block(worker: ScriptedWorker, lease: Lease) -> None:
    """End a run that asked for the effect, because a run of another job makes it."""
    assert claim(worker, lease).kind == "busy"
    worker.end(lease, "blocked", result=f'["tenant","{EFFECT}"]', error="busy")
