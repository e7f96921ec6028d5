"""What the stream runtime decides without a broker: errors, stale stores, ends, outages."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from streams.kafka import offsets
from streams.kafka.abandonable_call import AbandonableThread, Hung
from streams.kafka.failures import (
    Outage,
    Verdict,
    classify,
    classify_produce,
    classify_read,
)
from streams.kafka.offsets import offset_in
from streams.process.boot_clock import boot_seconds
from streams.runtime.backends import backend_for, fold
from streams.runtime.clock import VirtualClock
from streams.runtime.end_offsets import EndOffsets
from streams.runtime.processor import Context, Processor, Record
from streams.runtime.restoring_store import distrust
from streams.runtime.stage import Stage, StoreSpec
from streams.runtime.task import Task
from streams.runtime.topics import Changelog
from streams.serde.headers import traceparent
from streams.state.memory import MemoryTables
from streams.state.store import Checkpoint

HOUR = 3_600_000
CHANGELOG = Changelog("c", "id", 24 * HOUR)


@pytest.mark.parametrize(
    ("code", "flags", "verdict"),
    [
        (KafkaError._TIMED_OUT, {"retriable": True}, Verdict.RETRY),
        (KafkaError._STATE, {}, Verdict.RECREATE),
        (KafkaError._STATE, {"txn_requires_abort": True}, Verdict.REFUSE),
        (KafkaError._FATAL, {"fatal": True}, Verdict.RECREATE),
        (KafkaError._FENCED, {"fatal": True}, Verdict.RECREATE),
        (KafkaError.INVALID_PRODUCER_EPOCH, {"txn_requires_abort": True}, Verdict.RECREATE),
        (KafkaError.FENCED_INSTANCE_ID, {"txn_requires_abort": True}, Verdict.FENCED),
        (KafkaError.ILLEGAL_GENERATION, {"txn_requires_abort": True}, Verdict.ABORT),
        (KafkaError._INCONSISTENT, {"txn_requires_abort": True}, Verdict.REFUSE),
        (KafkaError._INCONSISTENT, {}, Verdict.RECREATE),
        (KafkaError.MSG_SIZE_TOO_LARGE, {"txn_requires_abort": True}, Verdict.REFUSE),
        (KafkaError.MSG_SIZE_TOO_LARGE, {}, Verdict.REFUSE),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, {"txn_requires_abort": True}, Verdict.ABORT),
        (KafkaError.INVALID_TIMESTAMP, {"txn_requires_abort": True}, Verdict.ABORT),
    ],
)
def test_each_error_has_one_verdict(code: int, flags: dict[str, bool], verdict: Verdict) -> None:
    assert classify(KafkaError(code, "said so", **flags)) is verdict


def test_what_is_not_taken_up_any_more_is_aborted_and_tried_one_by_one() -> None:
    """`produce` says only that the transaction failed, not which record was refused."""
    assert classify_produce(KafkaError(KafkaError._STATE, "wrong state")) is Verdict.REFUSE
    fenced = KafkaError(KafkaError._FENCED, "fenced", fatal=True)
    assert classify_produce(fenced) is Verdict.RECREATE


@pytest.mark.parametrize(
    ("code", "flags", "verdict"),
    [
        (KafkaError._FATAL, {}, Verdict.FENCED),
        (KafkaError.FENCED_INSTANCE_ID, {"fatal": True}, Verdict.FENCED),
        (KafkaError._ALL_BROKERS_DOWN, {}, Verdict.RETRY),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, {}, Verdict.RETRY),
    ],
)
def test_a_consumer_is_fenced_or_tries_on(
    code: int, flags: dict[str, bool], verdict: Verdict
) -> None:
    assert classify_read(KafkaError(code, "said so", **flags)) is verdict


@pytest.mark.parametrize(
    ("offset", "age", "why"),
    [
        (50, 0, None),
        (100, 12 * HOUR, None),
        (50, 12 * HOUR + 1, "hours old"),
        (9, 0, "before the changelog's start"),
        (101, 0, "behind the changelog's end"),
        (50, -12 * HOUR - 1, "-12.0 hours old"),
    ],
)
def test_a_store_that_may_have_missed_something_is_distrusted(
    offset: int, age: int, why: str | None
) -> None:
    now = 1_000 * HOUR
    told = distrust(Checkpoint(offset, now - age), 10, 100, CHANGELOG, now)
    assert (told is None) if why is None else (told is not None and why in told)


class Answers:
    """Stands for `request_offsets`: futures that a test answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open: list[dict[Any, Future[Any]]] = []
        monkeypatch.setattr(offsets, "request_offsets", self.request)

    def request(self, admin: Any, prefix: str, places: Any, *_: Any) -> dict[Any, Future[Any]]:
        self.open.append({place: Future() for place in places})
        return self.open[-1]

    def answer(self, end: int) -> None:
        for future in self.open[-1].values():
            future.set_result(SimpleNamespace(offset=end))


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    return Answers(monkeypatch)


