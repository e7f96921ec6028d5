"""Jobs that wait for a worker of their type: reported, dead after long, brought back."""

from __future__ import annotations

import pytest
from prometheus_client import REGISTRY
from support.dispatching import Desk, ScriptedWorker

from streams.serde.job_states import JobStatus
from streams.serde.records import Lease
from streams.topology.limits import Limit
from streams.topology.model import JobType

HOUR_MS = 3_600_000


@pytest.fixture
def desk() -> Desk:
    """Types wait for a minute here."""
    desk = Desk()
    desk.deploy(unhandled_ms=60_000)
    desk.driver.advance(0.2)
    return desk


def statuses(desk: Desk, *job_ids: str) -> set[JobStatus]:
    return {desk.job(job_id).status for job_id in job_ids}


def reasons(desk: Desk) -> set[str]:
    return {held.reason for held in desk.held().values()}


def unheard(desk: Desk, seconds: float) -> None:
    """Time passes in steps as short as production's."""
    for _ in range(round(seconds / 10)):
        desk.driver.advance(10)


def dead(desk: Desk, *keys: str) -> list[str]:
    """Jobs whose type had no worker for so long that they are dead."""
    ids = [desk.event(key) for key in keys]
    unheard(desk, 150)
    assert statuses(desk, *ids) == {"dead"}
    return ids


def test_a_type_nobody_handles_is_dead_with_its_name(desk: Desk) -> None:
    worker = ScriptedWorker(desk, types=("refund",))
    worker.heartbeat()
    job_id = desk.event("t1")
    worker.stay(55)
    assert desk.job(job_id).status == "pending"
    worker.stay(80)
    job = desk.job(job_id)
    assert (job.status, job.end_reason, job.attempts) == ("dead", "unknown_type", 0)
    assert "'draft_reply'" in (job.last_error or "")
    assert "refund" in (job.last_error or "")
    assert [letter.reason for letter in desk.dead_letters()] == ["unknown_type"]


def test_a_dead_job_names_a_few_of_the_types_that_are_handled(desk: Desk) -> None:
    """Workers of others may handle many, and its record has to hold them."""
    types = tuple(f"{number:0255}" for number in range(1_000))
    worker = ScriptedWorker(desk, types=types)
    job_id = desk.event("t1")
    worker.heartbeat()
    worker.stay(140)
    assert desk.job(job_id).end_reason == "unknown_type"
    assert len(desk.job(job_id).last_error or "") < 4_000


def test_a_day_is_the_default_and_it_needs_no_worker_at_all() -> None:
    desk = Desk()
    job_id = desk.event("t1")
    desk.driver.advance(23.9 * 3_600)
    unheard(desk, 200)
    assert desk.job(job_id).status == "pending"
    unheard(desk, 600)
    assert desk.job(job_id).status == "dead"


def test_a_worker_that_is_silent_while_its_lease_runs_is_there(desk: Desk) -> None:
    """A silence of 25 s, with leases that live for 30, used to end all that waited."""
    worker = ScriptedWorker(desk, slots=1, types=("draft_reply",))
    other = ScriptedWorker(desk, "w2/b1", types=("refund",))
    worker.heartbeat()
    running, waiting = desk.event("t1"), desk.event("t2")
    lease = desk.lease(running)
    for _ in range(8):
        worker.heartbeat(lease, free=0)
        other.stay(25)
    assert statuses(desk, running) == {"running"}
    assert statuses(desk, waiting) == {"pending"}
    assert reasons(desk) == {"no_slot"}


def test_after_a_takeover_a_lease_stands_for_the_worker_that_is_not_heard_yet(desk: Desk) -> None:
    worker = ScriptedWorker(desk, slots=1)
    worker.heartbeat()
    running, _ = desk.event("t1"), desk.event("t2")
    worker.heartbeat(desk.lease(running), free=0)
    desk.driver.restart("dispatcher")
    desk.driver.advance(25)
    assert reasons(desk) <= {"no_slot"}
    desk.driver.advance(20)
    assert reasons(desk) == {"no_worker"}


