"""How the loop of a stage drives its link: reading, acknowledging, and giving again."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from support.counting import counting_stage, counting_topology
from support.linked_stage import Roster
from support.linked_workers import Partitions, acked, order, owned, to

from streams.errors import StoreDamaged
from streams.kafka.failures import Outage
from streams.link.owner import Owner
from streams.runtime import awaiting, transaction
from streams.runtime.awaiting import Awaiting
from streams.runtime.executor import Executor
from streams.runtime.link import LINK, LinkService
from streams.runtime.loop import StageLoop
from streams.runtime.memory_link import MemoryLink
from streams.runtime.processor import Record
from streams.runtime.source import Source
from streams.runtime.step import TransactionAborted
from streams.runtime.topics import StageTopics
from streams.runtime.transaction import KafkaTransactions, ProducerLost
from streams.serde.link.messages import Beat, FromOwner, Wanted
from streams.settings import Settings

NOW = 1_760_000_000_000


class Consumer:
    """Has no records; `asked` is for how long it was asked to wait."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    def poll(self, seconds: float) -> None:
        self.asked.append(seconds)

    def consume(self, most: int, seconds: float) -> list[Any]:
        return []

    def subscribe(self, *_: Any, **__: Any) -> None: ...

    def memberid(self) -> str:
        return "one"


def hurried(records: Sequence[Record]) -> bool:
    """As of a stage whose commands of odd numbers are in no hurry."""
    return all(b'"number":1' in (record.value or b"") for record in records)


def reading(partitions: Partitions) -> Source:
    source = Source(
        "s",
        ("in",),
        Settings(bootstrap="127.0.0.1:1"),
        Outage(),
        lambda: None,
        hurried,
        partitions.owner,
        lambda: NOW,
    )
    source._consumer = cast(Any, Consumer())
    return source


@pytest.fixture
def partitions() -> Partitions:
    return Partitions(0, 1)


def test_commands_are_read_with_the_brokers_time(partitions: Partitions) -> None:
    connection, worker_id = partitions.welcomed()
    source = reading(partitions)
    connection.send(order(1, 2))
    (record,) = source.read(0.2)
    assert (record.topic, record.partition, record.timestamp) == (LINK, 1, NOW)
    assert record.key == worker_id.encode()


def test_commands_in_no_hurry_wait_for_others(partitions: Partitions) -> None:
    connection, _ = partitions.welcomed()
    source = reading(partitions)
    connection.send(order(0, 1))
    assert source.read(0) == []
    connection.send(order(0, 2))
    assert len(source.read(0)) == 2


def test_commands_that_wait_are_no_records_of_an_input_that_starts_anew(
    partitions: Partitions,
) -> None:
    connection, _ = partitions.welcomed()
    source = reading(partitions)
    connection.send(order(0, 1), order(1, 1))
    source.read(0)
    source._held.drop({("in", 0): 7, ("in", 1): 7})
    connection.send(order(0, 2))
    assert len(source.read(0)) == 3


def test_commands_that_wait_are_not_given_twice_after_an_abort(partitions: Partitions) -> None:
    connection, _ = partitions.welcomed()
    source = reading(partitions)
    connection.send(order(0, 1))
    source.read(0)
    source.take_again()
    connection.send(order(0, 2))
    assert len(source.read(0)) == 2


def test_commands_that_wait_are_dropped_with_their_partition(partitions: Partitions) -> None:
    connection, _ = partitions.welcomed()
    source = reading(partitions)
    connection.send(order(0, 1), order(1, 1))
    source.read(0)
    source.own([1])
    connection.send(order(1, 2))
    assert [record.partition for record in source.read(0)] == [1, 1]
    assert owned(connection.receive()) == [(1,)]


def test_without_workers_the_consumer_is_waited_for(partitions: Partitions) -> None:
    consumer = Consumer()
    Awaiting(partitions.owner).first(cast(Any, consumer), 0.0121)
    Awaiting(None).first(cast(Any, consumer), 0.2)
    assert consumer.asked == [0.013, 0.2]


def test_a_command_ends_the_wait_at_once(partitions: Partitions) -> None:
    connection, _ = partitions.welcomed()
    consumer = Consumer()
    later = threading.Timer(0.02, lambda: connection.send(order(0, 1)))
    later.start()
    began = time.monotonic()
    assert Awaiting(partitions.owner).first(cast(Any, consumer), 30.0) is None
    assert time.monotonic() - began < 10
    assert set(consumer.asked) == {0}
    later.join()


def test_a_beat_ends_the_wait_since_a_waiting_job_may_find_a_slot(partitions: Partitions) -> None:
    connection, _ = partitions.welcomed()
    connection.send(Beat(1, 4))
    assert Awaiting(partitions.owner).first(cast(Any, Consumer()), 30.0) is None
    partitions.taken()
    assert partitions.owner.stirred
    partitions.taken()
    assert not partitions.owner.stirred


