"""Endpoints are told once that an approval is asked for, and once how it ended."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, get_args

import orjson
import pytest
from support.asking import HOUR_MS, Asker, refund
from support.delivering import Deliveries
from support.office import VAULT

from streams import dispatcher, scheduler
from streams.http.moments import rfc3339
from streams.runtime.memory_broker import CrashPoint
from streams.runtime.stage import FusedStage
from streams.serde.codec import APPROVAL, DEAD_LETTER
from streams.serde.keys import approval_key
from streams.serde.records import Approval, Lease, Wait
from streams.vault.sealed_json import seal_json

DAY = 86_400.0
REQUESTED, DECIDED = "approval.requested", "approval.decided"


class Told:
    """A dispatcher whose jobs ask, and the delivery stage beside it."""

    def __init__(self, layout: str = "apart") -> None:
        self.asker = Asker()
        self.driver = self.asker.desk.driver
        topology = self.asker.desk.topology
        stages = (scheduler.stage(topology), dispatcher.stage(topology))
        self.others = [FusedStage("pipeline", stages)] if layout == "fused" else [*stages]
        self.stage = Deliveries(self.driver)
        self.begin()

    def begin(self) -> None:
        """Start the delivery stage where it stopped."""
        self.driver.lay_out([*self.others, self.stage.stage])
        self.driver.advance(0.1)

    def without_delivery(self) -> None:
        self.driver.lay_out(self.others)

    def endpoint(self, **settings: Any) -> None:
        """Set an endpoint that asks for approvals."""
        self.stage.endpoint(**{"events": ("approval.*",), **settings})

    def types(self) -> list[str]:
        return [attempt.message.type for attempt in self.stage.sender.sent]

    def data(self) -> list[Any]:
        return [orjson.loads(a.message.data or b"") for a in self.stage.sender.sent]

    def statuses(self) -> list[str]:
        return [data["status"] for data in self.data()]

    def write(self, approval: Approval, **changes: Any) -> None:
        """Have another record of an approval on the topic."""
        found = dataclasses.replace(approval, **changes)
        key = approval_key(found.tenant_id, found.scope, found.approval_id)
        self.driver.pipe("approvals", key, APPROVAL.encode(found))
        self.driver.advance(1)


@pytest.fixture
def told() -> Told:
    return Told()


def waiting(told: Told, **more: Any) -> tuple[Lease, str]:
    """A job that waits for an approval of which all endpoints have been told by now."""
    lease, id_ = told.asker.waiting(**more)
    told.driver.advance(1)
    return lease, id_


@pytest.mark.parametrize("layout", ["apart", "fused"])
def test_an_approval_that_is_asked_for_is_sent_without_what_is_sealed(layout: str) -> None:
    told = Told(layout)
    told.stage.endpoint("asked", events=(REQUESTED,))
    told.stage.endpoint("ends", events=("job.*",))
    trace = f"00-{'a' * 32}-{'b' * 16}-01"
    told.asker.desk.submit("job_s", traceparent=trace)
    lease = told.asker.go_on("job_s")
    id_ = told.asker.ask(lease)
    told.driver.advance(1)
    approval = told.asker.approval()
    (attempt,) = told.stage.sender.sent
    message = attempt.message
    assert (attempt.row.endpoint_id, message.type) == ("asked", REQUESTED)
    assert (message.source, message.subject, message.job_id) == ("tidegate", *[lease.job_id] * 2)
    assert (message.time, attempt.row.kind) == (approval.asked_at, "job")
    assert (message.traceparent, attempt.row.traceparent) == (trace, trace)
    assert orjson.loads(message.data or b"") == {
        "approval_id": id_,
        "tenant_id": "acme",
        "job_id": lease.job_id,
        "job_type": "draft_reply",
        "key": "refund",
        "effects": [{"tool": "pay:refund", "key": "ch_1"}],
        "status": "pending",
        "quorum": 1,
        "asked_at": rfc3339(approval.asked_at),
        "expires_at": rfc3339(approval.asked_at + HOUR_MS),
        "ended_at": None,
        "href": f"/v1/approvals/{id_}",
    }
    told.asker.decide(lease, id_)
    told.driver.advance(1)
    assert told.types() == [REQUESTED]


def test_nothing_that_a_person_wrote_or_changed_is_sent(told: Told) -> None:
    told.endpoint()
    lease, id_ = waiting(told)
    edit = seal_json(None, VAULT, "acme", id_, {"edit": {}, "arguments": [refund(41_000)]})
    told.asker.decide(lease, id_, edit=edit, edited=(b"d" * 32,))
    told.driver.advance(1)
    assert told.types() == [REQUESTED, DECIDED]
    assert told.asker.approval().by == "ann"
    for found in told.data():
        assert found.keys().isdisjoint({"by", "note", "edit", "prompt", "votes", "digest"})
        assert "noted" not in str(found)


Act = Callable[[Told, Lease, str], object]
ENDS: dict[str, Act] = {
    "approved": lambda told, lease, id_: told.asker.decide(lease, id_),
    "rejected": lambda told, lease, id_: told.asker.decide(lease, id_, approved=False),
    "expired": lambda told, *_: told.asker.worker.stay(3_601),
    "cancelled": lambda told, lease, _: told.asker.desk.cancel(lease.job_id),
}


@pytest.mark.parametrize("end", ENDS)
def test_an_end_of_each_kind_is_sent_once(told: Told, end: str) -> None:
    told.endpoint()
    lease, id_ = waiting(told)
    ENDS[end](told, lease, id_)
    told.driver.advance(1)
    assert told.types() == [REQUESTED, DECIDED]
    assert told.statuses() == ["pending", end]
    ended = told.asker.approval().ended_at
    assert told.stage.sender.sent[-1].message.time == ended
    assert told.data()[-1]["ended_at"] == rfc3339(ended)


def reads_all_again(told: Told) -> None:
    """The positions of the stage's group are lost, and its disk too."""
    told.driver.run_of("delivery").offsets.clear()
    told.driver.restart("delivery")


