"""Schedules on the dispatcher: when jobs are made, and that each time makes one."""

from __future__ import annotations

import re
from typing import get_args

import pytest
from support.counted_work import instructions
from support.scheduling import DAY, HOUR, MINUTE, Clockwork, clock, moment, spec

from streams import dispatcher, scheduler
from streams.runtime.driver import START_MS, TopologyTestDriver
from streams.runtime.memory_broker import CrashPoint
from streams.schedules import definition, time_zones
from streams.serde.ids import scheduled_job_id
from streams.serde.job_states import CANCELLED, PENDING, RUNNING, SUCCEEDED
from streams.serde.records import DeleteSchedule, SetSchedule


@pytest.fixture
def works() -> Clockwork:
    return Clockwork()


def test_each_time_makes_one_job_and_none_is_early(works: Clockwork) -> None:
    works.schedule(every_seconds=60)
    works.driver.advance(19.7)
    assert works.times() == []
    works.driver.advance(0.3)
    assert works.times() == ["06-15 15:07:00"]
    works.driver.advance(2 * MINUTE)
    assert works.times() == ["06-15 15:07:00", "06-15 15:08:00", "06-15 15:09:00"]
    (first, *_) = works.made()
    assert first.job_id == scheduled_job_id("acme", "s", 1, str(first.scheduled_for))
    assert (first.type, first.input, first.status) == ("draft_reply", '{"n":1}', PENDING)
    assert first.created_at >= (first.scheduled_for or 0)
    assert first.created_at - (first.scheduled_for or 0) <= 250


def test_a_cron_expression_follows_the_clock_of_its_zone(works: Clockwork) -> None:
    works.schedule(cron="30 19 * * *", tz="Europe/Berlin")
    assert works.row().tzdata == time_zones.version()
    works.driver.advance(2 * DAY)
    assert works.times() == ["06-15 17:30:00", "06-16 17:30:00"]


def test_a_one_shot_fires_once_and_is_forgotten_after_a_while(works: Clockwork) -> None:
    works.schedule(at=START_MS + 60_000)
    works.driver.advance(5 * MINUTE)
    assert len(works.made()) == 1
    assert works.row().due_at is None
    works.suspend(works.topology.finished_jobs_ms / 1000)
    assert works.rows() == {}


def test_a_change_begins_a_new_generation_and_former_times_are_dead(works: Clockwork) -> None:
    works.schedule(every_seconds=60)
    works.driver.advance(30)
    works.schedule(every_seconds=HOUR)
    works.driver.advance(30 * MINUTE)
    assert works.times() == ["06-15 15:07:00"]
    assert works.row().generation == 2
    works.schedule(every_seconds=HOUR)
    assert works.row().generation == 2
    works.driver.advance(30 * MINUTE)
    assert works.times() == ["06-15 15:07:00", "06-15 16:00:00"]


def test_a_deleted_schedule_makes_no_job(works: Clockwork) -> None:
    works.schedule(every_seconds=60)
    works.driver.advance(30)
    works.delete()
    works.driver.advance(5 * MINUTE)
    assert len(works.made()) == 1
    assert works.rows() == {}


def test_one_that_is_deleted_and_made_anew_for_another_zone_has_that_zones_times(
    works: Clockwork,
) -> None:
    works.schedule(cron="30 17 * * *", tz="Europe/Berlin")
    works.driver.advance(HOUR)
    works.delete()
    works.schedule(cron="30 17 * * *", tz="UTC")
    works.driver.advance(2 * HOUR)
    assert works.times() == ["06-15 15:30:00", "06-15 17:30:00"]


def test_one_that_was_made_anew_before_its_time_but_read_after_it_has_one_job(
    works: Clockwork,
) -> None:
    works.schedule(every_seconds=60)
    works.driver.advance(21)
    for body in (DeleteSchedule("s", "ops"), SetSchedule("s", spec(), None, "", "ops")):
        works.command(body, at=START_MS + 10_000)
    works.driver.advance(10)
    assert works.times() == ["06-15 15:07:00"]


