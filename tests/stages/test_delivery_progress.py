"""The delivery stage's long work goes on, whatever other tenants and odd records do meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.delivering import Deliveries, hang, ok, status

from streams.delivery.parts import fan_out, sweep, upkeep
from streams.serde.codec import TENANT
from streams.serde.delivery_records import Delivery, DeliveryCommand
from streams.serde.ids import new_id


@pytest.fixture
def stage() -> Deliveries:
    return Deliveries()


def test_poison_records_do_not_begin_the_round_over_old_rows_again(
    stage: Deliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "_PART", 1)
    monkeypatch.setattr(sweep, "_ROUND_SECONDS", 0)
    looked_at = set[str]()

    def noted(row: Delivery, _: object) -> None:
        looked_at.add(row.message_id)

    monkeypatch.setattr(sweep, "_age", noted)
    stage.endpoint()
    with stage.driver.together():
        for number in range(40):
            stage.event(f"k{number:02}")
    for _ in range(30):
        stage.driver.pipe("events", b"acme", b"no envelope")
        stage.driver.advance(0.5)
    assert len(looked_at) == 40


def test_a_tenant_that_asks_for_recoveries_again_and_again_holds_up_no_other(
    stage: Deliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "_LOOKED_AT", 5)
    stage.endpoint()
    stage.endpoint("crm", "other", enabled=False)
    for number in range(20):
        stage.event(f"k{number:02}")
    stage.event("theirs", "other")
    stage.driver.advance(1)
    stage.endpoint("crm", "other")
    stage.driver.advance(1)
    _recover(stage, "other")
    for _ in range(30):
        _recover(stage, "acme")
        stage.driver.advance(0.03)
    assert stage.state("crm", "other").recovery is not None
    (row,) = [row for row in stage.rows() if row.tenant_id == "other"]
    assert row.status == "delivered"
    stage.tenant("other", kind="erasure")
    for _ in range(30):
        _recover(stage, "acme")
        stage.driver.advance(0.03)
    assert [row for row in stage.rows() if row.tenant_id == "other"] == []


def _recover(stage: Deliveries, tenant: str) -> None:
    stage.repeat(
        DeliveryCommand(
            new_id("cmd"),
            tenant,
            "crm",
            "recover",
            None,
            0,
            None,
            ("parked",),
            None,
            "operator",
            stage.driver.now,
        )
    )


def test_a_tenant_that_fell_behind_catches_up_while_its_messages_go_on(
    stage: Deliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fan_out, "_IN_A_STEP", 40)
    monkeypatch.setattr(fan_out, "_IN_A_PART", 5)
    stage.endpoint()
    waiting = []
    for step in range(60):  # the first step is more than it may make, the later ones are not
        with stage.driver.together():
            for number in range(100 if step == 0 else 20):
                stage.event(f"k{step:02}_{number:03}")
            stage.driver.run_of("delivery").step(punctuate=True)
        kept = stage.driver.store("delivery", "queue").range(b"F", b"G")
        waiting.append(len(list(kept)))
    assert waiting[0] > 0
    assert waiting[-1] == 0


def test_a_poison_record_takes_no_endpoint_its_window_nor_its_rate(stage: Deliveries) -> None:
    stage.endpoint(rate={"count": 1, "seconds": 3600})
    stage.endpoint("fast")
    for number in range(4):
        stage.event(f"k{number}")
        stage.driver.advance(0.1)
    stage.sender.sent.clear()
    stage.sender.answer = hang
    stage.driver.pipe("events", b"acme", b"no envelope")
    for number in range(4, 8):
        stage.event(f"k{number}")
    stage.driver.advance(0.1)
    assert [a.row.endpoint_id for a in stage.sender.sent] == ["fast"] * 4


def test_failures_before_a_poison_record_still_open_the_circuit(stage: Deliveries) -> None:
    stage.endpoint(retry=(1,) * 50)
    stage.sender.answer = status(500)
    stage.event("k1")
    for _ in range(20):
        stage.driver.pipe("events", b"acme", b"no envelope")
        stage.driver.advance(1)
    assert stage.state().circuit == "open"
    stage.sender.answer = ok
    stage.driver.advance(60)
    assert stage.row().status == "delivered"


def test_a_failure_is_counted_once_however_often_its_transaction_is_aborted(
    stage: Deliveries,
) -> None:
    stage.endpoint(retry=(60,) * 50)
    task, under_way = stage.driver.task("delivery"), stage.sender.under_way
    stage.sender.answer = hang
    for number in range(5):
        assert number == 0 or stage.state().circuit == "closed"
        stage.event(f"k{number}")
        stage.driver.advance(0.1)
        stage.sender.end(under_way[-1], {"status": 500, "error": "status"})
        for _ in range(3):
            task.punctuate()
            task.rollback()
        stage.driver.advance(0.1)
    assert len(stage.attempts()) == 5
    assert stage.state().circuit == "open"


def test_a_failure_in_the_transaction_of_a_poison_record_is_counted(stage: Deliveries) -> None:
    stage.endpoint(retry=(60,) * 50)
    stage.sender.answer = hang
    for number in range(5):
        stage.event(f"k{number}")
        stage.driver.advance(0.1)
        stage.sender.end(stage.sender.under_way[-1], {"status": 500, "error": "status"})
        stage.driver.task("delivery").punctuate()
        stage.driver.pipe("events", b"acme", b"no envelope")
    assert stage.state().circuit == "open"


def test_failures_before_an_aborted_transaction_still_open_the_circuit(stage: Deliveries) -> None:
    stage.endpoint(retry=(1,) * 50)
    stage.sender.answer = status(500)
    stage.event("k1")
    for _ in range(20):
        stage.driver.task("delivery").rollback()
        stage.driver.advance(1)
    assert stage.state().circuit == "open"


def test_a_rate_is_not_charged_for_what_an_aborted_transaction_chose(stage: Deliveries) -> None:
    stage.endpoint("slow")
    stage.sender.answer = hang
    stage.event("k0")
    stage.driver.advance(0.1)
    (under_way,) = stage.sender.under_way
    stage.endpoint("crm", rate={"count": 1, "seconds": 3600})
    stage.event("k1")
    sent = len(stage.sender.sent)
    stage.sender.end(under_way, {"status": 200})
    stage.driver.task("delivery").punctuate()
    stage.driver.task("delivery").rollback()
    assert len(stage.sender.sent) == sent
    stage.sender.answer = ok
    stage.driver.advance(1)
    assert {row.status for row in stage.rows()} == {"delivered"}


@pytest.mark.parametrize("then", ["set", "removed"])
def test_an_aborted_setting_takes_no_endpoint_its_rate(stage: Deliveries, then: str) -> None:
    stage.endpoint(rate={"count": 1, "seconds": 3600})
    stage.event("k0")
    stage.driver.advance(1)
    stage.event("k1")
    task, setting = stage.driver.task("delivery"), stage.driver.output("tenants")[-1]
    record = TENANT.decode(setting.value)
    other = TENANT.encode(replace(record, updated_at=record.updated_at + 1))
    value = other if then == "set" else None
    task.process([setting._replace(offset=setting.offset + 1, value=value)])
    task.rollback()
    stage.driver.advance(1)
    assert [attempt.row.message_id for attempt in stage.sender.sent] == ["evt_k0"]


def test_poison_records_do_not_let_a_step_make_more_rows(
    stage: Deliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fan_out, "_IN_A_STEP", 40)
    monkeypatch.setattr(fan_out, "_IN_A_PART", 5)
    stage.endpoint()
    with stage.driver.together():
        for number in range(100):
            stage.event(f"k{number:02}")
            if number % 10 == 9:
                stage.driver.pipe("events", b"acme", b"no envelope")
        stage.driver.run_of("delivery").step(punctuate=True)
    assert 0 < len(stage.rows()) <= 45
    stage.driver.advance(5)
    assert {row.status for row in stage.rows()} == {"delivered"}
    assert len(stage.rows()) == 100


def test_it_rests_unless_an_attempt_is_due_soon_or_under_way(stage: Deliveries) -> None:
    stage.driver.advance(1)
    task = stage.driver.task("delivery")
    assert task.rests()
    stage.sender.answer = status(500)
    stage.endpoint(retry=(60, 60))
    stage.event()
    stage.driver.advance(1)
    assert task.rests(), "the next attempt is far away"
    stage.sender.answer = hang
    stage.driver.advance(60 * 1.2)  # the longest that an endpoint's 60 s may become
    assert not task.rests(), "it is under way"