def test_poison_keeps_nobody_from_being_told(desk: Desk) -> None:
    desk.event("t1")
    for _ in range(10):
        desk.replay("job_new", "job_gone")
        desk.driver.advance(2)
    assert len(desk.held()) == 1


def test_a_job_waits_its_own_time_from_when_it_became_ready(desk: Desk) -> None:
    early = desk.event("t1")
    unheard(desk, 100)
    late = desk.event("t2")
    unheard(desk, 40)
    assert (desk.job(early).status, desk.job(late).status) == ("dead", "pending")
    unheard(desk, 40)
    assert desk.job(late).status == "dead"


def test_a_type_that_has_just_lost_its_worker_is_not_ended_with_what_waited_before(
    desk: Desk,
) -> None:
    worker = ScriptedWorker(desk, slots=0, types=("draft_reply",))
    worker.heartbeat()
    job_id = desk.event("t1")
    worker.stay(200)
    worker.lose_connection()
    unheard(desk, 80)
    assert desk.job(job_id).status == "pending"
    unheard(desk, 250)
    assert desk.job(job_id).status == "dead"


def test_since_when_a_type_has_no_worker_outlives_a_restart(desk: Desk) -> None:
    job_id = desk.event("t1")
    unheard(desk, 30)
    desk.driver.restart("dispatcher")
    unheard(desk, 30)
    assert desk.job(job_id).status == "pending", "first it listens for a while"
    unheard(desk, 90)
    assert desk.job(job_id).status == "dead"
    assert len([r for r in desk.driver.output("jobs.held") if r.value]) == 1, "told once"


def test_a_dispatcher_that_was_away_hears_the_workers_before_it_ends_their_jobs(desk: Desk) -> None:
    job_id = desk.event("t1")
    unheard(desk, 30)
    desk.driver.run_of("dispatcher").pace.due = desk.driver.now + 10 * HOUR_MS  # it stands still
    desk.driver.advance(10 * 3_600)
    desk.driver.advance(20)
    assert desk.job(job_id).status == "pending"
    ScriptedWorker(desk, slots=0).stay(120)
    assert desk.job(job_id).status == "pending"


def test_the_first_worker_that_handles_the_type_brings_its_jobs_back(desk: Desk) -> None:
    ids = dead(desk, "t1", "t2")
    worker = ScriptedWorker(desk)
    worker.stay(5)
    assert statuses(desk, *ids) == {"running"}
    assert {desk.lease(job_id).attempt for job_id in ids} == {1}
    letters = {letter.id: letter for letter in desk.dead_letters()}
    assert all(letter.replayed_at for letter in letters.values())
    assert {letter.note for letter in letters.values()} == {"its type is handled again"}
    assert letters[ids[0]].replayed_as == ids[0]
    worker.end(desk.lease(ids[0]), "succeeded")
    assert desk.job(ids[0]).end_reason is None


def test_jobs_come_back_after_a_restart_with_their_attempts(desk: Desk) -> None:
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    job_id = desk.event("t1")
    worker.end(desk.lease(job_id), "retry", error="TransientError: x")
    worker.leave()
    unheard(desk, 200)
    assert (desk.job(job_id).status, desk.job(job_id).attempts) == ("dead", 1)
    desk.driver.restart("dispatcher")
    desk.driver.advance(1)
    ScriptedWorker(desk, "w1/b2").stay(5)
    assert desk.lease(job_id).attempt == 2


def test_what_was_replayed_stays_dead(desk: Desk) -> None:
    (job_id,) = dead(desk, "t1")
    desk.replay("job_new", job_id)
    worker = ScriptedWorker(desk)
    worker.stay(5)
    assert desk.job(job_id).status == "dead"
    assert [lease.job_id for lease in desk.leases()] == ["job_new"]