def ends(position: int, outage: Outage | None = None) -> EndOffsets:
    admin: Any = SimpleNamespace()
    found = EndOffsets(admin, "", lambda *_: position, outage or Outage(), ("in", 0))
    found.assign([("in", 0)])
    return found


def test_read_through_needs_an_end_that_was_asked_after_the_moment(answers: Answers) -> None:
    asked = ends(position=7)
    assert not asked.caught_up_to("in", 0, boot_seconds())
    answers.answer(7)
    moment = boot_seconds()
    assert not asked.caught_up_to("in", 0, moment), "the answer is older than the moment"
    assert len(answers.open) == 2
    answers.answer(7)
    assert asked.caught_up_to("in", 0, moment)


def test_an_input_without_a_leader_holds_up_no_other(answers: Answers) -> None:
    outage = Outage()
    outage.answered()
    asked = ends(7, outage)
    asked.assign([("in", 0), ("in", 1)])
    moment = boot_seconds()
    asked.caught_up_to("in", 0, moment)
    (one, other), open_ = answers.open[-1].values(), len(answers.open)
    one.set_result(SimpleNamespace(offset=7))
    other.set_exception(KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE)))
    assert asked.caught_up_to("in", 0, moment)
    assert not asked.caught_up_to("in", 1, moment)
    assert len(answers.open) == open_ + 1, "it is asked again"
    assert outage.over, "Kafka does answer: the producer need not be replaced"
    answers.answer(7)
    assert asked.caught_up_to("in", 1, moment)


def test_an_outage_is_over_once_each_input_has_an_answer(answers: Answers) -> None:
    outage = Outage()
    asked = ends(7, outage)
    asked.assign([("in", 0), ("in", 1)])
    outage.failed("gone")
    asked.ask()
    one, other = answers.open[-1].values()
    one.set_result(SimpleNamespace(offset=7))
    other.set_exception(KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE)))
    assert asked.newest() is not None
    assert not outage.over, "not every answer came"
    asked.ask()
    answers.answer(7)
    asked.newest()
    assert outage.over


def test_a_broker_that_does_not_answer_for_its_inputs_is_an_outage(answers: Answers) -> None:
    outage = Outage()
    outage.answered()
    asked = ends(7, outage)
    asked.assign([("in", 0), ("in", 1)])
    asked.ask()
    one, other = answers.open[-1].values()
    one.set_result(SimpleNamespace(offset=7))
    other.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
    asked.newest()
    assert not outage.over


def test_read_through_waits_for_the_position(answers: Answers) -> None:
    asked = ends(position=6)
    moment = boot_seconds()
    asked.caught_up_to("in", 0, moment)
    answers.answer(7)
    assert not asked.caught_up_to("in", 0, moment)
    newest = asked.newest()
    assert newest is not None
    assert (newest.offsets, newest.asked_at >= moment) == ({("in", 0): 7}, True)