AGAIN: dict[str, Act] = {
    "a vote": lambda told, lease, id_: told.asker.decide(lease, id_),
    "asking again": lambda told, lease, _: told.asker.ask(lease),
    "a restart": lambda told, *_: told.driver.restart("delivery", keep_state=True),
    "a lost disk": lambda told, *_: told.driver.restart("delivery"),
    "lost positions": lambda told, *_: reads_all_again(told),
    "a restore of the dispatcher": lambda told, *_: told.driver.restart("dispatcher"),
    "an endpoint set again": lambda told, *_: told.endpoint(timeout_seconds=5),
}


@pytest.mark.parametrize("again", AGAIN)
def test_a_pending_approval_is_sent_once(told: Told, again: str) -> None:
    told.endpoint()
    lease = told.asker.job()
    id_ = told.asker.ask(lease, quorum=2)
    told.driver.advance(1)
    assert told.types() == [REQUESTED]
    AGAIN[again](told, lease, id_)
    told.driver.advance(5)
    assert told.types() == [REQUESTED]
    assert told.stage.row().attempts == 1


@pytest.mark.parametrize("again", ["a vote", "lost positions"])
def test_an_approval_whose_delivery_is_deleted_by_now_is_not_sent_again(
    told: Told, again: str
) -> None:
    told.endpoint()
    told.asker.desk.submit("job_s")  # the body of an event would not be kept for so long
    lease = told.asker.go_on("job_s")
    id_ = told.asker.ask(lease, quorum=2, timeout_ms=int(60 * DAY * 1000))
    told.asker.park(lease, id_)
    told.driver.advance(1)
    assert told.types() == [REQUESTED]
    told.driver.advance(29 * DAY)
    assert told.stage.rows() == []
    AGAIN[again](told, lease, id_)
    told.driver.advance(5)
    assert (told.asker.approval().status, told.types()) == ("pending", [REQUESTED])


def test_a_question_that_was_dropped_and_is_asked_anew_is_sent_again(told: Told) -> None:
    told.endpoint()
    lease = told.asker.job()
    id_ = told.asker.ask(lease)
    told.asker.park(lease, id_, Wait("sleep", "time", 0, b"s", group=0, timeout_ms=60_000))
    told.asker.worker.stay(61)
    told.asker.ask(told.asker.go_on(lease.job_id))
    told.driver.advance(1)
    assert told.statuses() == ["pending", "cancelled", "pending"]
    assert len({row.message_id for row in told.stage.rows()}) == 3


