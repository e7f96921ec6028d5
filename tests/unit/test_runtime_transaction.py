"""In which order a transaction is built, and when its producer is replaced."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from structlog.testing import capture_logs

from streams.runtime import transaction
from streams.runtime.failures import Outage
from streams.runtime.task import Task
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


def transactions(outage: Outage) -> KafkaTransactions:
    return KafkaTransactions(
        "counting", "counting-0", "", {}, object, lambda topic, partition: True, outage,
        lambda: False,
    )  # fmt: skip


def task() -> Task:
    return cast(Task, SimpleNamespace(
        partition=0, positions={"in": 5}, committed=lambda ends: None, changelog=list,
        ctx=SimpleNamespace(outputs=[("out", b"k", b"v", 0, (), None)]),
    ))  # fmt: skip


def test_positions_go_before_records(producers: list[Recorded]) -> None:
    """The other way round each transaction waits 20 ms for the end of the one before."""
    transactions(Outage()).commit([task()])
    (producer,) = producers
    assert producer.config["transactional.id"] == "counting-0"
    assert producer.asked == [
        "init_transactions", "begin_transaction", "send_offsets_to_transaction", "produce",
        "commit_transaction",
    ]  # fmt: skip


def test_a_producer_is_kept_until_a_request_fails(producers: list[Recorded]) -> None:
    outage = Outage()
    under_test = transactions(outage)
    under_test.commit([task()])
    under_test.commit([task()])
    assert len(producers) == 1
    outage.failed("away")
    under_test.commit([task()])
    assert len(producers) == 2


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ("127.0.0.1:9092/1: Disconnected (after 761ms in state UP)", False),
        ("127.0.0.1:9093/2: Connect to ... failed: Connection refused (after 0ms in state CONNECT)",
         True),
    ],
)  # fmt: skip
def test_a_producer_is_replaced_when_a_connection_breaks(
    producers: list[Recorded], told: str, kept: bool
) -> None:
    """What was on it may still reach the broker, when the next transaction is open."""
    under_test = transactions(Outage())
    under_test.commit([task()])
    producers[0].config["logger"].log(20, "%s [%s] %s", "FAIL", "rdkafka#producer-1", told)
    for _ in range(2):
        under_test.commit([task()])
    assert len(producers) == (1 if kept else 2)


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
