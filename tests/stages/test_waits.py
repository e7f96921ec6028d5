"""Waits: each race between an event, a park, a timer and a cancel has one exact answer."""

from __future__ import annotations

import dataclasses
import json

import pytest
from support.waiter import HOUR, Waiter, event_wait, sleep, subject_of

from streams.dispatcher.part import AT_ONCE
from streams.serde.records import Listen, Wait, WaitOver


def test_a_parked_job_gives_its_slot_back_and_goes_on_with_the_event() -> None:
    at = Waiter()
    lease = at.job()
    at.park(lease, event_wait(timeout_ms=HOUR * 1000))
    job = at.desk.job(lease.job_id)
    assert (job.status, job.worker_id, job.attempts, len(job.waits)) == ("waiting", None, 0, 1)
    at.reply("t2")
    assert at.status(lease) == "waiting"
    at.reply("t1")
    again = at.go_on(lease.job_id)
    assert (again.attempt, again.epoch) == (1, lease.epoch + 1)
    assert subject_of(again.steps[0]) == "t1"
    assert (at.desk.job(lease.job_id).resumes, at.index(), at.timers()) == (1, [], 0)


def test_an_event_that_came_before_the_park_is_found() -> None:
    at = Waiter()
    lease = at.job()
    at.reply("t1")
    at.park(lease, event_wait())
    assert subject_of(at.left(lease)["answer"]) == "t1"


@pytest.mark.parametrize(("declared", "says"), [(False, "waits_for"), (True, "kept since")])
def test_a_wait_that_reaches_back_too_far_is_refused(declared: bool, says: str) -> None:
    at = Waiter(declared=declared)
    lease = at.job()
    if declared:
        at.worker.stay(HOUR + 60, lease)
    at.park(lease, event_wait())
    refused = at.left(lease)["answer"]
    assert (refused.raises, says in refused.message) == ("WaitRefused", True), refused.message


def test_from_now_on_nothing_needs_to_be_declared() -> None:
    at = Waiter(declared=False)
    lease = at.job()
    at.reply("t1")
    at.park(lease, event_wait(since="now"))
    assert at.status(lease) == "waiting"
    at.reply("t1", type_="reply.again")
    assert "answer" in at.left(lease)


def test_the_time_of_a_wait_ends_it_with_an_error_and_that_of_a_sleep_without() -> None:
    at = Waiter()
    one, two = at.job("a"), at.job("b")
    at.park(one, event_wait(timeout_ms=60_000))
    at.park(two, sleep(60))
    at.worker.stay(59)
    assert {at.status(one), at.status(two)} == {"waiting"}
    at.worker.stay(2)
    assert at.left(one)["answer"].raises == "WaitTimeout"
    assert (at.left(two)["sleep"].raises, at.left(two)["sleep"].value) == (None, "null")
    assert at.index() == []


def test_the_first_of_a_group_drops_the_others_with_their_timers() -> None:
    at = Waiter()
    lease = at.job()
    at.park(lease, event_wait("t1", "a"), event_wait("t2", "b"), sleep(60, "c"))
    assert (len(at.index()), at.timers()) == (2, 1)
    at.reply("t2")
    assert (at.index(), at.timers()) == ([], 0)
    at.reply("t1")
    at.worker.stay(90)
    assert [id_ for id_ in at.left(lease) if not id_.endswith("!")] == ["b"]


def test_a_group_that_needs_all_ends_with_its_last_wait() -> None:
    at = Waiter()
    lease = at.job()
    waits = [event_wait(f"t{n}", f"w{n}", needs_all=True) for n in range(3)]
    at.reply("t2")
    at.park(lease, *waits)
    at.reply("t0")
    assert at.status(lease) == "waiting"
    at.reply("t1")
    assert sorted(at.left(lease)) == ["w0", "w1", "w2"]


def test_a_group_whose_waits_all_ended_before_the_park_goes_on_at_once() -> None:
    at = Waiter()
    lease = at.job()
    waits = [event_wait(f"t{n}", f"w{n}", needs_all=True) for n in range(2)]
    for wait in waits:
        at.desk.command(Listen(wait.id, lease.run_id, wait), lease.job_id, 1)
    assert [reply.kind for reply in at.desk.replies()] == ["listening"] * 2
    at.reply("t0")
    at.reply("t1")
    assert at.status(lease) == "running"
    at.park(lease, *waits)
    assert sorted(at.left(lease)) == ["w0", "w1"]


def test_each_group_that_was_over_before_the_park_drops_its_other_waits() -> None:
    at = Waiter()
    lease = at.job()
    firsts = [event_wait(f"t{n}", f"w{n}", group=n, since="now") for n in range(2)]
    for wait in firsts:
        body = Listen(wait.id, lease.run_id, wait)
        at.desk.command(body, lease.job_id, lease.epoch)
    at.reply("t0")
    at.reply("t1")
    others = [event_wait("t9", f"o{n}", group=n) for n in range(2)]
    at.park(lease, *firsts, *others)
    assert (at.index(), at.desk.job(lease.job_id).waits) == ([], ())