def test_what_came_while_it_was_paused_is_not_made_up(works: Clockwork) -> None:
    works.schedule(every_seconds=60, missed="all")
    works.driver.advance(30)
    works.pause(note="the shop is closed")
    works.driver.advance(5 * MINUTE)
    assert len(works.made()) == 1
    row = works.row()
    assert (row.paused, row.note, row.by, row.due_at) == (True, "the shop is closed", "ops", None)
    works.pause(paused=False, note="open")
    works.driver.advance(MINUTE)
    assert works.times() == ["06-15 15:07:00", "06-15 15:13:00"]
    assert works.row().generation == 1


@pytest.mark.parametrize("how", ["paused", "changed"])
@pytest.mark.parametrize("waits", [False, True], ids=["due", "queued"])
def test_one_that_is_stopped_tells_of_the_time_that_makes_no_job(
    works: Clockwork, how: str, waits: bool
) -> None:
    works.schedule(every_seconds=60, overlap="queue_one")
    if waits:
        works.driver.advance(2 * MINUTE)
        assert works.row().queued is not None
    with works.held_back():
        works.driver._clock.ms += 0 if waits else 90_000
        if how == "paused":
            works.pause()
        else:
            works.schedule(every_seconds=HOUR)
    works.driver.advance(MINUTE)
    row = works.row()
    assert clock(row.skipped_at or 0) == "06-15 15:08:00"
    assert row.skipped_because == f"the schedule was {how}"
    assert len(works.made()) == int(waits)


def test_a_paused_one_that_is_set_again_stays_paused(works: Clockwork) -> None:
    works.schedule(paused=True)
    works.schedule(every_seconds=30)
    works.driver.advance(MINUTE)
    assert works.made() == []
    works.schedule(every_seconds=30, paused=False)
    works.driver.advance(MINUTE)
    assert len(works.made()) == 2


def test_78_minutes_of_suspension_make_one_tick(works: Clockwork) -> None:
    """dbos-transact-py#803 made up for all of them at once."""
    works.schedule(every_seconds=60)
    works.suspend(78 * MINUTE)
    assert works.times() == ["06-15 16:24:00"]
    works.driver.advance(MINUTE)
    assert works.times() == ["06-15 16:24:00", "06-15 16:25:00"]


@pytest.mark.parametrize(
    ("missed", "grace", "count"),
    [("latest", 0, 1), ("skip", 60, 1), ("skip", 5, 0), ("all(7)", 0, 7)],
)
def test_what_is_made_up_for_is_the_schedules_choice(
    works: Clockwork, missed: str, grace: float, count: int
) -> None:
    works.schedule(every_seconds=60, missed=missed, grace_seconds=grace)
    works.suspend(78 * MINUTE)
    assert len(works.made()) == count
    if not count:
        assert "missed by" in works.row().skipped_because
    works.driver.advance(MINUTE)
    assert len(works.made()) == count + 1


def test_a_missed_day_is_made_up_for_late(works: Clockwork) -> None:
    works.schedule(cron="0 9 * * *")
    works.suspend(17 * HOUR + 54 * MINUTE + 78 * MINUTE)
    assert works.times() == ["06-16 09:00:00"]
    (job,) = works.made()
    assert job.event_time == job.created_at  # its waits look back no further


def test_a_schedule_that_was_set_while_the_dispatcher_was_away_counts_from_then(
    works: Clockwork,
) -> None:
    works.schedule("other", every_seconds=60)
    works.driver.advance(2 * HOUR)
    body = SetSchedule("s", spec(every_seconds=60), None, "", "ops")
    works.command(body, at=works.driver.now - 600_000)
    works.driver.advance(1)
    assert len(works.made("s")) == 1