def test_a_job_that_came_back_is_not_purged_by_its_first_end(desk: Desk) -> None:
    (job_id,) = dead(desk, "t1")
    worker = ScriptedWorker(desk)
    desk.driver.advance(desk.topology.finished_jobs_ms / 1000 - 1_000)
    worker.stay(5)
    worker.end(desk.lease(job_id), "succeeded")
    desk.driver.advance(2_000)
    assert desk.driver.store("dispatcher", "jobs").get(job_id.encode()) is not None
    desk.driver.advance(desk.topology.finished_jobs_ms / 1000)
    assert desk.driver.store("dispatcher", "jobs").get(job_id.encode()) is None


def test_a_purge_takes_a_dead_job_whole(desk: Desk) -> None:
    before = list(desk.driver.store("dispatcher", "jobs").range(b"", b"\xff"))
    dead(desk, "t1")
    desk.driver.advance(desk.topology.finished_jobs_ms / 1000)
    desk.driver.advance(1)
    assert list(desk.driver.store("dispatcher", "jobs").range(b"", b"\xff")) == before


def letters_by_part(desk: Desk, seconds: int) -> list[int]:
    """How many dead letters each punctuation wrote that wrote any."""
    before, parts = len(desk.driver.output("dlq")), []
    for _ in range(seconds * 10):
        desk.driver.advance(0.1)
        parts.append(len(desk.driver.output("dlq")) - before)
        before += parts[-1]
    return [part for part in parts if part]


def held_jobs(pool: str, reason: str) -> float | None:
    """The gauge of partition 0."""
    labels = {"partition": "0", "pool": pool, "reason": reason}
    return REGISTRY.get_sample_value("tidegate_dispatcher_held_jobs", labels)


def test_hundreds_end_and_come_back_in_parts(desk: Desk) -> None:
    with desk.driver.together():
        ids = [desk.event(f"t{n}") for n in range(450)]
    desk.driver.advance(100)
    assert letters_by_part(desk, seconds=60) == [200, 200, 50]
    ScriptedWorker(desk).heartbeat(free=0)
    assert letters_by_part(desk, seconds=5) == [200, 200, 50]
    assert statuses(desk, *ids) == {"pending"}


def test_what_is_held_is_told_and_told_to_be_over(desk: Desk) -> None:
    def gauge() -> float | None:
        return held_jobs("default", "no_worker")

    since = desk.driver.now
    desk.event("t1")
    desk.driver.advance(9)
    assert desk.held() == {}, "a deployment may be rolling"
    desk.driver.advance(6)
    (held,) = desk.held().values()
    assert (held.pool, held.type, held.reason, held.jobs) == (
        "default",
        "draft_reply",
        "no_worker",
        1,
    )
    assert 0 <= held.since - since <= 5_000
    assert gauge() == 1
    desk.event("t2")
    desk.driver.advance(10)
    assert gauge() == 2
    assert len(desk.driver.output("jobs.held")) == 1, "a count is told once a minute at most"
    ScriptedWorker(desk).stay(5)
    assert desk.held() == {}
    assert gauge() == 0


def test_a_count_is_told_anew_after_a_minute() -> None:
    desk = Desk()
    desk.event("t1")
    desk.driver.advance(15)
    desk.event("t2")
    desk.driver.advance(70)
    desk.driver.advance(300)
    (held,) = desk.held().values()
    assert (held.jobs, len(desk.driver.output("jobs.held"))) == (2, 2)


def test_jobs_of_a_pool_that_is_gone_follow_their_type_or_are_held() -> None:
    desk = Desk()
    types = {"draft_reply": JobType("draft_reply", "gpu")}
    desk.deploy(pools=("default", "gpu"), job_types=types)
    job_id = desk.event("t1")
    desk.driver.advance(1)
    assert desk.job(job_id).pool == "gpu"
    desk.deploy(pools=("default",))
    desk.driver.advance(5)
    (held,) = desk.held().values()
    assert (held.pool, held.reason) == ("gpu", "no_pool")
    assert held_jobs("gpu", "no_pool") == 1
    desk.deploy(job_types={})
    desk.driver.advance(5)
    assert (desk.job(job_id).pool, desk.held()) == ("default", {})
    ScriptedWorker(desk).stay(1)
    assert desk.lease(job_id).attempt == 1