class Stepping:
    """A clock that passes as its link sleeps; `slept` is for how long each time."""

    connected, waiting = True, False

    def __init__(self) -> None:
        self.at = 1_000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.at

    def wait(self, seconds: float) -> None:
        self.slept.append(round(seconds, 6))
        self.at += seconds


def test_looks_are_rarer_once_nothing_has_come_for_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link = Stepping()
    monkeypatch.setattr(awaiting, "time", link)
    under_test = Awaiting(cast(Any, link))
    link.waiting = True
    under_test.first(cast(Any, Consumer()), 0.2)
    link.waiting = False
    for _ in range(6):
        under_test.first(cast(Any, Consumer()), 0.2)
    assert max(link.slept[:900]) == 0.001
    assert max(link.slept[900:]) == 0.005


class Producer:
    """Notes what it is asked; `fails` is what its commit raises."""

    fails: KafkaException | None = None

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config

    produced: list[str] = []  # noqa: RUF012

    def produce(self, topic: str, *_: Any) -> None:
        self.produced.append(topic)

    def commit_transaction(self, _: float) -> None:
        if self.fails is not None:
            raise self.fails

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: 0


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> type[Producer]:
    monkeypatch.setattr(Producer, "fails", None)
    monkeypatch.setattr(Producer, "produced", [])
    monkeypatch.setattr(transaction, "Producer", Producer)
    return Producer


def transactions(owner: Owner) -> KafkaTransactions:
    source = SimpleNamespace(
        delivering=frozenset({0, 1}), rejoins=False, group=lambda: None, read_ahead=lambda: None
    )
    topics = SimpleNamespace(exists=lambda *_: True, doubt=lambda: None)
    return KafkaTransactions(
        "s",
        "s-0",
        "",
        {},
        10_000,
        cast(Source, source),
        cast(StageTopics, topics),
        Outage(),
        lambda: False,
        owner,
    )


def worked(commands: list[Record], *outputs: Record) -> Any:
    """A task that handled these commands and forwarded these outputs."""
    done = [(record.topic, record.partition, [record]) for record in outputs]
    return SimpleNamespace(
        partition=0,
        positions={"in": 5},
        committed=lambda *_: None,
        changelog=list,
        changes=0,
        stage=SimpleNamespace(stores=(), own_inputs=()),
        outputs=done,
        commands=commands,
    )


def test_what_goes_over_the_link_is_not_produced_and_leaves_after_the_commit(
    partitions: Partitions, producer: type[Producer]
) -> None:
    connection, worker_id = partitions.welcomed()
    connection.send(order(0, 1))
    out = Record("out", 0, 0, 0, b"k", b"v")
    transactions(partitions.owner).commit(
        [worked(partitions.taken(), to(worker_id, Wanted()), out)]
    )
    assert producer.produced == ["out"]
    first, second = connection.receive()
    assert first == Wanted()
    assert acked([second]) == [{0: 1}]


def test_what_a_worker_is_told_is_in_the_stores_already(
    partitions: Partitions, producer: type[Producer]
) -> None:
    """With a lease it asks for the body of its event at once, which is answered from them."""
    connection, worker_id = partitions.welcomed()
    connection.send(order(0, 1))
    told: list[FromOwner] = []
    task = worked(partitions.taken(), to(worker_id, Wanted()))

    def written(*_: object) -> None:
        told.extend(connection.receive())
        task.outputs, task.commands = [], []

    task.committed = written
    transactions(partitions.owner).commit([task])
    assert told == []
    assert len(connection.receive()) == 2


def test_a_store_that_cannot_be_written_keeps_no_lease_back(
    partitions: Partitions, producer: type[Producer]
) -> None:
    """The broker has committed it: its slot would be used by nobody."""
    connection, worker_id = partitions.welcomed()
    connection.send(order(0, 1))
    task = worked(partitions.taken(), to(worker_id, Wanted()))

    def damaged(*_: object) -> None:
        raise StoreDamaged("it is")

    task.committed = damaged
    with pytest.raises(StoreDamaged):
        transactions(partitions.owner).commit([task])
    assert len(connection.receive()) == 2


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        (KafkaError.MSG_SIZE_TOO_LARGE, TransactionAborted),
        (KafkaError._TIMED_OUT_QUEUE, ProducerLost),
    ],
)
def test_nothing_leaves_without_a_commit_that_is_known(
    partitions: Partitions, producer: type[Producer], code: int, raised: type[Exception]
) -> None:
    connection, worker_id = partitions.welcomed()
    connection.send(order(0, 1))
    producer.fails = KafkaException(KafkaError(code, "no", fatal=raised is ProducerLost))
    with pytest.raises(Exception):  # noqa: B017, PT011
        transactions(partitions.owner).commit([worked(partitions.taken(), to(worker_id, Wanted()))])
    assert connection.receive() == []


