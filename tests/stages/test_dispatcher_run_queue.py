"""The dispatcher's derived state: what corrects it, what it costs, and what workers are asked."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from prometheus_client import REGISTRY
from support.dispatching import Desk, ScriptedWorker

from streams.serde.codec import JOB
from streams.topology.limits import Limit
from streams.topology.model import JobType, Topic

WORK = "jobs.work.default"


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def looked_up(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many jobs each look at several jobs of the store asked for."""
    store = desk.driver.store("dispatcher", "jobs")
    found: list[int] = []
    get_many = type(store).get_many

    def counted(self: Any, keys: Sequence[bytes]) -> list[bytes | None]:
        if self is store:
            found.append(len(keys))
        return get_many(self, keys)

    monkeypatch.setattr(type(store), "get_many", counted)
    return found


def with_work_topic(desk: Desk, **changes: Any) -> None:
    """The broker's own work topic is other than the dispatcher was told."""
    broker = desk.driver._broker
    topics = dict(broker._topology.topics)
    topics[WORK] = dataclasses.replace(topics[WORK], **changes)
    broker._topology = dataclasses.replace(broker._topology, topics=topics)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_taken_back_all_jobs_run_that_the_caps_allow(seed: int) -> None:
    desk = Desk(Limit("each", "tenant", "*", 3), Limit("refunds", "job_type", "refund", 2))
    workers = [ScriptedWorker(desk, f"w{n}/b1", slots=4) for n in range(3)]
    chance = random.Random(seed)
    with_work_topic(desk, max_message_bytes=20_000)
    for number in range(60):
        with desk.held_back():
            for step in range(chance.randint(1, 6)):
                something(desk, workers, chance, f"{number}.{step}")
            if chance.random() < 0.4:
                desk.abort()
        if chance.random() < 0.3:
            desk.driver.advance(chance.choice((0.2, 6, 14, 35)))
        chance.choice(workers).heartbeat(free=20)
        desk.driver.advance(0.2)
        assert could_run(desk) == []
    assert "undecodable" in {letter.reason for letter in desk.dead_letters()}


def could_run(desk: Desk) -> list[str]:
    """The jobs that wait though no cap keeps them from running; no cap is overrun."""
    newest = {record.key: record.value for record in desk.driver.output("jobs") if record.value}
    jobs = [JOB.decode(value) for value in newest.values()]
    running = [job for job in jobs if job.status == "running"]
    tenants = Counter(job.tenant_id for job in running)
    refunds = sum(job.type == "refund" for job in running)
    assert max(tenants.values(), default=0) <= 3
    assert refunds <= 2
    return [
        job.job_id
        for job in jobs
        if job.status == "pending" and tenants[job.tenant_id] < 3
        if job.type != "refund" or refunds < 2
    ]


def something(desk: Desk, workers: list[ScriptedWorker], chance: random.Random, key: str) -> None:
    worker = chance.choice(workers)
    living = [lease for lease in desk.leases() if lease.worker_id == worker.name]
    lease = chance.choice(living) if living else None
    match chance.randrange(9):
        case 0 | 1 | 2:
            type_ = chance.choice(("ticket.created", "ticket.refund"))
            desk.event(key, chance.choice(("acme", "globex")), type_=type_)
        case 3:
            worker.heartbeat(*living)
        case 4 if lease:
            worker.end(lease, chance.choice(("succeeded", "retry", "released", "failed")))
        case 5 if lease:
            worker.decline(lease, chance.choice(("full", "not_mine")))
        case 6:
            desk.submit(f"job_{key}", input=f'"{"x" * chance.choice((5, 30_000))}"')
        case 7:
            desk.cancel(chance.choice((f"job_{key}", lease.job_id if lease else "job_gone")))
        case 8:
            desk.driver.pipe("jobs.commands", b"acme", b"junk")


def test_a_poison_record_looks_up_no_job_that_it_did_not_touch(
    desk: Desk, looked_up: list[int]
) -> None:
    with desk.held_back():
        for number in range(200):
            desk.event(f"t{number}")
        for _ in range(20):
            desk.replay("job_new", "job_gone")
            desk.driver.pipe("jobs.commands", b"acme", b"junk")
    assert len(desk.dead_letters()) == 40
    assert sum(looked_up) == 0, "each change is reversed by itself"


