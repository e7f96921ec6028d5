"""In which order a transaction is built, and when its producer is replaced."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from structlog.testing import capture_logs

from streams.errors import Fenced
from streams.kafka.failures import Outage
from streams.runtime import producer_calls, transaction
from streams.runtime.processor import Record
from streams.runtime.source import Source
from streams.runtime.step import OutputRefused, TransactionAborted
from streams.runtime.task import Task
from streams.runtime.topics import StageTopics
from streams.runtime.transaction import KafkaTransactions, ProducerLost


class Recorded:
    """A producer that does nothing but remember what it was asked, in order."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: self.asked.append(name)


@pytest.fixture
def producers(monkeypatch: pytest.MonkeyPatch) -> list[Recorded]:
    made: list[Recorded] = []

    def make(config: dict[str, Any]) -> Recorded:
        made.append(Recorded(config))
        return made[-1]

    monkeypatch.setattr(transaction, "Producer", make)
    return made


class Reading:
    """A source that delivers partition 0, and holds nothing."""

    def __init__(self, *, rejoins: bool = False) -> None:
        self.delivering = frozenset({0})
        self.rejoins = rejoins

    def group(self) -> object:
        return None

    def read_ahead(self) -> None: ...


class Everything:
    """Topics of which none is missing; `doubts` counts how often that is to be asked anew."""

    doubts = 0

    def exists(self, topic: str, partition: int) -> bool:
        return True

    def doubt(self) -> None:
        Everything.doubts += 1


def transactions(outage: Outage, reading: Reading | None = None) -> KafkaTransactions:
    return KafkaTransactions(
        "counting",
        "counting-0",
        "",
        {},
        10_000,
        cast(Source, reading or Reading()),
        cast(StageTopics, Everything()),
        outage,
        lambda: False,
    )


def task() -> Task:
    return cast(
        Task,
        SimpleNamespace(
            partition=0,
            positions={"in": 5},
            committed=lambda *_: None,
            changelog=list,
            changes=0,
            stage=SimpleNamespace(stores=(), own_inputs=()),
            outputs=[("out", 0, [Record("out", 0, 0, 0, b"k", b"v")])],
        ),
    )


