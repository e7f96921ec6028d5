"""The process of the delivery stage on a real broker: no accepted delivery is lost (G6, G7, G8)."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook
from support.conditions import eventually
from support.delivery_processes import BODY, SECRET, DeliveryProcesses, delivering

pytestmark = pytest.mark.broker

HOUR = 3600


@pytest.fixture
def stage(kafka: Any, tmp_path: Path) -> Iterator[DeliveryProcesses]:
    with delivering(kafka, tmp_path) as made:
        yield made


def test_an_event_is_posted_once_signed_and_its_row_survives_the_loss_of_the_state(
    stage: DeliveryProcesses,
) -> None:
    first = stage.start()
    stage.endpoint(format="raw")
    event_id = stage.event()
    row = stage.row_of(event_id, "delivered")
    headers, body = stage.receiver.got[0]
    Webhook(SECRET.decode()).verify(body, headers)
    assert (body, headers["webhook-id"], row.attempts) == (BODY, event_id, 1)
    first.kill()
    shutil.rmtree(stage.folder / "data0")
    stage.start()
    later = stage.row_of(stage.event("k2"), "delivered")
    assert stage.rows() == [row, later]
    assert stage.receiver.ids == [event_id, "evt_k2"]
    assert len(stage.attempts()) == 2


def test_an_attempt_whose_end_was_not_recorded_is_made_again_under_the_same_id(
    stage: DeliveryProcesses,
) -> None:
    stage.receiver.answers = [0]
    killed = stage.start()
    stage.endpoint(timeout_seconds=60)
    event_id = stage.event()
    eventually(lambda: stage.receiver.got, what="the request")
    killed.kill()
    stage.start()
    row = stage.row_of(event_id, "delivered")
    assert (stage.receiver.ids, row.attempts) == ([event_id] * 2, 1)
    assert len(stage.attempts()) == len(stage.rows()) == 1


@pytest.mark.parametrize("step", ["before_commit", "after_commit"])
def test_a_row_whose_process_dies_around_its_commit_is_delivered_once(
    stage: DeliveryProcesses, step: str
) -> None:
    killed = stage.start()
    stage.endpoint()
    stage.row_of(stage.event("k0"), "delivered")
    killed.points.arm(step, signal.SIGKILL)
    event_id = stage.event()
    killed.await_fault(step, signal.SIGKILL)
    stage.start()
    stage.row_of(event_id, "delivered")
    assert stage.receiver.ids == ["evt_k0", event_id]


def test_a_stage_that_stops_records_what_ends_soon(stage: DeliveryProcesses) -> None:
    stage.receiver.answers = [0]
    former = stage.start()
    stage.endpoint(timeout_seconds=60)
    event_id = stage.event()
    eventually(lambda: stage.receiver.got, what="the request")
    former.signal(signal.SIGTERM)
    former.wait_for("stage drains")
    stage.receiver.let_go.set()
    assert former.exit_code() == 0
    assert stage.row_of(event_id, "delivered").attempts == 1
    stage.start()
    stage.row_of(stage.event("k2"), "delivered")
    assert stage.receiver.ids == [event_id, "evt_k2"]


def test_the_heir_of_a_partition_makes_an_attempt_again_that_was_under_way(
    stage: DeliveryProcesses,
) -> None:
    stage.receiver.answers = [0]
    former = stage.start("0")
    stage.endpoint(timeout_seconds=60)
    event_id = stage.event()
    eventually(lambda: stage.receiver.got, what="the request")
    assert former.stop() == 0
    stage.start("1")
    row = stage.row_of(event_id, "delivered")
    assert (stage.receiver.ids, row.attempts) == ([event_id] * 2, 1)


def test_what_happened_before_the_first_start_is_delivered(stage: DeliveryProcesses) -> None:
    stage.endpoint()
    names = [stage.event(f"k{number}") for number in range(20)]
    stage.start()
    for name in names:
        stage.row_of(name, "delivered")
    assert sorted(stage.receiver.ids) == sorted(names)


def test_retries_come_after_the_wall_clock_was_set_back(stage: DeliveryProcesses) -> None:
    stage.receiver.answers = [0, 302, 503]
    first = stage.start()
    stage.endpoint(retry=(5, 0.1, 0.1))
    event_id = stage.event()
    eventually(stage.attempts, what="the first attempt's end")
    first.kill()
    assert len(stage.attempts()) == 1
    stage.start(wall_clock_off=-HOUR)
    row = stage.row_of(event_id, "delivered")
    assert row.attempts == len(stage.receiver.got) == 4
    assert set(stage.receiver.ids) == {event_id}


def test_410_disables_the_endpoint_and_parks_its_rows(stage: DeliveryProcesses) -> None:
    stage.receiver.answers = [410]
    stage.start()
    stage.endpoint()
    row = stage.row_of(stage.event(), "parked")
    later = stage.row_of(stage.event("k2"), "parked")
    assert row.parked_because == later.parked_because == "endpoint_disabled"
    assert stage.endpoint_states()[-1].disabled_because == "gone"
    assert len(stage.receiver.got) == 1


@pytest.mark.parametrize("url", ["", "http://nowhere.invalid/hook"], ids=["silence", "wrong name"])
def test_a_row_that_never_gets_through_is_dead_after_its_last_attempt(
    stage: DeliveryProcesses, url: str
) -> None:
    stage.receiver.answers = [0, 302, 503]
    stage.start()
    stage.endpoint(retry=(0.1, 0.1), url=url or stage.receiver.url)
    row = stage.row_of(stage.event(), "dead")
    assert row.attempts == len(stage.attempts()) == 3