def test_an_aborted_transaction_looks_up_what_it_changed_alone(
    desk: Desk, looked_up: list[int]
) -> None:
    for number in range(200):
        desk.event(f"t{number}")
    with_work_topic(desk, max_message_bytes=10)
    ScriptedWorker(desk, slots=3).heartbeat()
    assert sum(looked_up) == 0, "each change is reversed by itself"
    assert {letter.reason for letter in desk.dead_letters()} == {"lease_refused"}


def test_a_lease_that_the_broker_refuses_ends_its_own_job_alone(desk: Desk) -> None:
    with_work_topic(desk, max_message_bytes=20_000)
    worker = ScriptedWorker(desk)
    with desk.held_back():
        worker.heartbeat()
        desk.submit("job_large", input=f'"{"x" * 30_000}"')
        ids = [desk.event(f"t{number}") for number in range(5)]
    assert [desk.job(job_id).status for job_id in ids] == ["running"] * 5
    assert desk.job("job_large").status == "dead"
    (letter,) = desk.dead_letters()
    assert (letter.id, letter.kind, letter.reason) == ("job_large", "job", "lease_refused")
    assert "tidegate topology plan" in letter.detail


def test_a_refused_lease_is_found_behind_jobs_that_only_move_on(desk: Desk) -> None:
    with desk.driver.together():
        for number in range(250):
            desk.event(f"t{number}")
        desk.submit("job_~large", "refund", input=f'"{"x" * 30_000}"')
    desk.deploy(job_types={"draft_reply": JobType("draft_reply", "gpu")})
    with_work_topic(desk, max_message_bytes=20_000)
    desk.driver.advance(0.1)
    ScriptedWorker(desk, slots=500).heartbeat()
    assert [letter.reason for letter in desk.dead_letters()] == ["lease_refused"]
    assert desk.job("job_~large").status == "dead"


def paused() -> float | None:
    """The gauge of the default pool."""
    labels = {"partition": "0", "pool": "default"}
    return REGISTRY.get_sample_value("tidegate_dispatcher_leasing_paused", labels)


def test_a_missing_work_topic_pauses_the_pool_and_costs_no_job(desk: Desk) -> None:
    drafts, renders = in_two_pools(desk)
    with desk.without_topic(WORK):
        drafts.heartbeat()
        renders.heartbeat()
        job_id = desk.event("t1")
        desk.submit("job_r", "render")
        desk.driver.advance(20)
        assert paused() == 1
        assert (desk.job(job_id).status, desk.job(job_id).attempts) == ("pending", 0)
        assert desk.job("job_r").status == "running", "the other pool goes on"
    drafts.heartbeat()
    desk.driver.advance(20)
    drafts.heartbeat()
    assert (desk.lease(job_id).attempt, paused()) == (1, 0)
    assert desk.dead_letters() == []


def test_leases_go_out_in_bounded_parts(desk: Desk) -> None:
    with desk.held_back():
        for number in range(700):
            desk.submit(f"job_{number:03}")
        ScriptedWorker(desk, slots=1_000).heartbeat()
    assert len(desk.leases()) == 500
    desk.driver.advance(0.2)
    assert len(desk.leases()) == 700


def in_two_pools(desk: Desk) -> tuple[ScriptedWorker, ScriptedWorker]:
    """A worker of the default pool, and one of another that renders."""
    topics = {**desk.topology.topics, "jobs.work.gpu": Topic("jobs.work.gpu", 16)}
    types = {"render": JobType("render", pool="gpu")}
    desk.deploy(topics=topics, pools=("default", "gpu"), job_types=types)
    desk.driver.advance(0.2)
    drafts = ScriptedWorker(desk, slots=1_000)
    renders = ScriptedWorker(desk, "w2/b1", types=("render",), partition=4, pool="gpu")
    return drafts, renders


@pytest.mark.parametrize("scope", ["global", "tenant"])
def test_no_pool_takes_all_that_a_cap_leaves(scope: Any) -> None:
    desk = Desk(Limit("one", scope, "*", 1))
    drafts, renders = in_two_pools(desk)
    drafts.heartbeat()
    renders.heartbeat()
    for n in range(8):
        desk.submit(f"job_{n}")
    desk.submit("job_r", "render")
    for _ in range(2):
        (running,) = [each for each in desk.leases() if desk.job(each.job_id).status == "running"]
        drafts.end(running, "succeeded")
    assert desk.job("job_r").status == "running"