def test_a_window_moves_each_time_by_the_same_offset(works: Clockwork) -> None:
    for number in range(20):
        works.schedule(f"s{number}", every_seconds=600, window_seconds=300)
    works.driver.advance(30 * MINUTE)
    first = {works.made(f"s{number}")[0].scheduled_for for number in range(20)}
    assert len(first) > 15
    for number in range(20):
        one, two, *_ = works.made(f"s{number}")
        assert (two.scheduled_for or 0) - (one.scheduled_for or 0) == 600_000


def test_overlap_allow_makes_each_job(works: Clockwork) -> None:
    works.schedule(every_seconds=60)
    works.driver.advance(3 * MINUTE)
    assert [job.status for job in works.made()] == [PENDING] * 3


def test_overlap_skip_makes_none_while_the_last_one_lives(works: Clockwork) -> None:
    works.schedule(every_seconds=60, overlap="skip")
    works.driver.advance(3 * MINUTE)
    (first,) = works.made()
    assert first.job_id in works.row().skipped_because
    works.finish(first)
    works.driver.advance(MINUTE)
    assert len(works.made()) == 2


def test_overlap_queue_one_makes_one_more_as_soon_as_the_last_one_ends(works: Clockwork) -> None:
    works.schedule(every_seconds=60, overlap="queue_one")
    works.driver.advance(4 * MINUTE)
    (first,) = works.made()
    queued = works.row().queued
    assert queued is not None
    assert clock(queued.at) == "06-15 15:08:00"
    works.finish(first)
    assert works.times() == ["06-15 15:07:00", "06-15 15:08:00"]
    assert works.row().queued is None


def test_the_replay_of_a_job_in_review_takes_its_place(works: Clockwork) -> None:
    works.schedule(every_seconds=60, overlap="queue_one")
    works.driver.advance(25)
    works.worker.heartbeat()
    works.driver.advance(0.2)
    (first,) = works.made()
    works.worker.end(works.lease(first.job_id), "review", error="who knows", diverged="step")
    works.driver.advance(MINUTE)
    assert works.row().queued is not None
    works.replay("job_again", first.job_id)
    works.driver.advance(1)
    assert [job.status for job in works.made() if job.job_id != "job_again"] == [CANCELLED]
    works.finish(works.job("job_again"))
    *_, second = works.made()
    assert clock(second.scheduled_for or 0) == "06-15 15:08:00"
    assert works.row().queued is None


def test_overlap_cancel_running_ends_the_last_job_before_the_next_one(works: Clockwork) -> None:
    works.schedule(every_seconds=60, overlap="cancel_running")
    works.driver.advance(25)
    works.worker.heartbeat()
    works.driver.advance(0.2)
    (first,) = works.made()
    assert first.status == RUNNING
    works.worker.stay(MINUTE, works.lease(first.job_id))
    (first,) = works.made()  # its run is asked to stop; the next job waits for that
    assert first.cancel_requested
    assert "schedule s" in (first.cancel_reason or "")
    works.worker.end(works.lease(first.job_id), "cancelled")
    works.driver.advance(0.3)
    first, second = works.made()
    assert (first.status, second.status) == (CANCELLED, RUNNING)


def test_overlap_cancel_running_tells_of_a_time_that_a_later_one_took_the_place_of(
    works: Clockwork,
) -> None:
    works.schedule(every_seconds=60, overlap="cancel_running")
    works.driver.advance(25)
    works.worker.heartbeat()
    works.driver.advance(0.2)
    (first,) = works.made()
    works.worker.stay(MINUTE, works.lease(first.job_id))
    assert works.row().skipped_at is None
    works.worker.stay(MINUTE, works.lease(first.job_id))
    row = works.row()
    assert row.queued is not None
    assert row.skipped_at == row.queued.at - 60_000
    assert row.skipped_because == f"its next time came before job {first.job_id} ended"


def test_overlap_cancel_running_replaces_a_job_that_waits_at_once(works: Clockwork) -> None:
    works.schedule(every_seconds=60, overlap="cancel_running")
    works.driver.advance(3 * MINUTE)
    assert [job.status for job in works.made()] == [CANCELLED, CANCELLED, PENDING]
    assert works.row().queued is None


