"""The delivery stage among odd records, rollbacks, removals and floods: it loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from support import audited
from support.delivering import Deliveries, hang, ok, status

from streams.delivery import stage as room
from streams.delivery.attempts import Attempt
from streams.delivery.parts import fan_out, upkeep
from streams.delivery.rotation import Rotation
from streams.delivery.slots import Slots
from streams.delivery.store import ASKED, DeliveryStore

DAY = 86_400.0


@pytest.fixture
def stage() -> Deliveries:
    return Deliveries()


def test_a_rate_with_fractions_of_milliseconds_never_loses_its_turn(stage: Deliveries) -> None:
    stage.endpoint(rate={"count": 10, "seconds": 10.003})
    for number in range(5):
        stage.event(f"k{number}")
    stage.driver.advance(10)
    assert {row.status for row in stage.rows()} == {"delivered"}


def test_a_rate_that_was_removed_holds_nothing_up(stage: Deliveries) -> None:
    stage.endpoint(rate={"count": 1, "seconds": 86_400})
    stage.event("k1")
    stage.event("k2")
    stage.driver.advance(1)
    stage.endpoint()
    stage.event("k3")
    stage.driver.advance(1)
    assert [row.status for row in stage.rows()] == ["delivered"] * 3


def test_a_poison_record_in_the_past_of_a_new_endpoint_does_not_end_the_stage(
    stage: Deliveries,
) -> None:
    created = stage.driver.now
    stage.driver.advance(1)
    stage.driver.pipe("events", b"acme", b"no envelope")
    stage.driver.pipe("jobs", b"job_1", b"no job")
    stage.event("k1")
    stage.driver.advance(5)
    stage.endpoint(created=created)
    stage.driver.advance(0.2)
    assert [row.status for row in stage.rows()] == ["delivered"]


def test_the_end_of_an_attempt_that_changes_nothing_holds_no_other_attempt_back(
    stage: Deliveries,
) -> None:
    stage.endpoint("crm")
    stage.endpoint("crm", "other", retry=(5, 5))
    stage.sender.answer = lambda a: hang(a) if a.row.tenant_id == "acme" else status(500)(a)
    stage.event("k1")
    stage.event("k2", "other")
    stage.driver.advance(0.1)
    stage.tenant(kind="erasure")
    stage.driver.advance(1)
    (under_way,) = stage.sender.under_way
    stage.sender.end(under_way, {"status": 200})
    stage.sender.answer = ok
    stage.driver.advance(20)
    assert [row.status for row in stage.rows()] == ["delivered"]


def test_the_memory_of_the_rotation_does_not_grow_with_the_traffic() -> None:
    rotation, endpoint = Rotation(), ("acme", "crm")
    for now in range(10_000):
        rotation.sleep(endpoint, 1_000_000)
        rotation.wake(endpoint)
        rotation.turns(now)
    rotation.sleep(endpoint, 1_000_000)
    assert len(rotation) < 200
    assert rotation.turns(1_000_000) == [("acme", "crm")]


def test_notices_of_many_endpoints_disabled_at_once_are_made_in_bounded_steps(
    stage: Deliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fan_out, "_IN_A_STEP", 40)
    monkeypatch.setattr(fan_out, "_IN_A_PART", 15)
    for number in range(30):
        stage.endpoint(f"e{number:02}")
    stage.endpoint("watch", events=("endpoint.disabled",))
    stage.sender.answer = lambda a: {"status": 200} if "watch" in a.url else status(410)(a)
    stage.event("k1")
    largest, rows = 0, 0
    for _ in range(100):
        stage.driver.advance(0.01)
        largest, rows = max(largest, len(stage.rows()) - rows), len(stage.rows())
    assert largest <= 40 + 15  # a step and a part
    stage.driver.advance(5)
    told = [row for row in stage.rows() if row.endpoint_id == "watch"]
    assert [row.status for row in told] == ["delivered"] * 30


def test_nothing_is_sent_before_its_commit_when_a_poison_record_stands_behind_it(
    stage: Deliveries,
) -> None:
    stage.endpoint()
    task, uncommitted = stage.driver.task("delivery"), list[bool]()

    def noted(_: Attempt) -> dict[str, int]:
        uncommitted.append(task.dirty)
        return {"status": 200}

    stage.sender.answer = noted
    with stage.driver.together():
        stage.event("k1")
        stage.driver.pipe("events", b"acme", b"no envelope")
        stage.driver.run_of("delivery").step(punctuate=True)
    assert uncommitted == [False]


def test_what_happens_while_the_past_is_read_is_not_read_again(stage: Deliveries) -> None:
    created = stage.driver.now
    stage.driver.advance(1)
    stage.event("missed")
    stage.driver.advance(5)
    stage.history.away, stage.history.most = True, 1
    stage.endpoint(created=created)
    stage.driver.advance(120)
    for number in range(20):
        stage.event(f"k{number}")
    stage.history.away = False
    stage.driver.advance(1)
    assert [row.status for row in stage.rows()] == ["delivered"] * 21
    assert len(stage.history.read_before) == 2


def test_an_end_that_was_rolled_back_is_not_forgotten_with_the_next_commit(
    stage: Deliveries,
) -> None:
    stage.endpoint()
    stage.sender.answer = hang
    stage.event("k1")
    stage.driver.advance(0.1)
    (under_way,) = stage.sender.under_way
    stage.sender.end(under_way, {"status": 200})
    task = stage.driver.task("delivery")
    task.punctuate()
    task.rollback()
    stage.event("k2")
    stage.sender.answer = ok
    stage.driver.advance(1)
    assert [a.row.message_id for a in stage.sender.sent] == ["evt_k1", "evt_k2"]


def test_one_callback_that_is_gone_does_not_disable_the_others(stage: Deliveries) -> None:
    stage.endpoint("callbacks", url=None)
    stage.sender.answer = lambda a: status(410)(a) if "gone" in a.url else {"status": 200}
    stage.job("job_1", status="succeeded", callback_url="https://gone.example/done")
    stage.driver.advance(0.1)
    stage.job("job_2", status="succeeded", callback_url="https://acme.example/done")
    stage.driver.advance(0.1)
    assert [(r.job_id, r.status) for r in stage.rows()] == [
        ("job_1", "dead"),
        ("job_2", "delivered"),
    ]
    assert stage.state("callbacks").disabled_because is None


def test_nothing_is_kept_of_what_an_erased_tenant_does_later(stage: Deliveries) -> None:
    stage.tenant(kind="erasure")
    stage.driver.advance(1)
    stage.endpoint()
    stage.event(subject="secret")
    stage.job("job_1", status="succeeded", callback_url="https://acme.example/d", result='"secret"')
    stage.driver.advance(1)
    assert stage.rows() == []
    kept = stage.driver.store("delivery", "queue").range(b"", b"\xff")
    assert [value for _, value in kept if b"secret" in value] == []


def test_a_recovery_keeps_the_order_of_a_fifo_endpoint(
    stage: Deliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "_CHANGED", 10)
    stage.endpoint(ordering="fifo", enabled=False)
    for number in range(35):
        stage.event(f"k{number:02}")
    stage.endpoint(ordering="fifo")
    stage.command("recover", since=0)
    stage.event("k99")
    stage.driver.advance(10)
    order = [a.row.message_id for a in stage.sender.sent]
    assert order == [f"evt_k{number:02}" for number in range(35)] + ["evt_k99"]
    assert {row.status for row in stage.rows()} == {"delivered"}


@pytest.mark.parametrize("ended", ["dead", "delivered"])
def test_a_recovery_of_rows_that_ended_keeps_the_order_of_a_fifo_endpoint(
    stage: Deliveries, monkeypatch: pytest.MonkeyPatch, ended: str
) -> None:
    monkeypatch.setattr(upkeep, "_CHANGED", 10)
    stage.endpoint(ordering="fifo", retry=())
    stage.sender.answer = ok if ended == "delivered" else status(422)
    for number in range(35):
        stage.event(f"k{number:02}")
    stage.driver.advance(10)
    assert [row.status for row in stage.rows()] == [ended] * 35
    stage.sender.answer = ok
    stage.sender.sent.clear()
    stage.command("recover", since=0, statuses=(ended,))
    stage.event("k99")
    stage.driver.advance(0.02)
    stage.driver.restart("delivery")  # in the middle of the recovery
    stage.driver.advance(10)
    order = [a.row.message_id for a in stage.sender.sent]
    assert order == [f"evt_k{number:02}" for number in range(35)] + ["evt_k99"]


def test_more_dead_rows_than_one_part_holds_are_recovered_in_the_order_of_a_fifo_endpoint(
    stage: Deliveries,
) -> None:
    stage.endpoint(ordering="fifo", retry=())
    stage.sender.answer = status(422)
    names = [f"k{number:03}" for number in range(upkeep._CHANGED + 30)]
    for name in names:
        stage.event(name)
    stage.driver.advance(30)
    assert {row.status for row in stage.rows()} == {"dead"}
    stage.sender.answer = ok
    stage.sender.sent.clear()
    stage.command("recover", since=0)
    stage.driver.advance(30)
    assert [a.row.message_id for a in stage.sender.sent] == [f"evt_{name}" for name in names]


def test_a_parked_row_that_is_retried_goes_before_those_that_came_later(stage: Deliveries) -> None:
    stage.endpoint(ordering="fifo", enabled=False)
    stage.event("k0")
    (parked,) = stage.rows()
    stage.endpoint(ordering="fifo")
    stage.sender.answer = hang
    for number in range(1, 4):
        stage.event(f"k{number}")
    stage.driver.advance(0.1)
    stage.command("retry", delivery_id=parked.delivery_id)
    (under_way,) = stage.sender.under_way
    stage.sender.answer = ok
    stage.sender.end(under_way, {"status": 200})
    stage.driver.advance(1)
    order = [a.row.message_id for a in stage.sender.sent]
    assert order == ["evt_k1", "evt_k0", "evt_k2", "evt_k3"]
    assert {row.status for row in stage.rows()} == {"delivered"}


def test_a_test_of_an_endpoint_that_is_removed_is_parked(stage: Deliveries) -> None:
    stage.endpoint()
    stage.sender.answer = status(500)
    stage.command("test", delivery_id="dlv_t1")
    stage.driver.advance(0.1)
    stage.remove()
    stage.driver.advance(0.1)
    assert (stage.row().status, stage.row().parked_because) == ("parked", "endpoint_removed")
    stage.command("retry", delivery_id="dlv_t1")
    stage.driver.advance(0.1)
    assert stage.row().status == "parked"


def test_a_later_record_of_the_same_end_does_not_change_what_is_sent(stage: Deliveries) -> None:
    stage.endpoint("crm", retry=(5,))
    stage.sender.answer = status(500)
    stage.job(status="failed", last_error="first")
    stage.driver.advance(0.1)
    stage.endpoint("late")
    stage.job(status="failed", last_error="second")
    stage.driver.advance(20)
    assert len({a.message.data for a in stage.sender.sent}) == 1


def test_an_endpoint_that_a_person_enables_again_has_its_five_days_anew(stage: Deliveries) -> None:
    stage.endpoint(retry=(3600,) * 50)
    stage.sender.answer = status(500)
    stage.event("k1")
    stage.driver.advance(DAY)
    stage.endpoint(retry=(3600,) * 50, enabled=False)
    stage.driver.advance(5 * DAY)
    stage.endpoint(retry=(3600,) * 50, enabled=True)
    stage.event("k2")
    stage.driver.advance(60)
    assert stage.state().disabled_because is None


def test_a_callback_that_was_read_before_the_setting_that_preceded_it_is_sent(
    stage: Deliveries,
) -> None:
    created = stage.driver.now
    stage.driver.advance(1)
    stage.job(status="succeeded", callback_url="https://acme.example/done")
    stage.driver.advance(0.1)
    assert stage.row().status == "parked"
    stage.endpoint("callbacks", url=None, created=created)
    stage.driver.advance(0.2)
    assert stage.row().status == "delivered"


def test_a_result_that_is_nested_very_deep_does_not_end_the_stage(stage: Deliveries) -> None:
    stage.endpoint()
    deep = "[" * 254 + "1e15" + "]" * 254  # a handler may return this
    stage.job(status="succeeded", result=deep)
    stage.command("test", delivery_id="dlv_t1", sample="[" * 900 + "]" * 900)
    stage.driver.advance(0.1)
    assert {row.status for row in stage.rows()} == {"delivered"}
    (told, _) = stage.sender.sent
    assert f'"result":{deep}'.encode() in (told.message.data or b"")


def test_what_a_former_url_answers_is_not_held_against_the_new_one(stage: Deliveries) -> None:
    stage.endpoint()
    stage.sender.answer = hang
    stage.event("k1")
    stage.driver.advance(0.1)
    (under_way,) = stage.sender.under_way
    stage.endpoint(url="https://moved.example/hook")
    stage.sender.answer = ok
    stage.sender.end(under_way, {"status": 410, "error": "status"})
    stage.driver.advance(10)
    assert stage.state().disabled_because is None
    assert stage.row().status == "delivered"


def test_another_url_is_tried_at_once_whatever_the_former_one_asked_for(stage: Deliveries) -> None:
    stage.endpoint(retry=(1,) * 50)
    stage.sender.answer = status(503, retry_after_seconds=86_400)
    for number in range(5):
        stage.event(f"k{number}")
    stage.driver.advance(60)
    assert stage.state().circuit == "open"
    stage.sender.answer = ok
    stage.endpoint(url="https://moved.example/hook", retry=(1,) * 50)
    stage.event("new")
    stage.driver.advance(1)
    assert stage.rows()[-1].status == "delivered"
    assert stage.state().circuit == "closed"


@pytest.mark.parametrize("change", ["circuit", "disabled", "removed", "erased", "rotated", "moved"])
def test_what_waits_in_the_sender_is_not_sent_after_a_change(
    stage: Deliveries, change: str
) -> None:
    stage.endpoint(set_at=1)
    for number in range(40):
        stage.event(f"k{number:02}")
        stage.driver.advance(0.1)
    stage.sender.answer = hang
    for number in range(40, 60):
        stage.event(f"k{number:02}")
    stage.driver.advance(0.1)
    first, *waiting = stage.sender.under_way
    assert [each.wanted() for each in waiting] == [True] * 19
    changes: dict[str, Callable[[], None]] = {
        "disabled": lambda: stage.endpoint(enabled=False),
        "removed": stage.remove,
        "erased": lambda: stage.tenant(kind="erasure"),
        "rotated": stage.rotate,
        "moved": lambda: stage.endpoint(url="https://moved.example/hook"),
    }
    for each in waiting[:5] if change == "circuit" else ():
        stage.sender.end(each, {"status": 500, "error": "status"})
    changes.get(change, lambda: None)()
    stage.driver.advance(0.1)
    assert not any(each.wanted() for each in waiting[5:])
    attempts = len(stage.attempts())
    stage.sender.answer = ok
    for each in waiting[5:]:
        stage.sender.end(each, {"error": "withdrawn", "blame": "nobody"})
    stage.driver.advance(1)
    known = {"circuit": "pending", "disabled": "parked", "removed": "parked"}
    wanted = {each.row.delivery_id for each in waiting[5:]}
    found = {row.status for row in stage.rows() if row.delivery_id in wanted}
    assert found == (set() if change == "erased" else {known.get(change, "delivered")})
    if known.get(change):
        assert len(stage.attempts()) == attempts
    if change == "circuit":
        stage.sender.end(first, {"status": 200})
        stage.driver.advance(60)
        assert {row.status for row in stage.rows()} == {"delivered"}


def test_a_tenant_with_many_hanging_endpoints_leaves_slots_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room, "Slots", lambda: Slots(total=80, unproven=20))
    stage = Deliveries()
    for number in range(40):
        stage.endpoint(f"e{number:02}")
    stage.endpoint("crm", "other")
    stage.sender.answer = lambda a: hang(a) if a.row.tenant_id == "acme" else ok(a)
    stage.event("k1")
    stage.driver.advance(1)
    assert len(stage.sender.under_way) == 15
    stage.event("k2", "other")
    stage.driver.advance(0.1)
    assert [row.status for row in stage.rows() if row.tenant_id == "other"] == ["delivered"]
    for _ in range(3):  # and the others of the tenant follow as slots are free again
        under_way, stage.sender.under_way = stage.sender.under_way, []
        for each in under_way:
            stage.sender.end(each, {"status": 200})
        stage.driver.advance(1)
    assert {row.status for row in stage.rows()} == {"delivered"}


def test_what_cannot_be_signed_is_tried_ever_more_seldom_and_sent_once_it_can(
    stage: Deliveries,
) -> None:
    stage.endpoint()
    stage.sender.answer = lambda _: {"error": "unsigned", "blame": "us"}
    stage.event("k1")
    stage.driver.advance(DAY)
    assert 200 < len(stage.attempts()) < 300
    stage.sender.answer = ok
    stage.driver.advance(300)
    assert stage.row().status == "delivered"


def test_callbacks_whose_url_is_dead_do_not_hold_up_those_of_other_urls(stage: Deliveries) -> None:
    stage.endpoint("callbacks", url=None)
    dead = status(503, retry_after_seconds=86_400)
    stage.sender.answer = lambda a: dead(a) if "dead" in a.url else {"status": 200}
    for number in range(30):
        stage.job(f"job_{number:02}", status="succeeded", callback_url="https://dead.example/done")
    stage.driver.advance(600)
    stage.job("job_99", status="succeeded", callback_url="https://acme.example/done")
    stage.driver.advance(1)
    assert stage.rows()[-1].status == "delivered"
    stage.driver.advance(6 * DAY)
    stage.job("job_98", status="succeeded", callback_url="https://acme.example/done")
    stage.driver.advance(1)
    told = {row.job_id: row.status for row in stage.rows()}
    assert (told["job_98"], stage.state("callbacks").disabled_because) == ("delivered", None)


def test_a_callback_is_sent_though_the_stage_s_clock_is_behind_the_setting_s_time(
    stage: Deliveries,
) -> None:
    created = stage.driver.now + 500  # the stage knows a lower bound of the broker's time
    stage.job(status="succeeded", callback_url="https://acme.example/done")
    stage.driver.advance(0.1)
    stage.endpoint("callbacks", url=None, created=created)
    stage.driver.advance(0.2)
    assert stage.row().status == "delivered"


def test_a_row_whose_message_is_gone_holds_up_no_other(stage: Deliveries) -> None:
    stage.endpoint()
    stage.sender.answer = status(500)
    stage.event("k1")
    stage.driver.advance(0.1)
    store = stage.driver.store("delivery", "queue")
    for key, _ in list(store.range(b"m", b"n")):
        store.delete(key)
    stage.sender.answer = ok
    stage.driver.advance(10)
    stage.event("k2")
    stage.driver.advance(1)
    assert [row.status for row in stage.rows()] == ["pending", "delivered"]


def test_a_recovery_that_is_asked_for_again_after_another_is_not_begun_again(
    stage: Deliveries,
) -> None:
    stage.endpoint(retry=())
    stage.sender.answer = lambda _: {"error": "body_unusable", "blame": "message"}
    stage.event("k1")
    stage.driver.advance(1)
    first = stage.command("recover", since=0)
    stage.driver.advance(1)
    stage.command("recover", since=0)
    stage.driver.advance(1)
    assert len(stage.sender.sent) == 3
    stage.driver.restart("delivery")
    stage.repeat(first)
    stage.driver.advance(1)
    assert len(stage.sender.sent) == 3
    kept = b"D", b"E"
    assert len(list(stage.driver.store("delivery", "queue").range(*kept))) == 2
    stage.driver.advance(15 * DAY)
    stage.command("recover", since=0)
    stage.driver.advance(1)
    assert len(list(stage.driver.store("delivery", "queue").range(*kept))) == 1
    stage.remove()
    stage.driver.advance(1)
    assert list(stage.driver.store("delivery", "queue").range(*kept)) == []


def test_the_audit_has_what_a_recovery_takes(stage: Deliveries) -> None:
    stage.endpoint()
    command = stage.command("recover", since=5, call=audited.CALL)
    stage.driver.advance(1)
    (entry,) = audited.entries(stage.driver)
    assert (entry.command_id, entry.outcome) == (command.command_id, "done")
    assert entry.after == '{"since":5,"until":null,"statuses":["parked","dead"]}'


def test_an_erasure_deletes_in_bounded_parts(
    stage: Deliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "_CHANGED", 10)
    stage.endpoint()
    for number in range(35):
        stage.event(f"k{number:02}")
    stage.driver.advance(1)
    stage.tenant(kind="erasure")
    left, largest = len(stage.rows()), 0
    for _ in range(30):
        stage.driver.advance(0.01)
        largest, left = max(largest, left - len(stage.rows())), len(stage.rows())
    assert (left, largest) == (0, 10)
    kept = stage.driver.store("delivery", "queue").range(b"m", b"n")
    assert list(kept) == []


def test_a_tenant_s_tests_that_hang_leave_slots_to_others(stage: Deliveries) -> None:
    stage.endpoint()
    stage.sender.answer = hang
    for number in range(5_000):
        stage.command("test", delivery_id=f"dlv_t{number:04}")
    stage.driver.advance(2)
    hanging = list(stage.sender.under_way)
    assert {attempt.row.tenant_id for attempt in hanging} == {"acme"}
    stage.endpoint("other", "bolt")
    stage.event("k1", "bolt")
    stage.driver.advance(1)
    assert stage.sender.sent[-1].row.tenant_id == "bolt"
    stage.sender.answer = ok
    for attempt in hanging:
        stage.sender.end(attempt, {"status": 200})
    stage.driver.advance(5)
    assert len({a.row.delivery_id for a in stage.sender.sent}) == 5_001


def test_what_a_recovery_costs_does_not_grow_with_those_before_it(
    stage: Deliveries, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = 0
    marked = DeliveryStore.marked

    def counted(self: DeliveryStore, mark: bytes) -> Iterator[tuple[bytes, bytes]]:
        nonlocal looked_at
        for found in marked(self, mark):
            looked_at += mark.startswith(ASKED)
            yield found

    monkeypatch.setattr(DeliveryStore, "marked", counted)
    stage.endpoint()
    for _ in range(100):
        stage.command("recover", since=0)
        stage.driver.advance(0.01)
    assert looked_at <= 100


def test_large_results_for_a_receiver_that_hangs_fill_no_memory(stage: Deliveries) -> None:
    for number in range(8):
        stage.endpoint(f"e{number}")
    for number in range(10):  # so that each endpoint may have many at once
        stage.event(f"k{number}")
        stage.driver.advance(1)
    stage.sender.answer = hang
    for number in range(60):
        stage.job(f"job_{number}", status="succeeded", result=f'"{"x" * 250_000}"')
    stage.driver.advance(1)
    hanging = list(stage.sender.under_way)
    assert sum(len(attempt.message.data or b"") for attempt in hanging) <= 65 * 1024 * 1024
    stage.endpoint("other", "bolt")
    stage.sender.answer = ok
    stage.event("k1", "bolt")
    stage.driver.advance(1)
    assert stage.sender.sent[-1].row.tenant_id == "bolt"
    for attempt in hanging:
        stage.sender.end(attempt, {"status": 200})
    stage.driver.advance(5)
    assert {row.status for row in stage.rows()} == {"delivered"}


def test_large_results_of_some_tenants_leave_room_for_others(stage: Deliveries) -> None:
    tenants = ("acme", "bolt", "core")
    for tenant in tenants:
        for number in range(6):
            stage.endpoint(f"e{number}", tenant)
        for number in range(10):  # so that each endpoint may have many at once
            stage.event(f"k{number}", tenant)
            stage.driver.advance(1)
    stage.sender.answer = hang
    for tenant in tenants:
        for number in range(60):
            job = f"job_{tenant}_{number}"
            stage.job(job, tenant, status="succeeded", result=f'"{"x" * 250_000}"')
        stage.driver.advance(1)
    stage.endpoint("other", "last")
    stage.event("k1", "last")
    stage.driver.advance(1)
    assert stage.sender.sent[-1].row.tenant_id == "last"


def test_the_end_of_a_wide_event_s_deliveries_holds_no_attempt_back(stage: Deliveries) -> None:
    stage.sender.answer = hang
    for number in range(60):
        stage.endpoint(f"e{number:02}")
    stage.driver.advance(5)
    stage.event()
    stage.driver.advance(5)
    assert len(stage.sender.sent) == 60
