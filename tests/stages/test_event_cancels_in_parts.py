"""Cancel by event: an event that concerns more jobs than one step ends, and faults meanwhile."""

from __future__ import annotations

from typing import cast

import pytest
from support.derived import derived, processor, rebuilt
from support.dispatching import Desk, ScriptedWorker
from support.event_cancels import (
    TYPES,
    cancelled,
    cancelling,
    event,
    flood,
    kept,
    statuses,
)

from streams.dispatcher.parts import event_cancels
from streams.runtime.memory_broker import CrashPoint
from streams.runtime.task import Task
from streams.serde.codec import JOB
from streams.serde.ids import event_job_id


@pytest.fixture
def desk() -> Desk:
    return cancelling()


@pytest.fixture
def worker(desk: Desk) -> ScriptedWorker:
    return ScriptedWorker(desk, types=TYPES)


def test_an_event_that_concerns_many_jobs_ends_them_in_parts(desk: Desk) -> None:
    flood(desk)
    event(desk, "s1", "ticket.solved")
    parts = [cancelled(desk)]
    desk.driver.advance(0.1)
    parts.append(cancelled(desk))
    with desk.held_back():
        later = [event(desk, f"l{number}") for number in range(30)]
    desk.driver.advance(0.1)
    parts.append(cancelled(desk))
    assert parts == [200, 400, 450]
    assert set(statuses(desk, *later)) == {"pending"}
    assert [key for key in kept(desk) if key.startswith(b"C")] == []
    assert len(kept(desk)) == 60


def test_no_job_of_the_rest_begins(desk: Desk, worker: ScriptedWorker) -> None:
    ids = flood(desk)
    worker.slots = 1_000
    with desk.held_back():
        worker.heartbeat()
        event(desk, "s1", "ticket.solved")
        later = event(desk, "l1")
    desk.driver.advance(2)
    assert [lease.job_id for lease in desk.leases()] == [later]
    assert set(statuses(desk, *ids)) == {"cancelled"}


def test_many_running_jobs_are_asked_in_parts_each_once(desk: Desk, worker: ScriptedWorker) -> None:
    ids = flood(desk)
    worker.slots = 1_000
    worker.heartbeat()
    assert len(desk.leases()) == 450
    event(desk, "s1", "ticket.solved")
    desk.driver.advance(1)
    asked = [reply.job_id for reply in desk.replies() if reply.kind == "cancel"]
    assert sorted(asked) == sorted(ids)
    assert [key for key in kept(desk) if key.startswith(b"C")] == []


def test_many_events_at_once_share_the_room_of_a_step_and_each_ends_a_few(desk: Desk) -> None:
    with desk.held_back():
        for subject in range(150):
            for number in range(6):
                event(desk, f"e{subject}.{number}", subject=f"t{subject}")
    with desk.held_back():
        for subject in range(150):
            event(desk, f"s{subject}", "ticket.solved", subject=f"t{subject}")
    assert 600 <= cancelled(desk) <= 700
    desk.driver.advance(1)
    assert (cancelled(desk), kept(desk)) == (900, [])


@pytest.mark.parametrize("point", ["before_commit", "after_commit", "after_write"])
def test_a_crash_while_the_event_is_read_loses_and_repeats_nothing(
    desk: Desk, point: CrashPoint
) -> None:
    ids = flood(desk)
    desk.driver.crash("dispatcher", point)
    event(desk, "s1", "ticket.solved")
    later = event(desk, "l1")
    desk.driver.advance(2)
    assert set(statuses(desk, *ids)) == {"cancelled"}
    assert statuses(desk, later) == ["pending"]
    assert len(kept(desk)) == 2


@pytest.mark.parametrize("point", ["before_commit", "after_commit", "after_write"])
@pytest.mark.parametrize("keeps", [True, False])
def test_a_crash_between_two_parts_goes_on(desk: Desk, point: CrashPoint, keeps: bool) -> None:
    ids = flood(desk)
    event(desk, "s1", "ticket.solved")
    later = event(desk, "l1")
    desk.driver.crash("dispatcher", point)
    desk.driver.advance(0.1)
    desk.driver.restart("dispatcher", keep_state=keeps)
    desk.driver.advance(2)
    assert set(statuses(desk, *ids)) == {"cancelled"}
    assert statuses(desk, later) == ["pending"]
    ends = [JOB.decode(r.value) for r in desk.driver.output("jobs") if r.value]
    assert sum(job.status == "cancelled" for job in ends) == len(ids), "each once"
    assert len(kept(desk)) == 2