def test_the_last_queued_time_of_a_schedule_that_is_over_is_made(works: Clockwork) -> None:
    end = START_MS + 2 * 60_000
    works.schedule(every_seconds=60, overlap="queue_one", ends_at=end)
    works.driver.advance(5 * MINUTE)
    (first,) = works.made()
    works.finish(first)
    assert [job.status for job in works.made()] == [SUCCEEDED, RUNNING]


@pytest.mark.parametrize("point", get_args(CrashPoint))
@pytest.mark.parametrize("overlap", ["allow", "queue_one", "cancel_running"])
def test_wherever_the_stage_dies_each_time_makes_one_job(
    works: Clockwork, point: CrashPoint, overlap: str
) -> None:
    works.schedule(every_seconds=60, overlap=overlap)
    for times in (1, 2):
        works.driver.advance(59)
        works.driver.crash("dispatcher", point, times)
        works.driver.advance(1)
    works.driver.advance(MINUTE)
    found = works.times()
    assert found == sorted(set(found))
    if overlap == "queue_one":
        assert found == ["06-15 15:07:00"]
        assert works.row().queued is not None
    else:
        assert found == ["06-15 15:07:00", "06-15 15:08:00", "06-15 15:09:00"]


def test_a_step_that_is_taken_back_makes_its_job_once(works: Clockwork) -> None:
    works.schedule(every_seconds=60)
    works.driver._clock.ms += 30_000
    works.abort()
    assert works.made() == []
    works.driver.advance(0.3)
    assert len(works.made()) == 1


def test_a_partition_that_moves_goes_on(works: Clockwork) -> None:
    works.schedule(every_seconds=60)
    works.driver.advance(30)
    for keep in (False, True):
        works.driver.restart("dispatcher", keep_state=keep)
        works.driver.advance(MINUTE)
    assert works.times() == ["06-15 15:07:00", "06-15 15:08:00", "06-15 15:09:00"]


def test_a_tick_that_is_taken_twice_makes_one_job(works: Clockwork) -> None:
    """As if two owners had made it: the row stands where it stood before its last time."""
    works.schedule(every_seconds=60)
    before = works.driver.output("schedules")[-1]
    works.driver.advance(30)
    works.driver._broker.records["schedules", 0].append(
        before._replace(offset=len(works.driver.output("schedules")))
    )
    works.driver.restart("dispatcher")
    works.driver.advance(MINUTE)
    assert works.times() == ["06-15 15:07:00", "06-15 15:08:00"]


def test_a_log_that_is_read_again_makes_no_second_job(works: Clockwork) -> None:
    works.schedule(every_seconds=60)
    works.schedule("changed", every_seconds=30)
    works.schedule("changed", every_seconds=60)
    works.schedule("gone", every_seconds=60)
    works.schedule("again", every_seconds=60)
    works.driver.advance(5 * MINUTE)
    works.delete("gone")
    works.delete("again")
    works.schedule("again", every_seconds=60)
    works.driver.advance(MINUTE + 30)
    names = ("s", "changed", "gone", "again")
    before = {name: works.times(name) for name in names}
    run = works.driver.run_of("dispatcher")
    for place in run.offsets:
        run.offsets[place] = 0
    works.driver.restart("dispatcher", keep_state=True)
    works.driver.advance(10)
    assert {name: works.times(name) for name in names} == before
    works.driver.advance(MINUTE)
    after = {name: len(works.times(name)) - len(before[name]) for name in names}
    assert after == {"s": 1, "changed": 1, "gone": 0, "again": 1}