def test_a_process_without_partitions_hears_that_the_broker_answers_again(answers: Answers) -> None:
    """Nothing else that it asks would tell it."""
    outage = Outage()
    asked = ends(7, outage)
    asked.assign([])
    outage.failed("gone")
    asked.ask()
    answers.answer(7)
    assert asked.newest() is None, "it is the end of no input"
    assert outage.over


def test_an_answer_without_an_offset_is_none(answers: Answers) -> None:
    asked = ends(position=7)
    moment = boot_seconds()
    asked.caught_up_to("in", 0, moment)
    answers.answer(-1001)
    assert not asked.caught_up_to("in", 0, moment), "-1001 was taken for an end"
    future: Future[Any] = Future()
    future.set_result(SimpleNamespace(offset=-1001))
    with pytest.raises(KafkaException):
        offset_in(future)


def test_an_answer_asked_before_the_outage_does_not_end_it() -> None:
    outage = Outage()
    asked_at = boot_seconds()
    outage.failed("gone")
    outage.answered(asked_at)
    assert not outage.seen
    outage.answered(boot_seconds())
    assert outage.seen


def test_a_stage_is_ready_while_kafka_answers_and_not_because_it_once_did() -> None:
    outage = Outage()
    assert not outage.over
    outage.answered()
    assert outage.over
    outage.failed("gone")
    assert not outage.over
    outage.answered()
    assert outage.over


def test_a_watched_call_answers_raises_or_is_left_behind() -> None:
    thread = AbandonableThread()
    done: list[int] = []
    thread.call(lambda: done.append(1), lambda: False)
    assert done == [1]
    with pytest.raises(ZeroDivisionError):
        thread.call(lambda: 1 / 0, lambda: False)
    meanwhile: Future[None] = Future()
    thread.call(meanwhile.result, lambda: False, lambda: meanwhile.set_result(None))
    never: Future[None] = Future()
    with pytest.raises(Hung):
        thread.call(never.result, lambda: True)
    never.set_result(None)
    thread.leave()


class Remembering(Processor):
    """A processor that stores every record under its key."""

    def __init__(self, partition: int) -> None:
        self.partition = partition

    def process(self, record: Record, ctx: Context) -> None:
        ctx.store("t").put(record.key or b"", record.value or b"")


def test_a_store_is_dated_when_it_was_last_known_to_be_current() -> None:
    """Not when it is closed: a process that was frozen closes what is another's by then."""
    clock, tables = VirtualClock(1_750_000_000_000), MemoryTables()
    spec = StoreSpec("t", "c")
    stage = Stage("s", ("in",), (spec,), Remembering)
    task = Task(stage, 0, {"t": backend_for(spec, tables)}, clock, lambda *_: True, {"in": 0})
    task.process([Record("in", 0, 0, clock.now(), b"k", b"v")])
    task.committed({"t": 1})
    clock.ms += 72 * HOUR
    task.close()
    checkpoint = tables.checkpoint()
    assert checkpoint is not None
    assert "72.0 hours old" in (distrust(checkpoint, 0, 9, CHANGELOG, clock.now()) or "")


def test_a_restore_in_several_sittings_is_as_old_as_its_first() -> None:
    backend = backend_for(StoreSpec("t", "c"), MemoryTables())
    fold(backend, {b"a": b"1"}, 1, 1, now_ms=1_000)
    fold(backend, {b"b": b"2"}, 2, 2, now_ms=1_000 + 11 * HOUR)
    assert backend.checkpoint() == Checkpoint(2, 1_000, 2)


@pytest.mark.parametrize("raw", [None, b"", b"\xff\xfe", b"x" * 300])
def test_what_cannot_be_a_trace_is_none(raw: bytes | None) -> None:
    assert traceparent([("other", b"00"), ("traceparent", raw)]) is None
