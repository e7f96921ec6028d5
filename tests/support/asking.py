"""A desk whose worker asks people for approvals, and the people who decide."""

from __future__ import annotations

from typing import Any

from streams import user_json
from streams.serde.codec import APPROVAL
from streams.serde.ids import approval_id
from streams.serde.records import (
    Approval,
    ApprovalEffect,
    AskApproval,
    Decide,
    Ended,
    Lease,
    LedgerEntry,
    Reply,
    StepResult,
    Wait,
)
from streams.topology.model import Route
from streams.vault.sealed_json import seal_json
from support.dispatching import ROUTES, Desk, ScriptedWorker
from support.office import VAULT

HOUR_MS = 3_600_000
EVIDENCE = b"e" * 32
ACTION = "pay:refund/ch_1"


def refund(amount: int) -> dict[str, Any]:
    return {"charge": "ch_1", "amount": amount}


def digest(amount: int) -> bytes:
    return user_json.digest(refund(amount))


class Asker:
    """A desk whose worker asks for approvals."""

    def __init__(self, *routes: Route, **changes: Any) -> None:
        self.desk = Desk()
        self.number = 0
        """Of the last decision."""
        if changes or routes:
            self.desk.start_with(*(routes or ROUTES), **changes)
        self.desk.tenant("acme")
        self.worker = ScriptedWorker(self.desk, slots=100)
        self.worker.heartbeat()

    def job(self, key: str = "a") -> Lease:
        return self.go_on(self.desk.event(key))

    def go_on(self, job_id: str) -> Lease:
        self.worker.heartbeat()
        self.desk.driver.advance(0.2)
        return self.desk.lease(job_id)

    def ask(self, lease: Lease, key: str = "refund", amount: int = 82_000, **more: Any) -> str:
        """Ask, without parking; returns the approval's id."""
        id_ = approval_id(lease.tenant_id, lease.scope, key)
        value = {"prompt": "Refund ch_1?", "arguments": [refund(amount)]}
        given: dict[str, Any] = {
            "approvers": "any",
            "quorum": 1,
            "on_timeout": "reject",
            "timeout_ms": HOUR_MS,
            "digest": EVIDENCE,
            "effects": (ApprovalEffect("pay:refund", "ch_1", digest(amount)),),
            "asked": seal_json(None, VAULT, lease.tenant_id, id_, value),
        }
        body = AskApproval(run_id=lease.run_id, key=key, **(given | more))
        self.desk.command(body, lease.job_id, lease.epoch)
        return id_

    def park(self, lease: Lease, id_: str, *more: Wait, evidence: bytes = EVIDENCE) -> None:
        wait = Wait("approval[refund]", "approval", 0, evidence, group=0, approval_id=id_)
        ended = Ended(
            lease.run_id,
            "parked",
            None,
            None,
            None,
            None,
            waits=(wait, *more),
        )
        self.desk.command(ended, lease.job_id, lease.epoch)

    def waiting(self, **more: Any) -> tuple[Lease, str]:
        """A job that is parked for an approval."""
        lease = self.job()
        id_ = self.ask(lease, **more)
        self.park(lease, id_)
        assert self.status(lease) == "waiting"
        return lease, id_

    def decide(
        self, lease: Lease, id_: str, approved: bool = True, by: str = "ann", **more: Any
    ) -> None:
        at, tenant = more.pop("at", 0), more.pop("tenant", "acme")
        self.number += 1
        body = Decide(id_, f"dec_{self.number}", approved, by, "noted", **more)
        self.desk.command(body, lease.job_id, tenant=tenant, at=at)

    def edit(self, lease: Lease, id_: str, amount: int, by: str, **more: Any) -> None:
        """Approve with another amount."""
        value = {"edit": {"amount": amount}, "arguments": [refund(amount)]}
        sealed = seal_json(None, VAULT, lease.tenant_id, id_, value)
        self.decide(lease, id_, by=by, edit=sealed, edited=(digest(amount),), **more)

    def status(self, lease: Lease) -> str:
        return self.desk.job(lease.job_id).status

    def approval(self) -> Approval:
        return APPROVAL.decode(self.desk.driver.output("approvals")[-1].value)

    def left(self, lease: Lease) -> StepResult:
        return next(s for s in self.go_on(lease.job_id).steps if s.id == "approval[refund]")

    def decision(self, lease: Lease) -> Any:
        return user_json.read(self.left(lease).value or "null")

    def claim(self, lease: Lease, amount: int, action: str = ACTION) -> Reply:
        return self.worker.claim(lease, action, digest=digest(amount))

    def refusals(self) -> list[str]:
        return [letter.reason for letter in self.desk.dead_letters()]

    def entries(self) -> list[LedgerEntry]:
        return [entry for entry in self.desk.ledger() if entry.action == ACTION]
