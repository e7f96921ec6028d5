"""An endpoint's circuit spares a receiver that is down, and holds up nothing for one that is up."""

from __future__ import annotations

from typing import Any

import pytest
from support.delivering import Deliveries, hang, ok, status

from streams.delivery.attempts import Attempt
from streams.serde.delivery_records import Delivery

DAY = 86_400.0
ODD = "order.odd"


@pytest.fixture
def stage() -> Deliveries:
    return Deliveries()


def rows_of(stage: Deliveries, type_: str) -> list[Delivery]:
    return [row for row in stage.rows() if row.type == type_]


@pytest.mark.parametrize("code", [400, 409, 413, 415, 422])
def test_messages_that_a_receiver_rejects_hold_up_no_other(stage: Deliveries, code: int) -> None:
    def answer(attempt: Attempt) -> dict[str, Any] | None:
        return status(code)(attempt) if attempt.message.type == ODD else ok(attempt)

    stage.endpoint()
    stage.sender.answer = answer
    for number in range(30):
        stage.event(f"odd{number:02}", event_type=ODD)
    for number in range(10):
        stage.event(f"k{number}")
    stage.driver.advance(4)
    assert {row.status for row in rows_of(stage, "order.paid")} == {"delivered"}
    assert {(row.status, row.round) for row in rows_of(stage, ODD)} == {("pending", 1)}
    assert stage.state().circuit == "closed"
    stage.sender.answer = ok
    stage.driver.advance(5)
    assert {row.status for row in stage.rows()} == {"delivered"}


def test_a_rejected_probe_closes_the_circuit_and_uses_up_a_retry(stage: Deliveries) -> None:
    stage.endpoint(retry=(60,) * 5)
    stage.sender.answer = status(503)
    for number in range(6):
        stage.event(f"k{number}")
    stage.driver.advance(1)
    assert stage.state().circuit == "open"
    stage.sender.answer = status(422)
    stage.driver.advance(40)
    assert stage.state().circuit == "closed"
    assert stage.state().failing_since is not None
    assert [(row.attempts, row.round) for row in stage.rows()] == [(1, 1)] * 6
    stage.sender.answer = ok
    stage.driver.advance(80)
    assert {row.status for row in stage.rows()} == {"delivered"}


def test_after_a_rejected_probe_five_failures_open_the_circuit_again(stage: Deliveries) -> None:
    stage.endpoint(retry=(1,) * 50)
    stage.sender.answer = status(503)
    for number in range(6):
        stage.event(f"k{number}")
    stage.driver.advance(1)
    stage.sender.answer = status(422)
    stage.driver.advance(30)
    assert stage.state().circuit == "closed"
    sent = len(stage.sender.sent)
    stage.sender.answer = status(503)
    stage.driver.advance(20)
    assert stage.state().circuit == "open"
    assert len(stage.sender.sent) == sent + 5


def opened(stage: Deliveries) -> list[Delivery]:
    """300 rows of an endpoint whose circuit is open for a day, though its receiver is up now."""
    stage.endpoint(retry=(1,) * 50)
    stage.sender.answer = status(503, retry_after_seconds=DAY)
    for number in range(300):
        stage.event(f"k{number:03}")
    stage.driver.advance(10)
    assert stage.state().circuit == "open"
    stage.sender.sent.clear()
    stage.sender.answer = ok
    return stage.rows()


def test_a_test_that_succeeds_closes_the_circuit_and_lets_the_rows_go(stage: Deliveries) -> None:
    opened(stage)
    stage.command("test", delivery_id="dlv_t1")
    stage.driver.advance(1)
    assert (stage.state().circuit, stage.state().failing_since) == ("closed", None)
    stage.driver.advance(10)
    failed = [row for row in stage.rows() if row.status != "delivered"]
    assert [row.attempts for row in failed] == [1] * 5, "they wait as the receiver asked"


def test_a_test_that_fails_leaves_the_circuit_as_it_is(stage: Deliveries) -> None:
    opened(stage)
    before = stage.state()
    stage.sender.answer = status(503)
    stage.command("test", delivery_id="dlv_t1")
    stage.driver.advance(5)
    assert stage.state() == before


