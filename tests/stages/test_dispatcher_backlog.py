"""What the dispatcher publishes of its waiting jobs, near a cap of `max_queued`."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from support.dispatching import Desk, ScriptedWorker

from streams.limits.backlog import Backlog, Depth, Line, QueueCaps
from streams.serde.codec import BACKLOG, JOB
from streams.topology.limits import Limit, MaxQueued

ACME, DRAFTS, ALL = Line("tenant", "acme"), Line("job_type", "draft_reply"), Line("global", "")
TOPIC = "jobs.backlog"


@pytest.fixture
def desk() -> Desk:
    return capped(MaxQueued("tenant", 4))


def capped(*declared: MaxQueued) -> Desk:
    desk = Desk()
    desk.deploy(max_queued=declared)
    desk.driver.advance(0.5)
    return desk


def known(desk: Desk) -> Backlog:
    """What whoever takes in events knows."""
    found = Backlog(QueueCaps(desk.topology.max_queued))
    for record in desk.driver.output(TOPIC):
        report = None if record.value is None else BACKLOG.decode(record.value)
        assert record.key == b"0"
        found.hear(0, report)
    return found


def waiting(desk: Desk, *keys: str, tenant: str = "acme") -> list[str]:
    found = [desk.event(key, tenant) for key in keys]
    desk.driver.advance(0.3)
    return found


def test_a_full_tenant_is_published_and_is_open_again_once_its_jobs_run(desk: Desk) -> None:
    waiting(desk, "t1")
    assert desk.driver.output(TOPIC) == []
    waiting(desk, "t2", "t3", "t4")
    waiting(desk, "t1", tenant="bolt")
    assert known(desk).full("acme", "draft_reply") == Depth(ACME, 4, 4)
    assert known(desk).full("bolt", "draft_reply") is None
    ScriptedWorker(desk, slots=1).heartbeat()
    desk.driver.advance(0.3)
    assert known(desk).full("acme", "draft_reply") is None
    assert known(desk).known() == [Depth(ACME, 3, 4)]


def test_the_record_goes_when_nothing_is_near_a_cap_any_more(desk: Desk) -> None:
    waiting(desk, "t1", "t2", "t3")
    assert known(desk).known() == [Depth(ACME, 3, 4)]
    ScriptedWorker(desk, slots=10).heartbeat()
    desk.driver.advance(2)
    assert desk.driver.output(TOPIC)[-1].value is None
    assert desk.driver.run_of("dispatcher").tasks[0].stores["parts"].get(b"V") is None
    written = len(desk.driver.output(TOPIC))
    desk.driver.advance(20)
    assert len(desk.driver.output(TOPIC)) == written


def test_jobs_that_wait_for_their_time_do_not_count_but_those_set_aside_do() -> None:
    desk = Desk(Limit("one", "key", concurrency=1, by="event.source"))
    caps = MaxQueued("tenant", 4), MaxQueued("job_type", 8), MaxQueued("global", 8)
    desk.deploy(max_queued=caps)
    desk.driver.advance(0.5)
    for number in range(5):
        desk.submit(f"job_{number}", run_at=desk.driver.now + 3_600_000)
    desk.driver.advance(0.3)
    assert desk.driver.output(TOPIC) == []
    ScriptedWorker(desk, slots=10).heartbeat()
    waiting(desk, "t1", "t2", "t3")
    assert len(desk.leases()) == 1
    assert known(desk).known() == [Depth(ACME, 2, 4), Depth(ALL, 2, 8), Depth(DRAFTS, 2, 8)]


def test_every_job_is_made_however_many_wait(desk: Desk) -> None:
    ids = waiting(desk, *(f"t{number}" for number in range(20)))
    assert {desk.job(job_id).status for job_id in ids} == {"pending"}
    assert known(desk).known() == [Depth(ACME, 20, 4)]
    desk.submit("job_more")
    desk.driver.advance(0.3)
    assert desk.job("job_more").status == "pending"


def test_a_new_owner_corrects_what_the_dead_one_published(desk: Desk) -> None:
    waiting(desk, *"1234")
    written = len(desk.driver.output(TOPIC))
    desk.driver.restart("dispatcher")
    desk.driver.advance(5)
    assert len(desk.driver.output(TOPIC)) == written, "it still holds"
    desk.driver.run_of("dispatcher").pace.due = desk.driver.now + 10_000  # it stands still
    desk.driver.restart("dispatcher")
    ScriptedWorker(desk, slots=10).heartbeat()
    desk.driver.advance(20)
    assert known(desk).known() == []


def test_caps_that_are_not_declared_any_more_leave_no_record(desk: Desk) -> None:
    waiting(desk, *"1234")
    desk.deploy(max_queued=())
    desk.driver.advance(2)
    assert desk.driver.output(TOPIC)[-1].value is None
    waiting(desk, *"56789")
    assert desk.driver.output(TOPIC)[-1].value is None


def test_what_an_aborted_step_published_is_published_again(desk: Desk) -> None:
    with desk.held_back():
        for key in "1234":
            desk.event(key)
        desk.driver.run_of("dispatcher").pace.due = desk.driver.now
        desk.abort()
        assert desk.driver.output(TOPIC) == []
    desk.driver.advance(0.3)
    assert known(desk).full("acme", "draft_reply") == Depth(ACME, 4, 4)


def test_a_flood_is_published_ten_times_a_second_at_most() -> None:
    desk = capped(MaxQueued("tenant", 1_000), MaxQueued("global", 1_000))
    for number in range(1_000):
        desk.event(f"t{number}")
        if number % 20 == 19:
            desk.driver.advance(0.05)
    assert 10 <= len(desk.driver.output(TOPIC)) <= 27
    desk.driver.advance(1.2)
    assert known(desk).full("acme", "x") == Depth(ACME, 1_000, 1_000)


def test_jobs_are_made_and_run_while_the_topic_is_missing(desk: Desk) -> None:
    with desk.without_topic(TOPIC):
        ids = waiting(desk, *"1234")
        ScriptedWorker(desk, slots=1).heartbeat()
        desk.driver.advance(2)
        assert sorted(desk.job(job_id).status for job_id in ids) == [*["pending"] * 3, "running"]
        assert desk.dead_letters() == []
    desk.driver.advance(2)
    assert known(desk).known() == [Depth(ACME, 3, 4)]


@pytest.mark.parametrize("seed", range(8))
def test_at_rest_what_is_published_is_what_waits(seed: int) -> None:
    """Whatever came, began, ended, was taken back or moved to another owner before."""
    random = Random(seed)
    desk = capped(MaxQueued("tenant", 6), MaxQueued("job_type", 8, "d*"), MaxQueued("global", 12))
    worker = ScriptedWorker(desk, slots=2)
    for number in range(60):
        match random.randrange(8):
            case 0 | 1 | 2 | 3:
                type_ = random.choice(("ticket.created", "ticket.refund"))
                desk.event(f"t{number}", random.choice(("acme", "bolt")), type_=type_)
            case 4 | 5:
                worker.heartbeat(free=random.randrange(3))
            case 6:
                running = [e for e in desk.leases() if desk.job(e.job_id).epoch == e.epoch]
                for lease in running[:1]:
                    worker.end(lease, random.choice(("succeeded", "retry")), free=1)
            case _:
                random.choice((desk.abort, lambda: desk.driver.restart("dispatcher")))()
        desk.driver.advance(random.choice((0.0, 0.05, 0.3)))
    desk.driver.advance(2)
    newest = {record.key: JOB.decode(record.value) for record in desk.driver.output("jobs")}
    waits = [job for job in newest.values() if job.status == "pending"]
    expected = Counter({ALL: len(waits), DRAFTS: sum(j.type == "draft_reply" for j in waits)})
    expected += Counter(Line("tenant", j.tenant_id) for j in waits)
    found = {each.line: each.jobs for each in known(desk).known()}
    near = {line: n for line, n in expected.items() if n >= (3 if line.scope == "tenant" else 1)}
    assert found == near