def test_an_independent_group_stays_open_while_another_goes_on() -> None:
    at = Waiter()
    lease = at.job()
    at.park(lease, event_wait("t1", "a", group=0), event_wait("t2", "b", group=1))
    at.reply("t1")
    second = at.go_on(lease.job_id)
    at.reply("t2")
    assert at.status(lease) == "running"
    at.park(second, event_wait("t2", "b", group=0))
    assert subject_of(at.left(lease)["b"]) == "t2"


def test_what_no_task_awaits_any_more_is_dropped_at_the_next_park() -> None:
    at = Waiter()
    lease, other = at.job("a"), at.job("b")
    answer = event_wait(takes_it_alone=True, timeout_ms=60_000)
    at.park(lease, sleep(5, "nap"), dataclasses.replace(answer, group=1))
    at.desk.driver.advance(6)
    at.park(at.go_on(lease.job_id), sleep(HOUR, "nap#2"))
    at.park(other, answer)
    at.reply("t1")
    assert (at.status(lease), at.status(other) == "waiting") == ("waiting", False)
    assert (at.index(), at.timers()) == ([], 1)


def test_what_a_run_has_begun_to_listen_to_stays_open_though_an_earlier_run_awaited_it() -> None:
    at = Waiter()
    lease, answer = at.job(), event_wait(group=1)
    at.park(lease, sleep(5, "nap"), answer)
    at.desk.driver.advance(6)
    again = at.go_on(lease.job_id)
    body = Listen("clm_1", again.run_id, answer)
    at.desk.command(body, again.job_id, again.epoch)
    at.park(again, sleep(HOUR, "nap#2"))
    assert len(at.index()) == 1


def test_a_wait_that_a_run_listens_to_again_still_drops_what_comes_after_it() -> None:
    at = Waiter()
    lease, listened = at.job("a"), event_wait("t1", "begun", since="now")
    at.listen(lease, listened)
    later = event_wait("t2", "later", takes_it_alone=True)
    at.park(lease, listened, later, sleep(5, "nap", group=1))
    other = at.job("b")
    at.park(other, event_wait("t2", takes_it_alone=True))
    at.desk.driver.advance(6)
    at.listen(at.go_on(lease.job_id), listened)
    at.reply("t1")
    at.reply("t2")
    assert at.status(other) != "waiting"


def test_an_event_that_came_after_the_park_counts_however_late_that_is_read() -> None:
    at = Waiter(declared=False)
    lease, parked_at = at.job(), at.desk.driver.now
    at.desk.driver.advance(10)  # the stage was away
    body = dataclasses.replace(at.ended(lease), waits=(event_wait(since="now"),))
    at.desk.command(body, lease.job_id, lease.epoch, at=parked_at)
    at.reply("t1", at=parked_at + 5_000)
    assert "answer" in at.left(lease)


@pytest.mark.parametrize("apart", [-500, 0, 5_000])
def test_an_event_that_came_after_the_park_counts_also_if_it_is_read_before_it(apart: int) -> None:
    at = Waiter()
    lease, parked_at = at.job(), at.desk.driver.now
    at.desk.driver.advance(10)  # the stage was away
    at.reply("t1", at=parked_at + apart)
    body = dataclasses.replace(at.ended(lease), waits=(event_wait(since="now"),))
    at.desk.command(body, lease.job_id, lease.epoch, at=parked_at)
    assert (at.status(lease) == "waiting") is (apart <= 0)


def test_of_a_type_that_is_not_kept_only_what_is_read_after_the_park_counts_from_now_on() -> None:
    at = Waiter(declared=False)
    lease, parked_at = at.job(), at.desk.driver.now
    at.desk.driver.advance(10)  # the stage was away
    at.reply("t1", at=parked_at + 5_000)
    body = dataclasses.replace(at.ended(lease), waits=(event_wait(since="now"),))
    at.desk.command(body, lease.job_id, lease.epoch, at=parked_at)
    assert at.status(lease) == "waiting", "docs/waits.md says so"


def test_an_event_that_a_wait_from_now_on_has_got_ends_no_later_one() -> None:
    at = Waiter()
    lease, parked_at = at.job(), at.desk.driver.now
    at.park(lease, event_wait(since="now"))
    at.reply("t1", at=parked_at + 5_000)
    again = at.go_on(lease.job_id)
    at.park(again, event_wait(id_="answer#2", since="now"))
    assert at.status(lease) == "waiting"


