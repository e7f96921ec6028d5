"""The dispatcher's derived state: what corrects it, what it costs, and what workers are asked."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from support.dispatching import Desk, ScriptedWorker

from streams.serde.codec import JOB
from streams.topology.limits import Limit
from streams.topology.model import JobType


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


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_taken_back_all_jobs_run_that_the_caps_allow(seed: int) -> None:
    desk = Desk(Limit("each", "tenant", "*", 3), Limit("refunds", "job_type", "refund", 2))
    workers = [ScriptedWorker(desk, f"w{n}/b1", slots=4) for n in range(3)]
    chance = random.Random(seed)
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
    living = worker.leases()
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
            worker.decline(lease)
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
    desk.driver.abort("dispatcher", times=3)
    ScriptedWorker(desk, slots=3).heartbeat()
    assert sum(looked_up) == 0, "each change is reversed by itself"
    assert len(desk.leases()) == 3


def test_an_aborted_transaction_gives_back_the_credits_of_its_leases(desk: Desk) -> None:
    worker = ScriptedWorker(desk, slots=3)
    with desk.held_back():
        worker.heartbeat()
        for number in range(5):
            desk.event(f"t{number}")
        desk.abort()
        desk.abort()
    assert len(desk.leases()) == 3
    worker.end(desk.leases()[0], "succeeded", free=1)
    assert len(desk.leases()) == 4


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
    types = {"render": JobType("render", pool="gpu")}
    desk.deploy(pools=("default", "gpu"), job_types=types)
    desk.driver.advance(0.2)
    drafts = ScriptedWorker(desk, slots=1_000)
    renders = ScriptedWorker(desk, "w2/b1", types=("render",), pool="gpu")
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


def test_what_was_purged_is_so_again_after_an_abort() -> None:
    fresh = Desk()
    fresh.driver.restart("dispatcher")
    fresh.cancel("job_gone")
    fresh.driver._clock.ms += fresh.topology.finished_jobs_ms
    fresh.abort()
    fresh.driver.advance(0.2)
    assert list(fresh.driver.store("dispatcher", "parts").range(b"q", b"r")) == []


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
