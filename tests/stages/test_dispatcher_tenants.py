"""Jobs of a tenant that is disabled or erased: held, or ended."""

from __future__ import annotations

import pytest
from support.dispatching import Desk, ScriptedWorker

from streams.serde.keys import tenant_key
from streams.serde.records import Lease


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def worker(desk: Desk) -> ScriptedWorker:
    return ScriptedWorker(desk)


def tenants(leases: list[Lease]) -> list[str]:
    return sorted({lease.tenant_id for lease in leases})


def test_a_disabled_tenants_jobs_wait_and_say_so_what_runs_goes_on(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    running = desk.event("t1")
    desk.tenant(disabled=True)
    waiting, other = desk.event("t2"), desk.event("t1", "globex")
    assert desk.lease(other).attempt == 1
    worker.stay(10, desk.lease(running), desk.lease(other))
    assert desk.job(waiting).status == "pending"
    (held,) = desk.held().values()
    assert (held.tenant_id, held.reason, held.jobs) == ("acme", "tenant_disabled", 1)
    worker.end(desk.lease(running), "retry", after=0, error="TransientError: x")
    assert (desk.job(running).status, desk.job(running).attempts) == ("pending", 1)
    desk.tenant()
    assert {desk.lease(job_id).tenant_id for job_id in (running, waiting)} == {"acme"}
    worker.stay(5)
    assert desk.held() == {}


@pytest.mark.parametrize("keep_state", [True, False])
def test_a_restart_forgets_neither(desk: Desk, worker: ScriptedWorker, keep_state: bool) -> None:
    desk.tenant(disabled=True)
    desk.tenant("initech", "erasure", disabled=True)
    desk.driver.restart("dispatcher", keep_state=keep_state)
    desk.driver.advance(0.2)
    worker.heartbeat()
    for tenant in ("acme", "globex", "initech"):
        desk.event("t1", tenant)
    assert tenants(desk.leases()) == ["globex"]


def test_an_undone_record_of_a_tenant_changes_nothing(desk: Desk, worker: ScriptedWorker) -> None:
    worker.heartbeat()
    with desk.held_back():
        desk.tenant(disabled=True)
        desk.replay("job_new", "job_gone")
        desk.tenant()
    assert tenants([desk.lease(desk.event("t1"))]) == ["acme"]


def test_an_erased_tenants_waiting_jobs_are_cancelled_and_running_ones_told(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    running, retried = desk.event("t1"), desk.event("t2")
    worker.end(desk.lease(retried), "retry", error="TransientError: x", free=0)
    waiting = desk.event("t3")
    other = desk.event("t1", "globex")
    desk.tenant(kind="erasure", disabled=True)
    desk.tenant()
    desk.driver.advance(1)
    for job_id in (retried, waiting):
        job = desk.job(job_id)
        assert (job.status, job.cancel_reason) == ("cancelled", "tenant erased")
    (reply,) = desk.replies()
    assert (reply.kind, reply.job_id, reply.message) == ("cancel", running, "tenant erased")
    worker.end(desk.lease(running), "retry", error="CancelledError: ")
    assert (desk.job(running).status, desk.job(running).last_error) == (
        "cancelled",
        "Cancelled: tenant erased",
    )
    assert desk.job(other).status == "running"
    assert desk.held() == {}


def test_a_new_event_of_an_erased_tenant_is_a_job_that_never_runs(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    desk.tenant(kind="erasure", disabled=True)
    job_id = desk.event("t1")
    desk.submit("job_x", run_at=desk.driver.now + 1_000)
    desk.driver.advance(5)
    assert {desk.job(j).status for j in (job_id, "job_x")} == {"cancelled"}
    assert desk.leases() == []


def test_an_erasure_ends_thousands_in_parts(desk: Desk) -> None:
    with desk.driver.together():
        ids = [desk.event(f"t{n}") for n in range(650)]
    desk.tenant(kind="erasure", disabled=True)
    parts, before = [], len(desk.driver.output("jobs"))
    for _ in range(20):
        desk.driver.advance(0.1)
        parts.append(len(desk.driver.output("jobs")) - before)
        before += parts[-1]
    assert sum(parts) == 650
    assert max(parts) <= 200
    assert {desk.job(job_id).status for job_id in ids} == {"cancelled"}


def test_a_run_of_an_erased_tenant_that_ends_in_review_is_cancelled(desk: Desk) -> None:
    """It was told to stop and came to review all the same: it stayed there for ever."""
    worker = ScriptedWorker(desk, backoff=())
    worker.heartbeat()
    job_id = desk.event("t1")
    worker.claim(desk.lease(job_id))
    worker.end(desk.lease(job_id), "retry", error="TimeoutError: x")
    again = desk.lease(job_id)
    assert worker.claim(again).kind == "review"
    desk.tenant(kind="erasure", disabled=True)
    desk.driver.advance(1)
    worker.end(again, "review", error="unknown")
    worker.stay(310)
    assert desk.job(job_id).status == "cancelled"


def test_a_dead_job_of_an_erased_tenant_stays_dead(desk: Desk) -> None:
    desk.deploy(unhandled_ms=60_000)
    job_id = desk.event("t1")
    for _ in range(15):
        desk.driver.advance(10)
    assert desk.job(job_id).status == "dead"
    desk.tenant(kind="erasure", disabled=True)
    ScriptedWorker(desk).stay(5)
    assert desk.job(job_id).status == "dead"


def test_what_the_topic_says_of_sources_and_keys_or_says_badly(
    desk: Desk, worker: ScriptedWorker
) -> None:
    worker.heartbeat()
    desk.driver.pipe("tenants", tenant_key("acme", "source", "zendesk"), b"sealed")
    desk.driver.pipe("tenants", b"no key of ours", b"sealed")
    desk.driver.pipe("tenants", None, None)
    assert tenants([desk.lease(desk.event("t1"))]) == ["acme"]
    desk.driver.pipe("tenants", tenant_key("acme", "tenant", ""), b"no frame")
    desk.event("t2")
    assert len(desk.leases()) == 1, "a tenant that cannot be read is closed"
    desk.driver.pipe("tenants", tenant_key("acme", "tenant", ""), None)
    assert len(desk.leases()) == 2
    assert desk.dead_letters() == [], "what they hold may be secret"


def test_an_erasures_round_begins_again_where_its_beginning_is_aborted(desk: Desk) -> None:
    """It waited for the next round, five minutes later."""
    desk.driver.advance(1)
    job_id = desk.event("t1")
    desk.tenant(kind="erasure", disabled=True)
    desk.abort()
    desk.driver.advance(1)
    assert desk.job(job_id).status == "cancelled"