def test_no_pool_takes_all_leases_of_a_step(desk: Desk) -> None:
    drafts, renders = in_two_pools(desk)
    with desk.held_back():
        for n in range(600):
            desk.submit(f"job_{n}")
        desk.submit("job_r", "render")
    with desk.held_back():
        drafts.heartbeat()
        renders.heartbeat()
    assert len(desk.leases()) == 500
    assert desk.job("job_r").status == "running"


def test_leases_are_numbered_and_a_refused_one_leaves_no_gap(desk: Desk) -> None:
    with_work_topic(desk, max_message_bytes=20_000)
    with desk.held_back():
        desk.submit("job_large", input=f'"{"x" * 30_000}"')
        for number in range(4):
            desk.event(f"t{number}")
        ScriptedWorker(desk, slots=4).heartbeat()
    assert [lease.number for lease in desk.leases()] == [1, 2, 3, 4]


def test_a_lease_fits_the_topic_that_it_goes_to() -> None:
    desk = Desk()
    small = dataclasses.replace(desk.topology.topics[WORK], max_message_bytes=256 * 1024)
    desk.deploy(topics={**desk.topology.topics, WORK: small})
    desk.driver.advance(0.2)
    ScriptedWorker(desk).heartbeat()
    desk.submit("job_x", input=f'"{"x" * 300_000}"')
    assert [letter.reason for letter in desk.dead_letters()] == ["lease_too_large"]


def test_a_partition_is_taken_over_in_bounded_parts(desk: Desk) -> None:
    with desk.held_back():
        for number in range(2_500):
            desk.submit(f"job_{number:04}")
    assert sum(1 for _ in desk.driver.task("dispatcher").restoring()) >= 3
    ScriptedWorker(desk, slots=3_000).stay(2)
    assert len(desk.leases()) == 2_500


def test_a_purge_does_not_walk_over_what_it_purged_before(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(450):
        desk.cancel(f"job_{number:03}")
    store = desk.driver.store("dispatcher", "parts")
    starts: list[bytes] = []
    between = type(store).range

    def watched(self: Any, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        if start.startswith(b"q"):
            starts.append(start)
        return between(self, start, end)

    monkeypatch.setattr(type(store), "range", watched)
    expiries = [key for key, _ in between(store, b"q", b"r")]
    desk.driver.advance(desk.topology.finished_jobs_ms / 1000)
    desk.driver.advance(1)
    assert list(between(store, b"q", b"r")) == []
    assert starts[-1] > expiries[-1]


def test_what_was_purged_and_asked_is_so_again_after_an_abort() -> None:
    fresh = Desk()
    fresh.driver.restart("dispatcher")
    fresh.cancel("job_gone")
    fresh.driver._clock.ms += fresh.topology.finished_jobs_ms
    fresh.abort()
    fresh.driver.advance(0.2)
    assert list(fresh.driver.store("dispatcher", "parts").range(b"q", b"r")) == []
    everybody = fresh.topology.topics["jobs.replies"].partitions
    assert len(fresh.questions("who")) == 2 * everybody, "at the first start and at the second"


def test_a_command_parked_for_the_next_incarnation_is_known_after_an_abort() -> None:
    desk = Desk()
    desk.submit("job_x")
    desk.cancel("job_x", 2)  # there is no such incarnation yet: it waits beside the live job
    desk.driver.advance(60)
    with desk.held_back():
        desk.cancel("job_x", 1)
        desk.submit("job_x", at=desk.driver.now + desk.topology.window_ms + 1_000)
        desk.abort()
    job = desk.job("job_x")
    assert (job.incarnation, job.status) == (2, "cancelled")


def test_a_parked_command_waits_again_after_an_abort_though_its_job_was_never_ready() -> None:
    desk = Desk()
    desk.cancel("job_a", at=1)
    with desk.held_back():
        desk.submit("job_a", run_at=desk.driver.now + 3_600_000)
        desk.abort()
    assert desk.job("job_a").status == "scheduled"
