"""The delivery stage's inputs have no common order: a setting that came first counts first."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from support.delivering import Deliveries, hang, ok, status

from streams.delivery.parts import commands
from streams.serde.codec import DEAD_LETTER
from streams.serde.records import Parent

DAY = 86_400.0


@pytest.fixture
def stage() -> Deliveries:
    return Deliveries()


def unread(stage: Deliveries) -> None:
    """Have records on `tenants` that the stage has not read yet."""
    stage.driver.unread.add("tenants")


def read(stage: Deliveries) -> None:
    stage.driver.unread.discard("tenants")
    stage.driver.advance(1)


def test_a_recovery_that_is_read_before_the_enabling_that_preceded_it_is_carried_out(
    stage: Deliveries,
) -> None:
    stage.endpoint(enabled=False)
    stage.event()
    unread(stage)
    command = stage.command("recover", since=0)
    stage.driver.advance(1)
    stage.endpoint()
    read(stage)
    assert stage.row().status == "delivered"
    stage.repeat(command)
    stage.driver.advance(1)
    assert len(stage.sender.sent) == 1


def test_a_recovery_that_came_before_the_enabling_does_not_use_up_its_id(
    stage: Deliveries,
) -> None:
    stage.endpoint(enabled=False)
    stage.event()
    command = stage.command("recover", since=0)
    stage.driver.advance(1)
    stage.endpoint()
    stage.repeat(command)
    stage.driver.advance(1)
    assert stage.row().status == "delivered"


def test_a_retry_that_is_read_before_the_enabling_that_preceded_it_is_carried_out(
    stage: Deliveries,
) -> None:
    stage.endpoint(enabled=False)
    stage.event()
    unread(stage)
    stage.command("retry", delivery_id=stage.row().delivery_id)
    stage.driver.advance(1)
    stage.endpoint()
    read(stage)
    assert stage.row().status == "delivered"


def test_a_test_that_is_read_before_its_new_endpoint_is_sent(stage: Deliveries) -> None:
    unread(stage)
    stage.command("test", delivery_id="dlv_t1")
    stage.driver.advance(1)
    stage.endpoint()
    read(stage)
    assert stage.row().status == "delivered"


def test_commands_that_wait_hold_up_no_delivery_and_outlive_a_restart_and_a_rollback(
    stage: Deliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "_AT_ONCE", 7)
    stage.endpoint("off", enabled=False)
    for number in range(20):
        stage.event(f"k{number:02}")
    stage.endpoint("on")
    unread(stage)
    for row in stage.rows():
        stage.command("retry", delivery_id=row.delivery_id)
    stage.driver.restart("delivery")
    stage.event("other")
    stage.driver.advance(1)
    assert [a.row.endpoint_id for a in stage.sender.sent] == ["on"]
    stage.endpoint("off")
    stage.driver.unread.discard("tenants")
    stage.driver.task("delivery").punctuate()
    stage.driver.task("delivery").rollback()
    read(stage)
    sent = sorted(a.row.message_id for a in stage.sender.sent if a.row.endpoint_id == "off")
    assert sent == [f"evt_k{number:02}" for number in range(20)]
    left = stage.driver.store("delivery", "queue").range(b"W", b"X")
    assert list(left) == []


def test_a_command_that_nobody_can_use_is_a_dead_letter_and_holds_up_no_other(
    stage: Deliveries,
) -> None:
    stage.endpoint()
    stage.driver.pipe("deliveries.commands", b"acme", b"no command")
    stage.command("test", "cr\0m", delivery_id="dlv_t1")
    stage.command("of_a_later_release", delivery_id="dlv_t1")
    stage.command("test", delivery_id="dlv_t2")
    stage.driver.advance(1)
    letters = [DEAD_LETTER.decode(each.value) for each in stage.driver.output("dlq")]
    assert [each.reason for each in letters[1:]] == ["bad_id", "not_supported"]
    assert (stage.row().delivery_id, stage.row().status) == ("dlv_t2", "delivered")


@pytest.mark.parametrize("because", ["set", "gone"])
@pytest.mark.parametrize("ordering", ["parallel", "fifo"])
def test_an_event_that_was_read_before_the_enabling_that_preceded_it_is_sent(
    stage: Deliveries, because: str, ordering: str
) -> None:
    stage.endpoint(ordering=ordering, enabled=because != "set")
    stage.sender.answer = status(410)
    for number in range(3):
        stage.event(f"before{number}")
    stage.driver.advance(5)
    stage.sender.answer = ok
    stage.sender.sent.clear()
    enabled = stage.driver.now
    stage.driver.advance(1)
    for number in range(3):
        stage.event(f"k{number}")
    assert {row.status for row in stage.rows()} == {"parked"}
    stage.driver.advance(5)
    stage.endpoint(ordering=ordering, created=enabled)
    stage.event("later")
    stage.driver.advance(1)
    found = {row.message_id: row.status for row in stage.rows()}
    assert found == {f"evt_before{n}": "parked" for n in range(3)} | {
        f"evt_{key}": "delivered" for key in ("k0", "k1", "k2", "later")
    }


def test_an_enabling_does_not_send_what_an_earlier_creation_missed_while_it_was_disabled(
    stage: Deliveries,
) -> None:
    created = stage.driver.now
    stage.driver.advance(1)
    stage.event("missed")
    stage.driver.advance(5)
    stage.history.away = True
    stage.endpoint(created=created)
    stage.endpoint(enabled=False)
    stage.event("disabled")
    stage.driver.advance(5)
    enabled = stage.driver.now
    stage.driver.advance(1)
    stage.event("enabled")
    stage.driver.advance(5)
    stage.endpoint(created=enabled)
    stage.history.away = False
    stage.driver.advance(1)
    found = {row.message_id: row.status for row in stage.rows()}
    assert found == {
        "evt_missed": "delivered",
        "evt_disabled": "parked",
        "evt_enabled": "delivered",
    }


def test_a_callback_that_was_read_before_the_enabling_that_preceded_it_is_sent(
    stage: Deliveries,
) -> None:
    stage.endpoint("callbacks", url=None, enabled=False)
    stage.driver.advance(5)
    enabled = stage.driver.now
    stage.driver.advance(1)
    stage.job(status="succeeded", callback_url="https://acme.example/done")
    stage.driver.advance(5)
    assert stage.row().status == "parked"
    stage.endpoint("callbacks", url=None, created=enabled)
    stage.driver.advance(1)
    assert stage.row().status == "delivered"


@pytest.mark.parametrize("others", ["endpoints", "tenants", "itself and others"])
def test_frequent_settings_put_off_nothing_that_an_endpoint_missed(
    stage: Deliveries, others: str
) -> None:
    created = stage.driver.now
    stage.driver.advance(1)
    stage.event("missed")
    stage.event("missed", "other")
    stage.driver.advance(5)
    stage.history.patience = 8
    stage.endpoint("m", created=created)
    for number in range(100):
        theirs: dict[str, Any] = {"tenant": "other"} if others == "tenants" else {}
        stage.endpoint("abz"[number % 3], created=created, events=(f"e{number}",), **theirs)
        stage.driver.advance(0.02)
        if others == "itself and others":
            stage.endpoint("b", created=created, events=("*", f"e{number}"))
    sent = [a.row.message_id for a in stage.sender.sent if a.row.endpoint_id == "m"]
    assert sent == ["evt_missed"]


WRITTEN_AGAIN = pytest.mark.parametrize(
    "changes",
    [{"replayed_as": "job_2"}, {"parent": Parent("job_2", 1, "refund")}],
    ids=["it is replayed", "a replay of its parent takes it over"],
)
"""What may change of a job that has ended."""


@WRITTEN_AGAIN
def test_a_job_s_end_is_not_told_again_if_the_job_is_written_long_after(
    stage: Deliveries, changes: dict[str, Any]
) -> None:
    stage.endpoint()
    stage.endpoint("callbacks", url=None)
    ended: dict[str, Any] = {
        "status": "dead",
        "callback_url": "https://acme.example/done",
        "updated_at": stage.driver.now,
    }
    stage.job(**ended)
    stage.driver.advance(1)
    assert len(stage.sender.sent) == 2
    stage.driver.advance(29 * DAY)
    assert stage.rows() == []
    stage.job(**ended, **changes)
    stage.driver.advance(1)
    assert (stage.rows(), len(stage.sender.sent)) == ([], 2)


@WRITTEN_AGAIN
def test_an_endpoint_is_not_told_of_a_job_s_end_before_it_because_the_job_is_written_again(
    stage: Deliveries, changes: dict[str, Any]
) -> None:
    ended: dict[str, Any] = {"status": "dead", "updated_at": stage.driver.now}
    stage.job(**ended)
    stage.driver.advance(100)
    stage.endpoint()
    stage.job(**ended, **changes)
    stage.driver.advance(1)
    assert stage.rows() == []


def test_a_job_that_a_replay_ends_is_told_once(stage: Deliveries) -> None:
    stage.endpoint()
    stage.driver.advance(5)
    stage.sender.answer = hang
    stage.job(status="cancelled", replayed_as="job_2", updated_at=stage.driver.now)
    stage.driver.advance(1)
    assert [a.message.type for a in stage.sender.sent] == ["job.cancelled"]


def test_what_an_enabled_endpoint_missed_is_sent_through_rollbacks_and_a_restart(
    stage: Deliveries,
) -> None:
    stage.endpoint(enabled=False)
    stage.driver.advance(5)
    enabled = stage.driver.now
    stage.driver.advance(1)
    for number in range(20):
        stage.event(f"k{number:02}")
    stage.driver.advance(5)
    stage.history.most = 3
    stage.endpoint(created=enabled)
    task = stage.driver.task("delivery")
    task.punctuate()
    task.rollback()
    stage.driver.advance(0.02)
    sent = len(stage.sender.sent)
    stage.driver.restart("delivery")
    stage.driver.advance(2)
    assert sent < 20
    assert [(row.status, row.attempts) for row in stage.rows()] == [("delivered", 1)] * 20


def test_the_log_is_read_once_for_all_endpoints_that_are_set_together(stage: Deliveries) -> None:
    created = stage.driver.now
    stage.driver.advance(1)
    for number in range(20):
        stage.event(f"k{number:02}")
    stage.driver.advance(5)
    stage.history.away = True
    for number in range(50):
        stage.endpoint(f"e{number:02}", created=created)
    stage.history.away = False
    stage.driver.advance(30)
    assert len(stage.sender.sent) == 50 * 20
    assert len(stage.history.read_before) <= 2 * 20, "one reading was begun before the others"


def test_settings_that_follow_one_another_all_the_time_put_off_nothing_of_their_own_endpoint(
    stage: Deliveries,
) -> None:
    created = stage.driver.now
    stage.driver.advance(1)
    for number in range(100):
        stage.event(f"k{number:02}")
    stage.driver.advance(5)
    stage.history.most = 3
    for number in range(60):
        stage.endpoint(created=created, events=("*", f"e{number}"))
        stage.driver.advance(0.1)
    assert {row.message_id for row in stage.rows()} == {f"evt_k{n:02}" for n in range(100)}


def test_what_many_endpoints_missed_is_made_in_steps_of_bounded_size(
    stage: Deliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.delivery.parts.missed._ROWS", 40)
    created = stage.driver.now
    stage.driver.advance(1)
    for number in range(20):
        stage.event(f"k{number:02}")
    stage.driver.advance(5)
    stage.history.away = True
    for number in range(30):
        stage.endpoint(f"e{number:02}", created=created)
    stage.driver.advance(1)
    stage.history.away = False
    made = [0]
    while made[-1] < 30 * 20:
        stage.driver.advance(0.01)
        made.append(len(stage.rows()))
        assert len(made) < 400
    assert max(after - before for before, after in pairwise(made)) <= 70


def test_a_poison_record_behind_the_end_of_one_reading_loses_nothing_of_the_next(
    stage: Deliveries,
) -> None:
    created = stage.driver.now
    stage.driver.advance(1)
    stage.event("missed")
    stage.driver.advance(5)
    stage.history.away = True
    stage.endpoint("a", created=created)
    stage.history.away = False
    stage.driver.advance(0.01)  # `events` is read, and `jobs` is not
    stage.history.away = True
    stage.endpoint("b", created=created)
    stage.history.away = False
    for _ in range(3):
        stage.driver.task("delivery").punctuate()
    stage.driver.pipe("events", b"acme", b"no envelope")
    stage.driver.advance(1)
    assert sorted(attempt.row.endpoint_id for attempt in stage.sender.sent) == ["a", "b"]


@pytest.mark.parametrize("meanwhile", ["disabled", "removed"])
def test_an_enabling_that_missed_nothing_sends_nothing_that_was_parked_before_it(
    stage: Deliveries, meanwhile: str
) -> None:
    start = stage.driver.now // 1000 * 1000
    stage.driver.advance(20)
    stage.endpoint("slow", enabled=False, created=start)
    stage.event("first", at=start + 100)  # what happens in this second is processed from now on
    stage.history.away = True
    stage.endpoint("slow", created=start)  # the log is being read for it
    stage.sender.answer = status(500)
    stage.endpoint(created=start + 200)
    if meanwhile == "disabled":
        stage.endpoint(enabled=False, created=start + 300)
        stage.event("parked", at=start + 400)
    else:
        stage.event("parked", at=start + 300)
        stage.remove()
    stage.driver.advance(1)
    stage.sender.answer = ok
    stage.endpoint(created=start + 5_000)
    stage.history.away = False
    stage.driver.advance(30)
    found = [row for row in stage.rows() if row.endpoint_id == "crm"]
    assert [(row.message_id, row.status) for row in found] == [("evt_parked", "parked")]


def test_a_job_s_end_that_was_parked_is_not_sent_because_the_job_is_replayed_after_an_enabling(
    stage: Deliveries,
) -> None:
    stage.endpoint(enabled=False)
    ended: dict[str, Any] = {"status": "dead", "updated_at": stage.driver.now}
    stage.job(**ended)
    stage.driver.advance(5)
    enabled = stage.driver.now
    stage.driver.advance(1)
    stage.job(**ended, replayed_as="job_2")
    stage.endpoint(created=enabled)
    stage.driver.advance(5)
    assert stage.row().status == "parked"


@pytest.mark.parametrize("after", ["creation", "enabling", "other filters"])
def test_an_ordered_endpoint_gets_what_it_missed_before_what_came_later(
    stage: Deliveries, after: str
) -> None:
    if after == "enabling":
        stage.endpoint(ordering="fifo", enabled=False)
    elif after == "other filters":
        stage.endpoint(ordering="fifo", events=("nothing",))
    stage.driver.advance(5)
    changed = stage.driver.now
    for number in range(5):
        stage.driver.advance(1)
        stage.event(f"k{number}")
    stage.history.most, stage.history.patience = 2, 3
    stage.endpoint(ordering="fifo", created=changed)
    for number in range(5, 20):
        stage.event(f"k{number:02}")
        stage.driver.advance(0.01)
    stage.driver.restart("delivery")
    stage.driver.advance(2)
    order = [attempt.row.message_id for attempt in stage.sender.sent]
    assert order == [f"evt_k{n}" for n in range(5)] + [f"evt_k{n:02}" for n in range(5, 20)]