def test_a_delivery_that_is_retried_goes_at_once_and_closes_the_circuit(stage: Deliveries) -> None:
    *_, last = opened(stage)
    stage.command("retry", delivery_id=last.delivery_id)
    stage.driver.advance(0.1)
    assert stage.sender.sent[0].row.delivery_id == last.delivery_id
    assert stage.state().circuit == "closed"
    stage.driver.advance(10)
    assert len([row for row in stage.rows() if row.status == "delivered"]) >= 295


def test_a_retry_that_fails_opens_the_circuit_again(stage: Deliveries) -> None:
    *_, last = opened(stage)
    stage.sender.answer = status(503)
    stage.command("retry", delivery_id=last.delivery_id)
    stage.driver.advance(1)
    assert [each.row.delivery_id for each in stage.sender.sent] == [last.delivery_id]
    state = stage.state()
    assert (state.circuit, (state.open_until or 0) > stage.driver.now) == ("open", True)
    (retried,) = [row for row in stage.rows() if row.delivery_id == last.delivery_id]
    assert (retried.status, retried.round) == ("pending", 0)


def test_a_retry_whose_transaction_is_aborted_still_sends_one_delivery_at_once(
    stage: Deliveries,
) -> None:
    *_, last = opened(stage)
    with stage.driver.together():
        stage.command("retry", delivery_id=last.delivery_id)
        stage.driver.crash("delivery", "before_commit")
    stage.driver.advance(0.01)
    stage.driver.restart("delivery")
    stage.driver.advance(1)
    assert stage.state().circuit == "closed"


def test_a_recovery_sends_one_delivery_at_once_though_the_circuit_is_open(
    stage: Deliveries,
) -> None:
    opened(stage)
    stage.command("recover", since=0)
    stage.driver.advance(0.1)
    assert stage.state().circuit == "closed"


def test_the_probe_that_failed_goes_with_the_others_once_the_circuit_closes(
    stage: Deliveries,
) -> None:
    stage.endpoint(ordering="fifo", retry=(1,) * 50)
    stage.sender.answer = status(503)
    for number in range(4):
        stage.event(f"k{number}")
    stage.driver.advance(400)  # the probe has failed several times
    assert stage.state().circuit == "open"
    assert (stage.attempts()[-1].next_attempt_at or 0) >= (stage.state().open_until or 0)
    stage.sender.answer = ok
    stage.sender.sent.clear()
    stage.command("test", delivery_id="dlv_t1")
    stage.driver.advance(1)
    assert [each.row.message_id for each in stage.sender.sent[1:]] == [
        f"evt_k{n}" for n in range(4)
    ]


def test_five_days_of_nothing_but_rejections_disable_an_endpoint(stage: Deliveries) -> None:
    stage.endpoint()
    stage.sender.answer = status(422)
    for day in range(5):
        stage.event(f"k{day}")
        stage.driver.advance(0.1)
        stage.driver.advance(DAY)
    assert stage.state().disabled_because is None
    stage.event("k5")
    stage.driver.advance(3600)
    assert stage.state().disabled_because == "failing"


@pytest.mark.parametrize("ordering", ["parallel", "fifo_by_subject"])
def test_messages_on_which_a_receiver_crashes_hold_up_no_other(
    stage: Deliveries, ordering: str
) -> None:
    stage.endpoint(ordering=ordering, retry=(1,) * 50)
    for number in range(8):
        stage.event(f"first{number}", event_type="order.made")
        stage.driver.advance(0.1)
    stage.sender.answer = hang
    for number in range(40):
        stage.event(f"odd{number:02}", event_type=ODD, subject=f"s{number}")
    stage.driver.advance(0.5)
    stage.sender.answer = lambda a: status(500)(a) if a.message.type == ODD else {"status": 200}
    assert len(stage.sender.under_way) == 40
    for each in stage.sender.under_way:
        stage.sender.end(each, {"status": 500, "error": "status"})
    stage.driver.advance(3)  # they are due before all that come later
    assert stage.state().circuit == "open"
    for number in range(5):
        stage.event(f"k{number}", subject=f"k{number}")
    stage.driver.advance(200)
    assert [row.status for row in rows_of(stage, "order.paid")] == ["delivered"] * 5
    assert {row.status for row in rows_of(stage, ODD)} == {"pending"}
    stage.sender.answer = ok
    stage.driver.advance(400)
    assert {row.status for row in stage.rows()} == {"delivered"}