class Rounds:
    """A loop of which the test plays Kafka: `raises` is what its steps raise, in turn."""

    def __init__(self, partitions: Partitions, tmp_path: Path, *raises: Exception | None) -> None:
        settings = Settings(bootstrap="127.0.0.1:1", data_dir=tmp_path)
        stage, stop = counting_stage(), threading.Event()
        service = SimpleNamespace(link=partitions.owner)
        self.loop: Any = StageLoop(
            stage, counting_topology(), settings, stop, link=cast(LinkService, service)
        )
        self.steps: list[list[Record]] = []
        self.raises = list(raises)
        tasks = {
            p: SimpleNamespace(
                partition=p,
                poisoned=0,
                held_back=(),
                positions={"in": 0},
                rollback=lambda: None,
                rests=lambda: False,
            )
            for p in (0, 1)
        }
        source: Any = reading(partitions)
        source.start = lambda positions: None
        source.delivering = source.partitions = frozenset({0, 1})
        loop: Any = self.loop
        loop._source, loop._pause = source, lambda *_: False
        loop._lag = SimpleNamespace(measure=lambda records: None)
        loop._unowned = SimpleNamespace(claim=lambda *_: None)
        loop._assignment = SimpleNamespace(
            tasks=tasks,
            restoring=False,
            advance=list,
            remove_left=lambda: None,
            close=tasks.clear,
            keep=lambda kept: False,
        )
        loop._executor = SimpleNamespace(step=self._step)

    def _step(self, batch: Any, due: Any, others: Any, stirred: Any) -> bool:
        records = [record for _, own in batch for record in own]
        self.steps.append(records)
        if self.raises and (error := self.raises.pop(0)) is not None:
            raise error
        self.loop._link.committed(records, [])
        return True


def test_commands_of_an_aborted_step_are_in_the_next_one(
    partitions: Partitions, tmp_path: Path
) -> None:
    connection, _ = partitions.welcomed()
    rounds = Rounds(partitions, tmp_path, TransactionAborted())
    connection.send(order(0, 2), order(1, 2))
    rounds.loop._round()
    assert connection.receive() == []
    rounds.loop._round()
    assert rounds.steps[0] == rounds.steps[1] != []
    assert acked(connection.receive()) == [{0: 2, 1: 2}]


def test_a_commit_of_unknown_outcome_drops_commands_and_partitions(
    partitions: Partitions, tmp_path: Path
) -> None:
    connection, _ = partitions.welcomed()
    rounds = Rounds(partitions, tmp_path, ProducerLost())
    connection.send(order(0, 2))
    rounds.loop._round()
    assert rounds.steps[0]
    assert owned(connection.receive()) == [()]
    assert partitions.taken() == []


def test_heartbeats_are_read_and_acknowledged_while_another_partition_restores(
    partitions: Partitions, tmp_path: Path
) -> None:
    connection, worker_id = partitions.welcomed()
    rounds = Rounds(partitions, tmp_path)
    rounds.loop._assignment.restoring = True
    for number in (2, 3):
        connection.send(Beat(number, 4), order(0, number))
        assert rounds.loop._patience() == 0
        rounds.loop._round()
        assert acked(connection.receive()) == [{0: number}]
        assert partitions.roster.calls[-1][:3] == ("heard", worker_id, number)


def test_a_stage_without_records_may_lease_when_a_beat_comes(
    partitions: Partitions, tmp_path: Path
) -> None:
    connection, _ = partitions.welcomed()
    rounds = Rounds(partitions, tmp_path)
    stirred: list[list[int]] = []

    def step(batch: Any, due: Any, others: Any, eager: Any) -> bool:
        stirred.append([task.partition for task in eager])
        return False

    rounds.loop._executor = SimpleNamespace(step=step)
    connection.send(Beat(1, 4))
    rounds.loop._round()
    rounds.loop._round()
    assert stirred == [[0, 1], []]


def test_a_stirred_task_initiates_without_records() -> None:
    asked: list[str] = []

    class Idle:
        initiates, due = True, False

        def initiate(self) -> None:
            asked.append("initiate")

        def finish(self) -> None:
            asked.append("finish")

        def advanced(self) -> None:
            asked.append("advanced")

    Executor(cast(Any, None)).step([], [], [], cast(Any, [Idle()]))
    assert asked == ["initiate", "finish", "advanced"]


def test_a_link_in_memory_stirs_once() -> None:
    link = MemoryLink(Roster(), [])
    link.connect("w1", "default")
    assert link.waiting
    link.take(0)
    assert (link.stirred, link.waiting) == (True, False)
    link.take(0)
    assert not link.stirred