def test_positions_go_before_records_only_where_the_last_transaction_may_not_be_closed_yet(
    producers: list[Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records would wait 20 ms for its end; later, they are on their way before the positions."""
    now = 1_000.0
    for module in (transaction, producer_calls):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    under_test = transactions(Outage())
    under_test.commit([task()])
    (producer,) = producers
    assert producer.config["transactional.id"] == "counting-0"
    records_first = [
        "begin_transaction",
        "produce",
        "send_offsets_to_transaction",
        "commit_transaction",
    ]
    assert producer.asked == ["init_transactions", *records_first]
    producer.asked.clear()
    now += 0.001
    under_test.commit([task()])
    now += 0.1
    under_test.commit([task()])
    positions_first = [
        "poll",
        "begin_transaction",
        "send_offsets_to_transaction",
        "produce",
        "commit_transaction",
    ]
    assert producer.asked == [*positions_first, "poll", *records_first]


def test_after_an_abort_positions_go_first_too(
    producers: list[Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (transaction, producer_calls):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: 1_000.0))
    refused = KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large"))

    def refuse(*_: object) -> None:
        raise refused

    under_test = transactions(Outage())
    with monkeypatch.context() as first:
        first.setattr(Recorded, "produce", refuse, raising=False)
        with pytest.raises(OutputRefused):
            under_test.commit([task()])
    under_test.commit([task()])
    assert producers[-1].asked[-3:] == [
        "send_offsets_to_transaction",
        "produce",
        "commit_transaction",
    ]


@pytest.mark.parametrize(
    "error",
    [
        KafkaError(KafkaError._TIMED_OUT, "positions", txn_requires_abort=True),
        KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large"),
    ],
)
def test_a_producer_that_aborted_begins_no_further_transaction(
    producers: list[Recorded], monkeypatch: pytest.MonkeyPatch, error: KafkaError
) -> None:
    """It would number its next record like one that it dropped and the broker has stored."""

    def refuse(*_: object) -> None:
        raise KafkaException(error)

    under_test = transactions(Outage())
    with monkeypatch.context() as first:
        first.setattr(Recorded, "send_offsets_to_transaction", refuse, raising=False)
        with pytest.raises((OutputRefused, TransactionAborted)):
            under_test.commit([task()])
    under_test.commit([task()])
    assert ["abort_transaction" in producer.asked for producer in producers] == [True, False]


def test_positions_have_their_time_also_after_records_that_took_long(
    producers: list[Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    now, looked = 1_000.0, threading.Event()

    def monotonic() -> float:
        looked.set()
        return now

    def produce(*_: object) -> None:
        nonlocal now
        now += 6

    def send_positions(*_: object) -> None:
        looked.clear()
        assert looked.wait(10), "nobody asks how long it takes"

    monkeypatch.setattr(producer_calls, "time", SimpleNamespace(monotonic=monotonic))
    monkeypatch.setattr(Recorded, "produce", produce, raising=False)
    monkeypatch.setattr(Recorded, "send_offsets_to_transaction", send_positions, raising=False)
    transactions(Outage()).commit([task()])
    assert producers[0].asked[-1] == "commit_transaction"


def test_the_next_batch_is_read_while_this_one_is_committed(
    producers: list[Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = threading.Event()

    class Ahead(Reading):
        def read_ahead(self) -> None:
            read.set()

    committed: list[bool] = []
    monkeypatch.setattr(
        Recorded, "commit_transaction", lambda *_: committed.append(read.wait(10)), raising=False
    )
    transactions(Outage(), Ahead()).commit([task()])
    assert committed == [True]


def test_what_was_taken_away_while_reading_ahead_is_committed_no_more(
    producers: list[Recorded],
) -> None:
    """The second half of a refused batch would be accepted: its process is still in the group."""
    reading = Reading()
    under_test = transactions(Outage(), reading)
    under_test.commit([task()])
    (producer,) = producers
    asked = list(producer.asked)
    reading.delivering = frozenset({1})
    with pytest.raises(TransactionAborted):
        under_test.commit([task()])
    assert producer.asked == asked


def test_a_producer_is_kept_until_a_request_fails(producers: list[Recorded]) -> None:
    outage = Outage()
    under_test = transactions(outage)
    under_test.commit([task()])
    under_test.commit([task()])
    assert len(producers) == 1
    outage.failed("away")
    under_test.commit([task()])
    assert len(producers) == 2


def test_one_failure_replaces_a_producer_once_on_a_machine_that_was_suspended(
    producers: list[Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There the boot clock is ahead of `time.monotonic` for ever."""
    monkeypatch.setattr(time, "clock_gettime", lambda _: time.monotonic() + 3_600)
    outage = Outage()
    under_test = transactions(outage)
    outage.failed("the broker is away")
    for _ in range(3):
        under_test.settle()
    assert len(producers) == 1


@pytest.mark.parametrize(
    ("facility", "told", "kept"),
    [
        ("FAIL", "127.0.0.1:9092/1: Disconnected (after 761ms in state UP)", False),
        (
            "FAIL",
            "127.0.0.1:9093/2: Connect to ... failed: Connection refused (after 0ms in state "
            "CONNECT)",
            True,
        ),
        ("REQTMOUT", "127.0.0.1:9092/1: Timed out ProduceRequest in flight (after 4003ms)", False),
    ],
)
def test_a_producer_is_replaced_when_a_connection_breaks(
    producers: list[Recorded], facility: str, told: str, kept: bool
) -> None:
    """What was on it may still reach the broker, when the next transaction is open."""
    under_test = transactions(Outage())
    under_test.commit([task()])
    producers[0].config["logger"].log(20, "%s [%s] %s", facility, "rdkafka#producer-1", told)
    for _ in range(2):
        under_test.commit([task()])
    assert len(producers) == (1 if kept else 2)


@pytest.mark.parametrize(
    ("refusal", "raised"),
    [
        (
            KafkaError(KafkaError._INCONSISTENT, "not delivered", txn_requires_abort=True),
            TransactionAborted,
        ),
        (KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large"), OutputRefused),
    ],
)
def test_a_record_alone_is_refused_only_where_it_is_proven(
    producers: list[Recorded],
    monkeypatch: pytest.MonkeyPatch,
    refusal: KafkaError,
    raised: type[Exception],
) -> None:
    """What was not delivered in time is a good record, and no dead letter."""

    def refuse(*_: object) -> None:
        raise KafkaException(refusal)

    monkeypatch.setattr(Recorded, "commit_transaction", refuse, raising=False)
    doubts = Everything.doubts
    with pytest.raises(raised):
        transactions(Outage()).commit([task()], alone=True)
    assert Everything.doubts == doubts + 1, "a topic may have been deleted"
    with pytest.raises(OutputRefused):
        transactions(Outage()).commit([task()])


@pytest.mark.parametrize(("rejoins", "raised"), [(False, Fenced), (True, ProducerLost)])
def test_who_gave_its_membership_up_itself_was_fenced_by_nobody(
    producers: list[Recorded],
    monkeypatch: pytest.MonkeyPatch,
    rejoins: bool,
    raised: type[Exception],
) -> None:
    """After a standstill the positions go out under no member's id, which the broker refuses."""
    fenced = KafkaException(KafkaError(KafkaError.FENCED_INSTANCE_ID, "fenced"))

    def refuse(*_: object) -> None:
        raise fenced

    monkeypatch.setattr(Recorded, "send_offsets_to_transaction", refuse, raising=False)
    with pytest.raises(raised):
        transactions(Outage(), Reading(rejoins=rejoins)).commit([task()])


def test_what_keeps_a_producer_from_opening_is_said_once_for_each_reason(
    producers: list[Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons = iter(["no right", "no right", "no such id"])

    def refused(self: Recorded, seconds: float) -> None:
        raise KafkaException(
            KafkaError(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, next(reasons), fatal=True)
        )

    monkeypatch.setattr(Recorded, "init_transactions", refused, raising=False)
    under_test = transactions(Outage())
    with capture_logs() as logged:
        for _ in range(3):
            with pytest.raises(ProducerLost):
                under_test.settle()
    assert [line["error"].partition(": ")[2] for line in logged] == ["no right", "no such id"]