@pytest.mark.parametrize("point", get_args(CrashPoint))
@pytest.mark.parametrize("crashing", ["dispatcher", "delivery"])
def test_a_crash_at_each_point_loses_and_repeats_nothing(
    told: Told, crashing: str, point: CrashPoint
) -> None:
    told.endpoint()
    lease = told.asker.job()
    told.driver.crash(crashing, point)
    id_ = told.asker.ask(lease)
    told.driver.advance(1)
    told.driver.crash(crashing, point)
    told.asker.decide(lease, id_)
    told.driver.advance(1)
    rows = {(row.type, row.status, row.attempts) for row in told.stage.rows()}
    assert rows == {(REQUESTED, "delivered", 1), (DECIDED, "delivered", 1)}


def test_a_decision_before_the_stage_reads_the_question_leaves_both_messages(told: Told) -> None:
    told.endpoint()
    told.without_delivery()
    lease, id_ = told.asker.waiting()
    told.asker.decide(lease, id_)
    told.begin()
    told.driver.advance(1)
    assert sorted(told.types()) == [DECIDED, REQUESTED]


def test_a_question_that_was_compacted_away_is_not_sent_after_its_decision(told: Told) -> None:
    told.endpoint()
    told.without_delivery()
    lease, id_ = told.asker.waiting()
    told.asker.decide(lease, id_)
    log = told.driver.output("approvals")
    told.driver._broker.records["approvals", 0][:] = [log[0]._replace(value=None), log[-1]]
    told.begin()
    told.driver.advance(1)
    assert told.types() == [DECIDED]


def test_a_vote_that_stands_for_a_compacted_question_tells_of_it(told: Told) -> None:
    told.endpoint()
    told.without_delivery()
    lease, id_ = told.asker.waiting(quorum=2)
    told.asker.decide(lease, id_)
    log = told.driver.output("approvals")
    told.driver._broker.records["approvals", 0][:] = [log[0]._replace(value=None), log[-1]]
    told.begin()
    told.driver.advance(1)
    assert told.types() == [REQUESTED]


def test_an_endpoint_is_not_told_of_what_was_asked_before_it(told: Told) -> None:
    lease, id_ = waiting(told, quorum=2)
    told.driver.advance(5)
    told.endpoint()
    told.asker.decide(lease, id_)
    told.driver.advance(1)
    assert told.types() == []
    told.asker.decide(lease, id_, by="bob")
    told.driver.advance(1)
    assert told.types() == [DECIDED]


def test_an_approval_that_was_read_before_the_setting_that_preceded_it_is_sent(told: Told) -> None:
    created = told.driver.now
    told.driver.advance(1)
    waiting(told)
    told.driver.advance(5)
    assert told.types() == []
    told.endpoint(created=created)
    told.driver.advance(1)
    assert told.types() == [REQUESTED]


def test_a_disabled_tenant_waits_and_an_erased_one_is_forgotten(told: Told) -> None:
    told.endpoint()
    told.stage.tenant(disabled=True)
    told.asker.desk.driver.advance(1)
    told.stage.tenant(disabled=False)
    lease = told.asker.job()
    told.stage.tenant(disabled=True)
    told.asker.ask(lease)
    told.driver.advance(1)
    assert (told.types(), [row.status for row in told.stage.rows()]) == ([], ["pending"])
    approval = told.asker.approval()
    told.stage.tenant(kind="erasure")
    told.driver.advance(1)
    told.write(approval, asked_at=told.driver.now)
    assert (told.types(), told.stage.rows()) == ([], [])


def test_a_disabled_endpoint_keeps_the_message_parked(told: Told) -> None:
    told.endpoint(enabled=False)
    waiting(told)
    assert (told.stage.row().status, told.stage.row().type) == ("parked", REQUESTED)
    told.endpoint()
    told.stage.command("recover", since=0)
    told.driver.advance(1)
    assert told.types() == [REQUESTED]


def test_a_record_that_cannot_be_used_holds_up_no_other(told: Told) -> None:
    told.endpoint()
    waiting(told)
    approval = told.asker.approval()
    told.driver.pipe("approvals", b"k", b"no approval")
    told.write(approval, approval_id="a\0b")
    told.write(approval, approval_id="later", status="of a later release")
    told.driver.pipe("approvals", b"k", None)
    told.write(approval, approval_id="good")
    assert [data["approval_id"] for data in told.data()] == [approval.approval_id, "good"]
    reasons = [DEAD_LETTER.decode(each.value).reason for each in told.driver.output("dlq")]
    assert len(reasons) == 2
    assert reasons[1] == "bad_id"