def test_a_park_of_a_run_that_is_over_changes_nothing() -> None:
    at = Waiter()
    first = at.job()
    at.worker.end(first, "retry", after=0)
    second = at.go_on(first.job_id)
    assert second.epoch == first.epoch + 1
    at.park(first, event_wait())
    assert (at.status(first), at.index()) == ("running", [])


def test_a_listened_event_is_kept_for_a_later_run() -> None:
    at = Waiter()
    lease = at.job()
    body = Listen("clm_1", lease.run_id, event_wait(since="now"))
    at.desk.command(body, lease.job_id, lease.epoch)
    at.desk.command(body, lease.job_id, lease.epoch)  # asked again, because the answer was late
    assert len(at.index()) == 1
    at.reply("t1")
    at.worker.end(lease, "retry", after=0)
    assert subject_of(at.left(lease)["answer"]) == "t1"


def test_a_run_that_is_over_does_not_listen() -> None:
    at = Waiter()
    lease = at.job()
    at.worker.end(lease, "retry", after=0)
    body = Listen("clm_1", lease.run_id, event_wait())
    at.desk.command(body, lease.job_id, lease.epoch)
    assert ([reply.kind for reply in at.desk.replies()], at.index()) == (["lost"], [])


@pytest.mark.parametrize("ends", ["cancel", "fail"])
def test_a_job_that_ends_leaves_no_wait(ends: str) -> None:
    at = Waiter()
    lease = at.job()
    at.park(lease, sleep(5, "nap"), event_wait(timeout_ms=99_000, group=1))
    if ends == "cancel":
        at.desk.cancel(lease.job_id)
    else:
        at.desk.driver.advance(6)
        at.worker.end(at.go_on(lease.job_id), "failed", error="no")
    assert (at.status(lease), at.index(), at.timers(), at.desk.job(lease.job_id).waits) == (
        "cancelled" if ends == "cancel" else "failed",
        [],
        0,
        (),
    )
    at.reply("t1")
    assert at.status(lease) != "pending"


def test_an_event_that_waits_take_alone_goes_to_the_first() -> None:
    at = Waiter()
    one, two = at.job("a"), at.job("b")
    for lease in (one, two):
        at.park(lease, event_wait(takes_it_alone=True))
    third = at.job("c")
    at.reply("t1")
    assert [at.status(one), at.status(two)] != ["waiting", "waiting"]
    assert at.status(two) == "waiting"
    at.park(third, event_wait(takes_it_alone=True))
    assert at.status(third) == "waiting", "the event before was taken"
    at.reply("t1", type_="reply.again")
    assert (at.status(two), at.status(third)) != ("waiting", "waiting")
    assert at.status(third) == "waiting"


def test_a_wait_in_a_loop_begins_behind_the_event_that_the_last_one_took() -> None:
    at = Waiter()
    lease = at.job()
    at.reply("t1", type_="reply.one")
    at.reply("t1", type_="reply.two")
    at.park(lease, event_wait(id_="answer"))
    first = json.loads(at.left(lease)["answer"].value or "")
    behind = {"behind": first["number"], "since": str(first["at"])}
    more = {"after_event": first["event"]["event_id"], **behind}
    at.park(at.desk.lease(lease.job_id), event_wait(id_="answer#2", **more))
    second = json.loads(at.left(lease)["answer#2"].value or "")
    assert [found["event"]["event_type"] for found in (first, second)] == ["reply.one", "reply.two"]


@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("end", ["succeeded", "failed"])
def test_the_end_of_another_job_is_waited_for(order: str, end: str) -> None:
    at = Waiter()
    waits, other = at.job("a"), at.job("b")
    wait = Wait("other", "job", 0, b"j", group=0, job_id=other.job_id)
    if order == "after":
        at.park(waits, wait)
    at.worker.end(other, end, result='{"n": 1}', error="no")
    if order == "before":
        at.park(waits, wait)
    found = at.left(waits)["other"]
    if end == "succeeded":
        assert (found.value, found.raises) == ('{"n": 1}', None)
    else:
        assert (found.raises, other.job_id in found.message) == ("JobFailed", True)
    assert at.index() == []


def test_the_end_of_a_job_that_is_not_told_to_all_yet_came_before_a_later_timeout() -> None:
    at = Waiter()
    *leases, other = at.jobs(AT_ONCE + 50)
    with at.desk.held_back():
        for lease in leases:
            at.park(
                lease, Wait("w", "job", 0, b"j", group=0, job_id=other.job_id, timeout_ms=5_000)
            )
    at.worker.stay(4, other)
    at.worker.end(other, "succeeded", result='{"n": 1}')
    late = next(lease for lease in leases if at.status(lease) == "waiting")
    at.desk.command(WaitOver(1, at.desk.job(late.job_id).waits[0].until or 0), late.job_id)
    assert at.left(late)["w"].value == '{"n": 1}'