def test_an_undone_step_leaves_nothing_behind(desk: Desk) -> None:
    flood(desk)
    flow, desk.driver._flow = desk.driver._flow, lambda: None  # type: ignore[method-assign]
    event(desk, "s1", "ticket.solved")
    task = cast(Task, desk.driver.run_of("dispatcher").tasks[0])
    before = derived(processor(task))
    desk.abort()
    assert derived(processor(task)) == before == rebuilt(task)
    desk.driver._flow = flow  # type: ignore[method-assign]
    desk.driver._flow()
    for _ in range(4):
        desk.abort()
        assert derived(processor(task)) == rebuilt(task)
        desk.driver.advance(0.1)
    assert (cancelled(desk), kept(desk)) == (450, [])


@pytest.fixture
def running(desk: Desk, worker: ScriptedWorker) -> list[str]:
    """More running jobs of one subject than a step looks at, in the order in which it does."""
    ids = flood(desk)
    worker.slots = 1_000
    worker.heartbeat()
    assert len(desk.leases()) == len(ids)
    return sorted(ids)


def test_a_run_of_the_rest_is_stopped_when_it_speaks(
    desk: Desk, worker: ScriptedWorker, running: list[str]
) -> None:
    """The event was read first, although no step has come to these jobs yet."""
    succeeds, fails, claims = (desk.lease(job_id) for job_id in running[-3:])
    with desk.held_back():
        event(desk, "s1", "ticket.solved")
        worker.end(succeeds, "succeeded", free=0)
        worker.end(fails, "failed", error="PermanentError: x", free=0)
    assert statuses(desk, *running[-3:]) == ["cancelled", "cancelled", "running"]
    assert worker.claim(claims).kind == "cancel"
    assert desk.dead_letters() == []


def test_a_job_of_the_rest_whose_worker_is_gone_is_cancelled(
    desk: Desk, worker: ScriptedWorker, running: list[str]
) -> None:
    with desk.held_back():
        event(desk, "s1", "ticket.solved")
        worker.decline(desk.lease(running[-1]))
        ScriptedWorker(desk, "w1/b2").heartbeat()
    desk.driver.advance(2)
    assert set(statuses(desk, *running)) == {"cancelled"}


def test_a_job_of_the_rest_is_cancelled_although_its_type_has_had_no_worker_for_long(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it were dead for want of a worker, it would go on when one comes."""
    monkeypatch.setattr(event_cancels, "AT_ONCE", 1)
    desk.deploy(unhandled_ms=60_000)
    flood(desk)
    for _ in range(11):
        desk.driver.advance(10)
    event(desk, "s1", "ticket.solved")
    for _ in range(5):
        desk.driver.advance(10)
    assert (cancelled(desk), desk.dead_letters()) == (450, [])


def test_unfinished_cancels_of_one_subject_are_one(desk: Desk) -> None:
    """Otherwise each goes over all jobs that the others have left."""
    flood(desk)
    with desk.held_back():
        updated = [event(desk, f"u{number}", "ticket.updated") for number in range(60)]
    assert len([key for key in kept(desk) if key.startswith(b"C")]) == 1
    desk.driver.advance(0.3)
    assert cancelled(desk) == 450 + 59
    assert statuses(desk, updated[-1]) == ["pending"]
    assert len(kept(desk)) == 2


def test_the_last_job_is_reached_although_more_events_come(desk: Desk, running: list[str]) -> None:
    """A job that was asked to stop stays among those that each event looks at, until it ends."""
    for number in range(3):
        event(desk, f"s{number}", "ticket.solved")
        desk.driver.advance(0.1)
    asked = {reply.job_id for reply in desk.replies() if reply.kind == "cancel"}
    assert asked == set(running)


def test_an_event_that_spares_its_own_job_leaves_the_earlier_cancel_in_place(desk: Desk) -> None:
    flood(desk)
    names = (f"own{number}" for number in range(1_000))
    key = next(name for name in names if event_job_id("acme", "zendesk", name) > "job_v")
    own = event(desk, key, "ticket.updated")
    with desk.held_back():
        event(desk, "s1", "ticket.solved")
        event(desk, key, "ticket.updated", at=desk.driver.now + desk.topology.window_ms)
    desk.driver.advance(1)
    assert statuses(desk, own) == ["cancelled"]
