"""The verdict over a fault finds what a fault could do: each is injected behind a stage's back."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer
from rocksdict import Options, Rdict
from support.dedup_under_load import DedupUnderLoad
from support.kafka_under_test import KafkaUnderTest

from streams.serde.codec import DUPLICATE

pytestmark = [pytest.mark.broker, pytest.mark.fault]

InjectedFault = Callable[[DedupUnderLoad], None]


@pytest.fixture
def dedup(kafka: KafkaUnderTest, tmp_path: Path) -> Iterator[DedupUnderLoad]:
    with DedupUnderLoad(kafka, tmp_path) as running:
        running.start()
        running.await_recovery("start")
        yield running


def store(dedup: DedupUnderLoad, partition: int) -> Path:
    return dedup.folder / "data/state/dedup/0/seen" / str(partition)


def lose(dedup: DedupUnderLoad) -> None:
    dedup.flood.times[b"never sent      "] = 1


def process_again(dedup: DedupUnderLoad) -> None:
    last = dedup.cluster.read("duplicates")[-1]
    told = DUPLICATE.decode(last.value() or b"")
    more = DUPLICATE.encode(replace(told, count=told.count + 1))
    dedup.cluster.send("duplicates", [(last.key(), more)], last.partition() or 0)


def repeat(dedup: DedupUnderLoad) -> None:
    first = dedup.cluster.read("events")[0]
    dedup.cluster.send("events", [(first.key(), first.value())])


def leak_into_a_store(dedup: DedupUnderLoad) -> None:
    with_segments(
        store(dedup, 0), lambda segment: segment.put(b"leaked", next(iter(segment.values())))
    )


def lose_from_a_store(dedup: DedupUnderLoad) -> None:
    with_segments(store(dedup, 1), lambda segment: segment.delete(next(iter(segment.keys()))))


def take_a_store_back(dedup: DedupUnderLoad) -> None:
    shutil.rmtree(store(dedup, 2))


def leave_a_transaction_open(dedup: DedupUnderLoad) -> None:
    named = {"transactional.id": dedup.cluster.prefix, "transaction.timeout.ms": 60_000}
    producer = Producer({**dedup.cluster.client(), **named, "log_level": 0})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(dedup.cluster.prefix + "events", b"never committed", partition=3)
    assert producer.flush(10) == 0


def with_segments(path: Path, do: Callable[[Rdict], None]) -> None:
    """On the newest segment of a stopped stage's store, its checkpoint untouched."""
    options = Options(raw_mode=True)
    names = Rdict.list_cf(str(path), options)
    database = Rdict(str(path), options, column_families=dict.fromkeys(names, options))
    segment = database.get_column_family(max(set(names) - {"default"}))
    do(segment)
    segment.close()
    database.close()


INJECTED_FAULTS = {
    lose: {("lost", "events"), ("lost", "changelog"), ("miscounted", "events.received")},
    process_again: {("miscounted", "duplicates")},
    repeat: {("repeated", "events")},
    leak_into_a_store: {("store_differs", "0/seen/0")},
    lose_from_a_store: {("store_differs", "0/seen/1")},
    take_a_store_back: {("store_behind", "partition 2")},
    leave_a_transaction_open: {("open_transaction", "events")},
}


def test_each_injected_fault_is_found_and_nothing_else(dedup: DedupUnderLoad) -> None:
    assert dedup.verdict() == []
    before: set[tuple[str, str]] = set()
    for fault, expected in INJECTED_FAULTS.items():
        fault(dedup)
        found = {(v.what, v.where) for v in dedup.verdict(settle_seconds=1)}
        assert found - before == expected, fault.__name__
        before = found


def test_a_fault_that_does_not_land_fails(dedup: DedupUnderLoad) -> None:
    dedup.flood.finish()
    assert dedup.progress.await_end(30) == {}
    with pytest.raises(AssertionError, match="SIGKILL landed before_commit"):
        dedup.processes[0].fault("before_commit", timeout=1)
    with pytest.raises(AssertionError, match="records in flight"):
        dedup.processes[0].freeze(timeout=1)