def test_an_unknown_job_or_one_of_another_tenant_is_not_waited_for() -> None:
    at = Waiter()
    lease = at.job()
    at.desk.submit("job_theirs")
    foreign = at.go_on(at.desk.event("x", tenant="globex"))
    for job_id in ("job_none", foreign.job_id):
        at.park(
            at.desk.lease(lease.job_id),
            Wait(f"w-{job_id}", "job", 0, b"", group=0, job_id=job_id),
        )
        assert at.left(lease)[f"w-{job_id}"].raises == "WaitRefused"


def test_a_wait_beyond_the_retention_of_the_body_is_refused() -> None:
    at = Waiter()
    lease = at.job()
    at.park(lease, sleep(40 * 24 * HOUR))
    refused = at.left(lease)["sleep"]
    assert (refused.raises, "body is kept only until" in refused.message) == ("WaitRefused", True)


def test_another_wait_under_an_open_name_is_refused() -> None:
    at = Waiter()
    lease = at.job()
    at.park(lease, event_wait(group=0), sleep(5, "nap", group=1))
    at.desk.driver.advance(6)
    at.park(at.go_on(lease.job_id), dataclasses.replace(event_wait("t9"), digest=b"other"))
    assert at.left(lease)["answer"].raises == "WaitRefused"


@pytest.mark.parametrize("abort", [False, True])
def test_an_event_that_many_jobs_wait_for_reaches_each_in_bounded_steps(abort: bool) -> None:
    at, count = Waiter(), 2 * AT_ONCE + 50
    leases = at.jobs(count)
    for lease in leases:
        at.park(lease, event_wait())
    late = at.job("late")
    at.reply("t1")
    assert sum(at.status(lease) == "waiting" for lease in leases) == count - AT_ONCE
    at.park(late, event_wait(since="now"))
    if abort:
        at.desk.abort()
    at.desk.driver.restart("dispatcher", keep_state=True)
    at.desk.driver.advance(2)
    assert sum(at.status(lease) == "waiting" for lease in leases) == 0
    assert at.status(late) == "waiting", "it began behind the event"
    assert len(at.index()) == 1


def test_the_offset_decides_between_an_event_and_the_end_of_a_wait() -> None:
    for first in ("event", "end"):
        at = Waiter()
        lease = at.job()
        at.park(lease, event_wait(timeout_ms=60_000))
        at.worker.stay(59)
        with at.desk.held_back():
            if first == "event":
                at.reply("t1")
            at.desk.driver.advance(2)
        if first == "end":
            at.desk.driver.advance(1)
            at.reply("t1")
        assert at.left(lease)["answer"].raises == (None if first == "event" else "WaitTimeout")


def test_waits_survive_a_restart_with_and_without_the_disk() -> None:
    for keep in (True, False):
        at = Waiter()
        lease = at.job()
        at.park(lease, event_wait(timeout_ms=HOUR * 1000))
        at.desk.driver.restart("dispatcher", keep_state=keep)
        at.desk.driver.advance(1)
        at.reply("t1")
        assert subject_of(at.left(lease)["answer"]) == "t1"


@pytest.mark.parametrize("declared", [True, False])
def test_recent_events_are_forgotten(declared: bool) -> None:
    at = Waiter()
    for n in range(3):
        at.reply(f"t{n}")
    store = at.desk.driver.store("dispatcher", "parts")
    assert sum(1 for _ in store.range(b"d", b"e")) == 3
    if not declared:
        at.desk.deploy(job_types={})
        store = at.desk.driver.store("dispatcher", "parts")
    at.desk.driver.advance(HOUR + 5)
    assert [key for key, _ in store.range(b"d", b"g")] == []


def test_a_lost_timer_is_found_by_the_sweep() -> None:
    at = Waiter()
    lease = at.job()
    at.park(lease, sleep(30))
    at.desk.driver.run_of("scheduler").pace.due = float("inf")  # it keeps the timer
    at.worker.stay(700)
    assert "sleep" in at.left(lease)


def test_events_that_are_read_again_wake_no_later_wait() -> None:
    at = Waiter()
    lease = at.job()
    at.reply("t1", type_="reply.one")
    at.park(lease, event_wait())
    first = json.loads(at.left(lease)["answer"].value or "")
    at.desk.driver.advance(5)
    behind = {"behind": first["number"], "since": str(first["at"])}
    at.park(
        at.desk.lease(lease.job_id),
        event_wait(id_="answer#2", after_event=first["event"]["event_id"], **behind),
        event_wait(id_="now", since="now"),
    )
    for record in at.desk.driver.output("events"):
        at.desk.driver.pipe("events", record.key, record.value, timestamp=record.timestamp)
    assert at.status(lease) == "waiting"