def test_the_dispatchers_gauge_goes_with_its_partition(desk: Desk) -> None:
    desk.driver.advance(5)
    assert held_jobs("default", "no_worker") == 0
    desk.driver.close()
    assert held_jobs("default", "no_worker") is None


def test_full_slots_are_told_after_a_while_until_one_is_free(desk: Desk) -> None:
    worker = ScriptedWorker(desk, slots=1)
    worker.heartbeat()
    running = desk.lease(desk.event("t1"))
    desk.event("t2")
    stayed(desk, worker, running, seconds=8)
    assert desk.held() == {}, "each busy pool lacks a slot for moments"
    stayed(desk, worker, running, seconds=6)
    (held,) = desk.held().values()
    assert (held.reason, held.type, held.jobs) == ("no_slot", "draft_reply", 1)
    assert "--slots" in held.detail
    worker.end(running, "succeeded")
    worker.heartbeat()
    desk.driver.advance(3)
    assert desk.held() == {}, "nothing waits"


def test_jobs_that_could_not_start_for_a_moment_do_not_end_the_report(desk: Desk) -> None:
    worker = ScriptedWorker(desk, slots=1)
    worker.heartbeat()
    running = desk.lease(desk.event("t1"))
    desk.event("t2", "globex")
    stayed(desk, worker, running, seconds=14)
    assert reasons(desk) == {"no_slot"}
    desk.tenant("globex", disabled=True)
    stayed(desk, worker, running, seconds=4)
    assert reasons(desk) == {"no_slot", "tenant_disabled"}
    stayed(desk, worker, running, seconds=6)
    assert reasons(desk) == {"tenant_disabled"}


def test_a_worker_that_is_found_full_is_missing_no_more(desk: Desk) -> None:
    desk.event("t1")
    unheard(desk, 20)
    assert reasons(desk) == {"no_worker"}
    worker = ScriptedWorker(desk, slots=0)
    for _ in range(3):
        worker.heartbeat(free=0)
        desk.driver.advance(1)
    assert desk.held() == {}, "it is not told yet that its slots are full"


def test_full_slots_are_told_no_more_once_their_worker_has_left(desk: Desk) -> None:
    """It said for ten seconds more that a job only had to end, or that more slots would do."""
    worker = ScriptedWorker(desk, slots=0)
    desk.event("t1")
    worker.stay(15, free=0)
    assert reasons(desk) == {"no_slot"}
    worker.leave()
    desk.driver.advance(3)
    assert desk.held() == {}, "it is not told yet that no worker is there"
    desk.driver.advance(10)
    assert reasons(desk) == {"no_worker"}


def test_a_job_that_only_its_cap_keeps_lacks_no_slot() -> None:
    desk = Desk(Limit("one", "tenant", "*", 1))
    worker = ScriptedWorker(desk, slots=5)
    worker.heartbeat()
    running = desk.lease(desk.event("t1"))
    waiting = desk.event("t2")
    stayed(desk, worker, running, seconds=30)
    assert (desk.job(waiting).status, desk.held()) == ("pending", {})


def test_a_report_of_full_slots_leaves_out_the_jobs_that_a_limit_holds_back() -> None:
    desk = Desk(Limit("one_a_customer", "key", by="input.customer", concurrency=1))
    worker = ScriptedWorker(desk, slots=1)
    worker.heartbeat()
    running = desk.lease(desk.event("t1"))
    for number in range(3):
        desk.submit(f"a{number}", input='{"customer": "ann"}')
    desk.submit("b", input='{"customer": "bob"}')
    stayed(desk, worker, running, seconds=14)
    (held,) = desk.held().values()
    assert (held.reason, held.jobs) == ("no_slot", 2), "one of each customer could start"


def stayed(desk: Desk, worker: ScriptedWorker, lease: Lease, seconds: int) -> None:
    """The worker holds one lease, and says so every second."""
    for _ in range(seconds):
        worker.heartbeat(lease, free=worker.slots - 1)
        desk.driver.advance(1)
