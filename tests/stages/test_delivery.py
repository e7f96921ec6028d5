"""The delivery stage: every (endpoint, message) has one row, and ends delivered or parked (G7)."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from support.delivering import Deliveries, hang, ok, status

from streams.delivery.parts import fan_out
from streams.runtime.memory_broker import CrashPoint
from streams.serde.keys import tenant_key

DAY = 86_400.0


@pytest.fixture
def stage() -> Deliveries:
    return Deliveries()


def test_an_event_is_sent_once_to_each_endpoint_that_wants_it(stage: Deliveries) -> None:
    stage.endpoint("all")
    stage.endpoint("orders", events=("order.*",))
    stage.endpoint("tickets", events=("ticket.*",))
    stage.endpoint("others", sources=("crm",))
    event_id = stage.event()
    stage.driver.advance(0.1)
    assert sorted(stage.sender.urls()) == [
        "https://all.example/hook",
        "https://orders.example/hook",
    ]
    assert [(r.message_id, r.status, r.attempts) for r in stage.rows()] == [
        (event_id, "delivered", 1),
        (event_id, "delivered", 1),
    ]
    assert [(a.attempt, a.status, a.error) for a in stage.attempts()] == [(1, 200, None)] * 2


def test_nothing_is_sent_before_its_row_is_committed(stage: Deliveries) -> None:
    stage.endpoint()
    for at in ("before_commit", "before_write"):
        sent_before = len(stage.sender.sent)
        stage.driver.crash("delivery", at)  # type: ignore[arg-type]
        stage.event(at)
        assert len(stage.sender.sent) == sent_before
        stage.driver.advance(0.1)
    assert {row.status for row in stage.rows()} == {"delivered"}


def test_an_endpoint_gets_only_what_happens_after_it_is_set(stage: Deliveries) -> None:
    stage.event("before")
    stage.driver.advance(5)
    stage.endpoint()
    stage.event("after")
    stage.driver.advance(0.1)
    assert [row.message_id for row in stage.rows()] == ["evt_after"]


def test_an_event_that_was_read_before_the_setting_that_preceded_it_is_not_missed(
    stage: Deliveries,
) -> None:
    created = stage.driver.now
    stage.driver.advance(1)
    stage.event("read first")
    stage.driver.advance(5)
    record_time = created
    pipe = stage.driver.pipe
    stage.driver.pipe = lambda *a, **k: pipe(*a, **(k | {"timestamp": record_time}))  # type: ignore[method-assign]
    stage.endpoint()
    stage.driver.pipe = pipe  # type: ignore[method-assign]
    stage.driver.advance(0.2)
    assert [row.status for row in stage.rows()] == ["delivered"]


@pytest.mark.parametrize(
    "before", [{"events": ("ticket.*",)}, {"sources": ("crm",)}], ids=["events", "sources"]
)
def test_an_event_that_was_read_before_other_filters_that_preceded_it_is_not_missed(
    stage: Deliveries, before: dict[str, Any]
) -> None:
    stage.endpoint(**before)
    stage.event("earlier")
    stage.driver.advance(5)
    changed = stage.driver.now
    stage.driver.advance(1)
    stage.event("read first")
    stage.driver.advance(5)
    assert stage.rows() == []
    stage.endpoint(created=changed)
    stage.driver.advance(0.2)
    assert [(r.message_id, r.status) for r in stage.rows()] == [("evt_read first", "delivered")]
    stage.endpoint(created=changed, **before)
    stage.driver.advance(0.2)
    assert len(stage.sender.sent) == 1


def test_other_filters_end_no_reading_of_what_a_new_endpoint_missed(stage: Deliveries) -> None:
    created = stage.driver.now
    stage.driver.advance(1)
    stage.event("read first")
    stage.driver.advance(5)
    stage.history.away = True
    stage.endpoint(created=created)
    stage.driver.advance(1)
    stage.event("read second")
    stage.endpoint(sources=("shop",))
    stage.history.away = False
    stage.driver.advance(0.2)
    assert [row.status for row in stage.rows()] == ["delivered"] * 2


def test_what_is_read_for_a_partition_is_dropped_with_it(stage: Deliveries) -> None:
    before = stage.history.forgot
    stage.driver.restart("delivery")
    assert stage.history.forgot == before + 1


def test_a_failure_is_tried_again_by_the_policy_until_it_is_dead(stage: Deliveries) -> None:
    stage.endpoint(retry=(5, 60))
    stage.sender.answer = status(500)
    stage.event()
    stage.driver.advance(4.9)
    assert len(stage.sender.sent) == 1
    stage.driver.advance(2)
    assert len(stage.sender.sent) == 2
    stage.driver.advance(100)
    assert [a.attempt for a in stage.attempts()] == [1, 2, 3]
    assert (stage.row().status, stage.row().last_status) == ("dead", 500)
    assert {a.row.message_id for a in stage.sender.sent} == {"evt_k1"}


def test_retry_after_is_honoured_within_a_day(stage: Deliveries) -> None:
    stage.endpoint(retry=(5,) * 4)
    stage.sender.answer = status(503, retry_after_seconds=3600.0)
    stage.event()
    stage.driver.advance(1)
    stage.driver.advance(3598)
    assert len(stage.sender.sent) == 1
    stage.sender.answer = status(503, retry_after_seconds=1e9)
    stage.driver.advance(10)
    assert len(stage.sender.sent) == 2
    stage.sender.answer = ok
    stage.driver.advance(DAY)
    stage.driver.advance(60)
    assert stage.row().status == "delivered"


def test_a_gone_endpoint_is_disabled_and_its_rows_are_parked(stage: Deliveries) -> None:
    stage.endpoint("crm")
    stage.endpoint("watch", events=("endpoint.*",))
    stage.sender.answer = lambda a: {"status": 200} if "watch" in a.url else status(410)(a)
    stage.event("k1")
    stage.driver.advance(0.1)
    stage.event("k2")
    stage.driver.advance(0.5)
    assert stage.state().disabled_because == "gone"
    of_crm = [row for row in stage.rows() if row.endpoint_id == "crm"]
    assert [(r.status, r.parked_because) for r in of_crm] == [("parked", "endpoint_disabled")] * 2
    (notice,) = [row for row in stage.rows() if row.endpoint_id == "watch"]
    assert (notice.type, notice.status) == ("endpoint.disabled", "delivered")


def test_rows_of_a_disabled_endpoint_are_parked_and_recovered_in_bulk(stage: Deliveries) -> None:
    stage.endpoint(enabled=False)
    for number in range(450):
        stage.event(f"k{number}")
    stage.driver.advance(0.1)
    assert {row.status for row in stage.rows()} == {"parked"}
    stage.endpoint(enabled=True)
    stage.driver.advance(1)
    assert stage.sender.sent == []
    command = stage.command("recover", since=0)
    stage.driver.advance(5)
    assert {row.status for row in stage.rows()} == {"delivered"}
    recovery = stage.state().recovery
    assert recovery is not None
    assert (recovery.recovered, recovery.ended_at is not None) == (450, True)
    stage.repeat(command)
    stage.driver.advance(5)
    assert len(stage.sender.sent) == 450


def test_a_recovery_of_an_operator_whose_clock_is_late_takes_the_rows_of_now(
    stage: Deliveries,
) -> None:
    stage.endpoint(enabled=False)
    stage.event()
    stage.endpoint(enabled=True)
    early = stage.command("recover", "other", since=0)
    late = dataclasses.replace(early, endpoint_id="crm", command_id="cmd_l", at=early.at - 600_000)
    stage.repeat(late)
    stage.driver.advance(1)
    assert stage.row().status == "delivered"


def test_rows_of_a_removed_endpoint_are_parked(stage: Deliveries) -> None:
    stage.endpoint()
    stage.sender.answer = status(500)
    for number in range(250):
        stage.event(f"k{number}")
    stage.remove()
    stage.driver.advance(1)
    assert {(r.status, r.parked_because) for r in stage.rows()} == {("parked", "endpoint_removed")}


def test_an_operator_whose_clock_is_late_enables_an_endpoint_and_a_rotation_does_not(
    stage: Deliveries,
) -> None:
    stage.endpoint(set_at=1)
    stage.sender.answer = status(410)
    stage.event()
    stage.driver.advance(0.1)
    stage.rotate()
    assert stage.state().disabled_because == "gone"
    stage.endpoint(at=1)
    assert stage.state().disabled_because is None


def test_five_days_of_nothing_but_failure_disable_an_endpoint(stage: Deliveries) -> None:
    stage.endpoint(retry=(3600,) * 50)
    stage.sender.answer = status(500)
    for number in range(6):
        stage.event(f"k{number}")
    stage.driver.advance(4.9 * DAY)
    assert stage.state().disabled_because is None
    stage.driver.advance(0.3 * DAY)
    assert stage.state().disabled_because == "failing"
    assert {row.status for row in stage.rows()} == {"parked"}
    stage.endpoint(retry=(3600,) * 50, description="mended")
    assert stage.state().disabled_because is None


def test_attempts_do_not_burn_while_the_circuit_is_open(stage: Deliveries) -> None:
    stage.endpoint(retry=(1,) * 10)
    stage.sender.answer = status(500)
    for number in range(20):
        stage.event(f"k{number}")
    stage.driver.advance(20)
    sent = len(stage.sender.sent)
    assert stage.state().circuit == "open"
    assert sent < 12
    stage.driver.advance(600)
    assert len(stage.sender.sent) - sent < 8  # the probes
    assert {row.status for row in stage.rows()} == {"pending"}
    stage.sender.answer = ok
    stage.driver.advance(700)
    assert {row.status for row in stage.rows()} == {"delivered"}
    assert stage.state().circuit == "closed"


def test_what_a_developer_listens_to_is_tried_again_as_its_retries_say(stage: Deliveries) -> None:
    stage.endpoint("listen", retry=(1, 2, 5, 10, 30))
    stage.sender.answer = lambda attempt: (
        status(503)(attempt) if attempt.row.round < 3 else ok(attempt)
    )
    stage.event("k0")
    stage.event("k1")
    stage.driver.advance(10)
    assert [(row.status, row.attempts) for row in stage.rows()] == [("delivered", 4)] * 2


def test_an_attempt_that_was_under_way_at_a_crash_is_made_again(stage: Deliveries) -> None:
    stage.endpoint()
    stage.sender.answer = hang
    stage.event()
    stage.driver.advance(0.1)
    stage.sender.answer = ok
    stage.driver.restart("delivery")
    stage.driver.advance(0.1)
    assert [a.row.attempts for a in stage.sender.sent] == [0, 0]
    assert (stage.row().status, stage.row().attempts) == ("delivered", 1)


@pytest.mark.parametrize("at", ["before_commit", "before_write", "after_write"])
def test_a_crash_at_any_point_loses_no_row_and_no_end(stage: Deliveries, at: CrashPoint) -> None:
    stage.endpoint(retry=(1,) * 20)
    for number in range(10):
        stage.driver.crash("delivery", at)
        stage.sender.answer = status(500) if number % 2 else ok
        stage.event(f"k{number}")
        stage.driver.advance(0.5)
    stage.sender.answer = ok
    stage.driver.advance(400)
    assert [row.status for row in stage.rows()] == ["delivered"] * 10


def test_a_fifo_endpoint_gets_messages_in_their_order(stage: Deliveries) -> None:
    stage.endpoint(ordering="fifo", retry=(1,) * 5)
    failing = {"evt_k1"}
    stage.sender.answer = lambda a: (
        status(500)(a) if a.row.message_id in failing else {"status": 200}
    )
    for number in range(5):
        stage.event(f"k{number}")
    stage.driver.advance(3)
    assert {a.row.message_id for a in stage.sender.sent} == {"evt_k0", "evt_k1"}
    failing.clear()
    stage.driver.advance(10)
    order = [a.row.message_id for a in stage.sender.sent if a.row.attempts == 0]
    assert order == [f"evt_k{n}" for n in range(5)]
    assert {row.status for row in stage.rows()} == {"delivered"}


def test_order_by_subject_lets_other_subjects_pass(stage: Deliveries) -> None:
    stage.endpoint(ordering="fifo_by_subject")
    stage.event("first")  # an endpoint that never answered gets one message at a time
    stage.driver.advance(0.1)
    stage.sender.answer = lambda a: {"status": 200} if a.message.subject == "b" else hang(a)
    for number, subject in enumerate("aab"):
        stage.event(f"k{number}", subject=subject)
    stage.driver.advance(1)
    assert {r.message_id: r.status for r in stage.rows()} == {
        "evt_first": "delivered",
        "evt_k0": "pending",
        "evt_k1": "pending",
        "evt_k2": "delivered",
    }


def test_a_job_s_end_is_told_once_and_its_callback_too(stage: Deliveries) -> None:
    stage.endpoint("crm", events=("job.succeeded",))
    stage.endpoint("callbacks", url=None)
    job = stage.job(status="running", callback_url="https://acme.example/done")
    job = stage.job(status="succeeded", callback_url="https://acme.example/done", result="1")
    stage.driver.advance(0.2)
    stage.job(
        **{
            f.name: getattr(job, f.name)
            for f in dataclasses.fields(job)
            if f.name in ("status", "callback_url", "result")
        },
        updated_at=5,
    )
    stage.driver.advance(0.2)
    assert sorted((r.kind, r.status) for r in stage.rows()) == [
        ("callback", "delivered"),
        ("job", "delivered"),
    ]
    assert "https://acme.example/done" in stage.sender.urls()


def test_a_callback_without_its_endpoint_is_parked(stage: Deliveries) -> None:
    stage.job(status="dead", callback_url="https://acme.example/done")
    stage.driver.advance(0.2)
    assert (stage.row().status, stage.row().parked_because) == ("parked", "endpoint_removed")
    stage.endpoint("callbacks", url=None)
    stage.command("recover", "callbacks", since=0)
    stage.driver.advance(0.2)
    assert stage.row().status == "delivered"


def test_a_second_manual_retry_works(stage: Deliveries) -> None:
    stage.endpoint(retry=())
    stage.sender.answer = status(500)
    stage.event()
    stage.driver.advance(0.1)
    for _ in range(2):
        assert stage.row().status == "dead"
        stage.command("retry", delivery_id=stage.row().delivery_id)
        stage.driver.advance(0.1)
    assert len(stage.attempts()) == 3
    stage.sender.answer = ok
    stage.command("retry", delivery_id=stage.row().delivery_id)
    stage.driver.advance(0.1)
    assert (stage.row().status, stage.row().attempts) == ("delivered", 4)


def test_a_test_is_sent_in_a_burst_of_three_even_to_a_disabled_endpoint(stage: Deliveries) -> None:
    stage.endpoint(enabled=False)
    stage.sender.answer = status(500)
    stage.command("test", delivery_id="dlv_t1")
    stage.driver.advance(5)
    assert [a.message.type for a in stage.sender.sent] == ["test"] * 3
    assert stage.row().status == "dead"
    assert stage.state().failing_since is None


def test_a_disabled_tenant_waits_and_an_erased_one_is_forgotten(stage: Deliveries) -> None:
    stage.endpoint()
    stage.tenant(disabled=True)
    stage.event("k1")
    stage.driver.advance(1)
    assert stage.sender.sent == []
    stage.tenant(disabled=False)
    stage.driver.advance(1)
    assert len(stage.sender.sent) == 1
    stage.tenant(kind="erasure")
    stage.driver.advance(1)
    assert stage.rows() == []
    newest = {r.key: r.value for r in stage.driver.output("deliveries")}
    assert set(newest.values()) == {None}


def test_what_waits_too_long_is_dead_and_then_deleted(stage: Deliveries) -> None:
    stage.endpoint(enabled=False)
    stage.event()
    stage.driver.advance(13.9 * DAY)
    assert stage.row().status == "parked"
    stage.driver.advance(0.3 * DAY)
    assert (stage.row().status, stage.row().last_error) == ("dead", "too_old")
    stage.driver.advance(15 * DAY)
    assert stage.rows() == []


def test_a_rate_bounds_what_an_endpoint_gets(stage: Deliveries) -> None:
    stage.endpoint(rate={"count": 60, "seconds": 60})
    for number in range(100):
        stage.event(f"k{number}")
    stage.driver.advance(10)
    assert 8 <= len(stage.sender.sent) <= 18
    stage.driver.advance(110)
    assert len(stage.sender.sent) == 100


def test_hanging_endpoints_do_not_hold_up_a_healthy_one(stage: Deliveries) -> None:
    for number in range(50):
        stage.endpoint(f"hang{number}")
    stage.endpoint("healthy")
    stage.sender.answer = lambda a: hang(a) if "hang" in a.url else {"status": 200}
    for number in range(40):
        stage.event(f"k{number}")
        stage.driver.advance(0.05)
    healthy = [row for row in stage.rows() if row.endpoint_id == "healthy"]
    assert {row.status for row in healthy} == {"delivered"}
    assert len(stage.sender.under_way) == 50  # one for each


def test_a_flood_to_many_endpoints_is_made_rows_of_in_bounded_steps(
    stage: Deliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fan_out, "_IN_A_STEP", 40)
    monkeypatch.setattr(fan_out, "_IN_A_PART", 25)
    for number in range(20):
        stage.endpoint(f"e{number:02}", ordering="fifo")
    with stage.driver.together():
        for number in range(30):
            stage.event(f"k{number:02}")
    largest = len(stage.rows())
    assert largest == 40
    stage.event("k99")  # it must not overtake those that wait
    while len(rows := stage.rows()) < 31 * 20:
        stage.driver.advance(0.01)
        largest = max(largest, len(stage.rows()) - len(rows))
    assert largest <= 40
    stage.driver.advance(5)
    assert {row.status for row in stage.rows()} == {"delivered"}
    one = [a.row.message_id for a in stage.sender.sent if a.row.endpoint_id == "e07"]
    assert one == [f"evt_k{number:02}" for number in range(30)] + ["evt_k99"]


def test_a_message_for_many_endpoints_does_not_delay_other_tenants(
    stage: Deliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fan_out, "_IN_A_PART", 15)
    for tenant in ("wide", "wider"):
        for number in range(100):
            stage.endpoint(f"e{number:02}", tenant=tenant)
    stage.endpoint(tenant="small")
    with stage.driver.together():
        for tenant in ("wide", "wider"):
            for number in range(5):
                stage.event(f"{tenant}{number}", tenant=tenant)
        stage.event("k1", tenant="small")
    assert [row.tenant_id for row in stage.rows()] == ["small"]
    stage.driver.advance(0.05)
    assert {row.tenant_id for row in stage.rows()} == {"small", "wide", "wider"}
    stage.driver.restart("delivery")
    stage.driver.advance(10)
    assert [row.status for row in stage.rows()] == ["delivered"] * 1_001


def test_a_crash_while_rows_are_made_loses_none(
    stage: Deliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fan_out, "_IN_A_STEP", 5)
    monkeypatch.setattr(fan_out, "_IN_A_PART", 7)
    for number in range(10):
        stage.endpoint(f"e{number}")
    with stage.driver.together():
        for number in range(6):
            stage.event(f"k{number}")
    for at in ("before_commit", "before_write", "after_write"):
        stage.driver.crash("delivery", at)  # type: ignore[arg-type]
        stage.driver.advance(0.05)
    stage.driver.restart("delivery")
    stage.driver.advance(5)
    assert [row.status for row in stage.rows()] == ["delivered"] * 60


def test_what_no_writer_of_ours_writes_is_a_dead_letter_or_ignored(stage: Deliveries) -> None:
    stage.endpoint()
    stage.event("k1", tenant="ac\0me")
    stage.job("job_1", status="succeeded", result="no JSON")
    stage.command("test", delivery_id="dlv_1", sample="no JSON")
    stage.driver.pipe("tenants", tenant_key("acme", "endpoint", "crm"), b"no record")
    stage.event("k2")
    stage.driver.advance(0.5)
    assert len(stage.driver.output("dlq")) == 1
    assert {row.status for row in stage.rows()} == {"delivered"}
    assert len(stage.rows()) == 3


def test_the_end_of_an_attempt_whose_row_is_gone_gives_the_endpoint_its_turn(
    stage: Deliveries,
) -> None:
    stage.endpoint()
    stage.sender.answer = hang
    stage.event("k1")
    stage.event("k2")
    stage.driver.advance(0.1)
    (under_way,) = stage.sender.under_way
    stage.command("retry", delivery_id=under_way.row.delivery_id)
    stage.sender.answer = ok
    stage.sender.end(under_way, {"status": 500, "error": "status"})
    stage.driver.advance(20)
    assert {row.status for row in stage.rows()} == {"delivered"}
