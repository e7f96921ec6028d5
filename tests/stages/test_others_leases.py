"""A worker speaks only for its own leases, whatever it knows of those of others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from support.asking import Asker
from support.dispatching import DIGEST, Desk, ScriptedWorker
from support.step_results import left

from streams.dispatcher.parts import declared_schedules
from streams.schedules.definition import definition
from streams.serde.ids import new_id
from streams.serde.link.messages import Answer
from streams.serde.records import (
    AddChildren,
    Checkpoint,
    ChildSpec,
    Claim,
    ClaimStep,
    CommandBody,
    DeclaredSchedule,
    DeclareSchedules,
    Enqueue,
    Lease,
    Listen,
    ReadChildren,
    Reply,
    SealGather,
    StepFailed,
    StepResult,
    Wait,
)


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def owner(desk: Desk) -> ScriptedWorker:
    worker = ScriptedWorker(desk, "owner/b1")
    worker.heartbeat()
    return worker


@pytest.fixture
def thief(desk: Desk, owner: ScriptedWorker) -> ScriptedWorker:
    """A worker that knows everything of the leases of another one."""
    worker = ScriptedWorker(desk, "thief/b1", slots=0)
    worker.heartbeat()
    return worker


def rows(desk: Desk) -> list[object]:
    """All that the dispatcher has committed."""
    names = ("jobs", "ledger", "checkpoints", "approvals", "parts")
    stores = [desk.driver.store("dispatcher", name) for name in names]
    return [list(store.range(b"", b"\xff")) for store in stores]


_CHILD = ChildSpec("c", "refund", "{}", DIGEST)
_MADE = StepResult("c", "child", value="{}")
_ASKED: dict[str, Callable[[Lease], CommandBody]] = {
    "claim": lambda of: Claim("clm", of.run_id, "mail:send/x", b"d", 0),
    "claim_step": lambda of: ClaimStep("clm", of.run_id, "draft", "gpt"),
    "listen": lambda of: Listen("clm", of.run_id, Wait("w", "time", 0, b"d", timeout_ms=9)),
    "enqueue": lambda of: Enqueue("clm", of.run_id, _MADE, _CHILD),
    "seal_gather": lambda of: SealGather("clm", of.run_id, "g", b"d", 1, 1, 0, 0),
    "read_children": lambda of: ReadChildren("clm", of.run_id, ("job_a",)),
}
_TOLD: dict[str, Callable[[Lease], CommandBody]] = {
    "checkpoint": lambda of: Checkpoint(of.run_id, left({"draft": "1"})[0]),
    "step_failed": lambda of: StepFailed(of.run_id, "clm"),
    "add_children": lambda of: AddChildren(of.run_id, "g", 0, (_CHILD,)),
}


@pytest.mark.parametrize("kind", _ASKED)
def test_what_a_worker_asks_for_the_run_of_another_is_answered_lost(
    desk: Desk, owner: ScriptedWorker, thief: ScriptedWorker, kind: str
) -> None:
    lease = desk.lease(desk.event("t1"))
    before = rows(desk)
    thief.order(_ASKED[kind](lease), lease.job_id, lease.epoch)
    ((to, reply),) = desk.all_replies()
    assert (to, reply.claim_id, reply.kind) == ("thief/b1", "clm", "lost")
    assert rows(desk) == before


@pytest.mark.parametrize("kind", _TOLD)
def test_what_a_worker_tells_of_the_run_of_another_changes_nothing(
    desk: Desk, owner: ScriptedWorker, thief: ScriptedWorker, kind: str
) -> None:
    lease = desk.lease(desk.event("t1"))
    before = rows(desk)
    thief.order(_TOLD[kind](lease), lease.job_id, lease.epoch)
    assert (desk.replies(), rows(desk)) == ([], before)


@pytest.mark.parametrize("status", ["succeeded", "retry", "released", "failed", "review"])
def test_a_worker_ends_no_run_of_another(
    desk: Desk, owner: ScriptedWorker, thief: ScriptedWorker, status: str
) -> None:
    lease = desk.lease(desk.event("t1"))
    before = rows(desk)
    thief.end(lease, status, free=0)
    assert rows(desk) == before


def test_a_worker_asks_for_no_approval_in_the_name_of_another() -> None:
    at = Asker()
    lease = at.job()
    before = rows(at.desk)
    at.desk.order = partial(thiefs_order, at.desk.order)  # type: ignore[method-assign]
    at.ask(lease)
    assert rows(at.desk) == before


def thiefs_order(order: Callable[..., None], _: str, *command: object, at: int = 0) -> None:
    order("thief/b1", *command, at=at)


def test_a_heartbeat_renews_and_confirms_no_lease_of_another(
    desk: Desk, owner: ScriptedWorker, thief: ScriptedWorker
) -> None:
    lease = desk.lease(desk.event("t1"))
    for _ in range(6):
        thief.heartbeat(lease, free=0)
        desk.driver.advance(5.1)
    assert {(to, r.kind) for to, r in desk.all_replies()} == {("thief/b1", "lost")}
    assert (desk.job(lease.job_id).status, desk.job(lease.job_id).confirmed) == ("pending", False)


def test_an_outcome_counts_only_from_a_worker_that_made_the_call(
    desk: Desk, owner: ScriptedWorker, thief: ScriptedWorker
) -> None:
    lease = desk.lease(desk.event("t1"))
    reply = owner.claim(lease)
    thief.outcome(lease, reply, "failed")
    assert desk.ledger()[-1].status == "claimed"
    owner.outcome(lease, reply, "done", '"sent"')
    assert (desk.ledger()[-1].status, desk.ledger()[-1].result) == ("done", '"sent"')


@pytest.mark.parametrize("ended", ["lost", "succeeded", "cancelled"])
def test_an_outcome_after_the_lease_counts_from_the_worker_that_had_it_alone(
    desk: Desk, owner: ScriptedWorker, thief: ScriptedWorker, ended: str
) -> None:
    job_id = desk.event("t1")
    lease = desk.lease(job_id)
    reply = owner.claim(lease)
    if ended == "lost":
        desk.driver.advance(31)
    else:
        desk.cancel(job_id) if ended == "cancelled" else None
        owner.end(lease, "succeeded", result="1")
    assert desk.job(job_id).worker_id is None
    thief.outcome(lease, reply, "done", '"never"')
    assert desk.ledger()[-1].result is None
    owner.outcome(lease, reply, "done", '"sent"')
    assert desk.ledger()[-1].result == '"sent"'


def test_a_late_outcome_counts_though_another_worker_has_repeated_the_call(desk: Desk) -> None:
    first, second = (ScriptedWorker(desk, name) for name in ("w1/b1", "w2/b1"))
    first.heartbeat()
    job_id = desk.event("t1")
    lease = desk.lease(job_id)
    before = first.claim(lease, lifetime_ms=3_600_000)
    desk.driver.advance(31)
    first.lose_connection()
    second.stay(10)
    again = second.claim(desk.lease(job_id), lifetime_ms=3_600_000)
    assert (again.kind, again.repeat) == ("granted", True)
    ScriptedWorker(desk, "w3/b1").outcome(lease, before, "done", '"never"')
    assert desk.ledger()[-1].status == "claimed"
    first.outcome(lease, before, "done", '"sent"')
    assert desk.ledger()[-1].result == '"sent"'


def test_a_shared_effect_is_settled_by_no_worker_of_another_job(desk: Desk) -> None:
    first, other = (ScriptedWorker(desk, name, slots=1) for name in ("w1/b1", "w2/b1"))
    first.heartbeat()
    one = desk.lease(desk.event("t1"))
    other.heartbeat()
    two = desk.lease(desk.event("t2"))
    reply = first.claim(one, once_per="tenant")
    other.outcome(two, Reply("", 0, reply.claim_id, "granted"), "done", once_per="tenant")
    assert desk.ledger()[-1].status in ("claimed", "shared")
    first.outcome(one, reply, "done", '"sent"', once_per="tenant")
    assert desk.ledger()[-1].result == '"sent"'


def test_a_worker_declares_schedules_of_its_own_tenants_alone(desk: Desk) -> None:
    each = definition("note", "{}", every_seconds=60)
    everybody = ScriptedWorker(desk, "w1/b1")
    everybody.heartbeat()
    everybody.order(DeclareSchedules("billing", (DeclaredSchedule("daily", "globex", each),)))
    worker = ScriptedWorker(desk, "w2/b1", tenants=frozenset({"acme"}))
    worker.heartbeat()
    before = rows(desk)
    for app, tenant in (("own", "globex"), ("own", "*"), ("billing", "acme")):
        worker.order(DeclareSchedules(app, (DeclaredSchedule("x", tenant, each),)))
    worker.order(DeclareSchedules("billing", ()))
    assert [(to, r.kind) for to, r in desk.all_replies()] == [("w2/b1", "refused")] * 4
    assert rows(desk) == before
    worker.order(DeclareSchedules("own", (DeclaredSchedule("x", "acme", each),)))
    assert rows(desk) != before


def test_a_worker_declares_no_more_schedules_of_a_tenant_than_an_owner_holds(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may call its application as it likes, and each name has a set of its own."""
    monkeypatch.setattr(declared_schedules, "MOST_DECLARED", 3)
    worker = ScriptedWorker(desk, tenants=frozenset({"acme", "globex"}))
    worker.heartbeat()
    each = definition("note", "{}", every_seconds=60)
    for app, tenant in (("a", "acme"), ("b", "acme"), ("c", "globex"), ("d", "acme")):
        two = (DeclaredSchedule(f"{app}{n}", tenant, each) for n in range(2))
        worker.order(DeclareSchedules(app, tuple(two)))
    assert desk.refusals() == ["too_many_schedules"] * 2
    worker.order(DeclareSchedules("a", ()))
    worker.order(DeclareSchedules("d", (DeclaredSchedule("d1", "acme", each),)))
    assert desk.refusals() == ["too_many_schedules"] * 2


def test_a_poisonous_command_is_answered_with_its_claim_and_number(
    desk: Desk, owner: ScriptedWorker
) -> None:
    lease = desk.lease(desk.event("t1"))
    body = Claim(claim := new_id("clm"), lease.run_id, "mail:\0send/x", b"d", 0)
    owner.order(body, lease.job_id, lease.epoch)
    answers = [said for _, said in desk.said() if isinstance(said, Answer)]
    reply = answers[0].reply
    assert (reply.kind, reply.claim_id, reply.job_id) == ("refused", claim, lease.job_id)
    assert [answer.number for answer in answers] == [1]
    assert "bad_id" in reply.message
    desk.driver.pipe("link", b"owner/b1", b"junk")
    assert [r.kind for r in desk.replies()] == ["refused", "refused"]
    assert desk.dead_letters() == []