def test_the_rules_of_a_zone_change_while_a_schedule_waits(
    works: Clockwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    works.schedule(cron="0 19 * * *", tz="Europe/Berlin")
    works.schedule("utc", cron="0 19 * * *")
    assert clock(works.row().due_at or 0) == "06-15 17:00:00"
    moscow = time_zones.zone("Europe/Moscow")
    monkeypatch.setattr(time_zones, "zone", lambda _: moscow)
    monkeypatch.setattr(time_zones, "version", lambda: "2099z")
    works.driver.restart("dispatcher", keep_state=True)
    works.driver.advance(1)
    assert clock(works.row().due_at or 0) == "06-15 16:00:00"
    assert works.row().tzdata == "2099z"
    works.driver.advance(HOUR)
    assert works.times() == ["06-15 16:00:00"]


def test_a_time_that_has_fired_is_not_fired_again_by_other_rules(
    works: Clockwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    works.schedule(cron="0 19 * * *", tz="Europe/Moscow")
    works.driver.advance(HOUR)
    assert works.times() == ["06-15 16:00:00"]
    berlin = time_zones.zone("Europe/Berlin")  # where it is 19:00 one hour later
    monkeypatch.setattr(time_zones, "zone", lambda _: berlin)
    monkeypatch.setattr(time_zones, "version", lambda: "2099z")
    works.driver.restart("dispatcher", keep_state=True)
    works.driver.advance(2 * HOUR)
    assert works.times() == ["06-15 16:00:00"]
    assert clock(works.row().due_at or 0) == "06-16 17:00:00"


def test_a_time_that_waits_follows_an_end_just_before_the_rules_change(
    works: Clockwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = START_MS + 2 * 60_000
    works.schedule(cron="* * * * *", overlap="queue_one", ends_at=end)
    works.driver.advance(25)
    works.worker.heartbeat()
    works.driver.advance(0.2)
    (first,) = works.made()
    works.worker.stay(2 * MINUTE, works.lease(first.job_id))
    assert works.row().queued is not None
    works.worker.end(works.lease(first.job_id), "succeeded")
    monkeypatch.setattr(time_zones, "version", lambda: "2099z")
    works.driver.restart("dispatcher", keep_state=True)
    works.driver.advance(2)
    assert works.times() == ["06-15 15:07:00", "06-15 15:08:00"]


def test_a_disabled_tenant_has_no_jobs_made_and_an_erased_one_no_schedules(
    works: Clockwork,
) -> None:
    works.tenant("acme")
    works.tenant("other")
    works.schedule(every_seconds=60)
    works.schedule(tenant="other", every_seconds=60)
    works.tenant("acme", disabled=True)
    works.driver.advance(3 * MINUTE)
    assert works.made() == []
    assert works.row().skipped_because == "its tenant is disabled"
    works.tenant("acme")
    works.driver.advance(MINUTE)
    assert len(works.made()) == 1
    works.tenant("other", "erasure")
    works.driver.advance(2 * MINUTE)
    assert ("other", "s") not in works.rows()
    assert len(works.made(tenant="other")) == 4
    works.schedule(tenant="other")
    assert works.dead_letters()[-1].reason == "tenant_erased"


def test_many_schedules_of_an_erased_tenant_go_in_parts(works: Clockwork) -> None:
    works.tenant("acme")
    for number in range(450):
        works.schedule(f"s{number}", every_seconds=DAY)
    works.tenant("acme", "erasure")
    works.driver.advance(1)
    assert works.rows() == {}


def test_commands_that_cannot_be_are_refused(works: Clockwork) -> None:
    works.pause("none")
    assert works.dead_letters()[-1].reason == "schedule_unknown"
    wrong = spec(cron="0 9 * * *")
    object.__setattr__(wrong, "cron", "0 9 * *")
    works.command(SetSchedule("s", wrong, None, "", "ops"))
    assert works.dead_letters()[-1].reason == "schedule_wrong"
    for field, value in (("job", "a\0b"), ("window_ms", -1)):
        wrong = spec()
        object.__setattr__(wrong, field, value)
        works.command(SetSchedule("s", wrong, None, "", "ops"))
        assert works.dead_letters()[-1].reason in ("bad_id", "schedule_wrong")
    for name in ("", "a b", "a\0b"):
        works.command(SetSchedule(name, spec(), None, "", "ops"))
        assert works.dead_letters()[-1].reason == "bad_id"
    works.delete("none")
    assert len(works.dead_letters()) == 7
    assert works.rows() == {}


def test_a_record_that_no_dispatcher_wrote_ends_nothing(works: Clockwork) -> None:
    works.tenant("acme")
    works.schedule(every_seconds=60)
    log = works.driver._broker.records["schedules", 0]
    for key, value in ((b"acme\0x", b"garbage"), (b"other\0s", log[0].value)):
        log.append(log[0]._replace(offset=len(log), key=key, value=value))
    works.driver.restart("dispatcher")
    works.driver.advance(MINUTE)
    assert len(works.made()) == 1
    works.tenant("acme", "erasure")
    works.driver.advance(1)
    newest = {record.key: record.value for record in works.driver.output("schedules")}
    assert {key for key, value in newest.items() if value is not None} == {b"other\0s"}


def test_a_herd_is_made_in_bounded_steps(works: Clockwork) -> None:
    with works.held_back():
        for number in range(1_000):
            works.schedule(f"s{number}", every_seconds=60)
    works.driver.advance(22)
    newest = {job.key for job in works.driver.output("jobs")}
    assert len(newest) == 1_000


def test_an_idle_punctuation_costs_the_same_with_ten_thousand_schedules() -> None:
    few, many = Clockwork(), Clockwork()
    for works, count in ((few, 10), (many, 10_000)):
        with works.held_back():
            for number in range(count):
                works.schedule(f"s{number}", every_seconds=DAY)
        works.driver.advance(2)
    idle = [
        instructions(works.driver.run_of("dispatcher").tasks[0].punctuate) for works in (few, many)
    ]
    assert idle[1] <= idle[0] * 1.1


def test_a_stage_with_schedules_far_ahead_rests(works: Clockwork) -> None:
    works.schedule(every_seconds=60)
    works.driver.advance(2)
    assert works.driver.run_of("dispatcher").tasks[0].rests()
    works.driver.advance(17.6)
    assert not works.driver.run_of("dispatcher").tasks[0].rests()


def test_a_store_of_another_shape_is_built_anew() -> None:
    works = Clockwork()
    works.schedule(every_seconds=60)
    stages = [dispatcher.stage(works.topology), scheduler.stage(works.topology)]
    driver = TopologyTestDriver(stages, works.topology, partitions=1)
    driver._broker.records["schedules", 0] += works.driver.output("schedules")
    driver.restart("dispatcher")
    driver.advance(21)
    assert len(driver.output("jobs")) == 1
    assert moment("2025-06-15T15:07:00+00:00") == START_MS + 20_000


def test_one_that_this_release_cannot_read_makes_no_job_and_stops_no_other(
    works: Clockwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was set under a newer release, which knew more policies."""
    works.schedule("newer", every_seconds=60, missed="all(3)")
    works.schedule("other", every_seconds=60)
    monkeypatch.setattr(definition, "_ALL", re.compile("all()"))
    works.driver.advance(2 * MINUTE)
    assert works.times("other") == ["06-15 15:07:00", "06-15 15:08:00"]
    row = works.row("newer")
    assert (works.times("newer"), clock(row.skipped_at or 0)) == ([], "06-15 15:08:00")
    assert "it cannot be read: missed: 'all(3)'" in row.skipped_because
    monkeypatch.undo()
    works.driver.advance(MINUTE)
    assert works.times("newer") == ["06-15 15:09:00"]


def test_a_changed_one_that_was_made_anew_before_its_time_but_read_after_it_has_one_job(
    works: Clockwork,
) -> None:
    works.schedule(every_seconds=HOUR)
    works.schedule()
    asked = works.driver.now + 1_000
    works.driver.advance(MINUTE)
    works.command(DeleteSchedule("s", "ops"), at=asked)
    works.command(SetSchedule("s", spec(), None, "", "ops"), at=asked + 1)
    works.driver.advance(MINUTE)
    assert works.times() == ["06-15 15:07:00", "06-15 15:08:00"]
