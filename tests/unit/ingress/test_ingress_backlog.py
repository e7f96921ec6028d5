"""Deliveries while too many jobs wait."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from queue import SimpleQueue
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from structlog.testing import capture_logs
from support.conditions import eventually
from support.ingress_app import Edge, running
from support.webhooks import ticket, topology, zendesk_signed

from ingress.rates import backlog
from ingress.rates.backlog import TOPIC, BacklogReader
from streams.errors import StageFailed
from streams.kafka import tail
from streams.limits.backlog import Depth, Line, report_of
from streams.serde.codec import BACKLOG, REJECTION
from streams.settings import Settings
from streams.topology.limits import MaxQueued
from streams.topology.model import Cancels, Route

ACME = Line("tenant", "acme")
FULL = Depth(ACME, 9, 9)
CAPPED = replace(topology(), max_queued=(MaxQueued("tenant", 9),))


class Door:
    """A tenant whose jobs fill its cap while `is_full`; what was asked."""

    def __init__(self) -> None:
        self.is_full = True
        self.asked: list[tuple[str, str]] = []

    def full(self, tenant_id: str, type_: str) -> Depth | None:
        self.asked.append((tenant_id, type_))
        return FULL if self.is_full and tenant_id == "acme" else None


async def deliver(edge: Edge, body: bytes, tenant: str = "acme") -> tuple[int, Any, Any]:
    return await edge.post(f"/v1/hooks/{tenant}/zendesk", body, zendesk_signed(body))


async def test_an_event_that_would_have_a_job_is_answered_429_and_leaves_nothing() -> None:
    door = Door()
    async with running(full=door.full) as edge:
        status, answer, headers = await deliver(edge, ticket("1"))
        assert (status, answer["type"]) == (429, "urn:tidegate:problem:backlog-full")
        assert headers["Retry-After"] == "10"
        assert "acme" not in str(answer), "others' jobs may fill the cap"
        assert edge.log.records == []
        assert (await deliver(edge, ticket("1"), "bolt"))[0] == 202
        assert door.asked == [("acme", "draft_reply"), ("bolt", "draft_reply")]
        door.is_full = False
        assert (await deliver(edge, ticket("1")))[0] == 202


async def test_the_operator_alone_sees_which_cap_it_was() -> None:
    async with running(full=Door().full) as edge:
        await deliver(edge, ticket("1"))
        await edge.rejections.flush()
        [counted] = [REJECTION.decode(each.value) for each in edge.log.on("rejections")]
        assert (counted.tenant_id, counted.reason, counted.cause) == (
            "acme",
            "backlog-full",
            "tenant",
        )


async def test_a_redelivery_of_an_accepted_event_is_answered_as_ever() -> None:
    door = Door()
    door.is_full = False
    async with running(full=door.full) as edge:
        assert (await deliver(edge, ticket("1")))[0] == 202
        door.is_full = True
        assert (await deliver(edge, ticket("1")))[:1] == (200,)
        assert (await deliver(edge, ticket("2")))[:1] == (429,)


async def test_an_event_without_a_job_passes() -> None:
    cancels = Route("zendesk", "ticket.*", None, "webhook", Cancels("draft_reply", "subject"))
    for route in (cancels, Route("elsewhere", "*", "draft_reply", "webhook")):
        async with running(full=Door().full, wiring=topology(route)) as edge:
            status, answer, _ = await deliver(edge, ticket("1"))
            assert (status, answer["job_id"]) == (202, None)


class Topic:
    """A consumer of `jobs.backlog`, over all consumers that are made."""

    def __init__(self) -> None:
        self.coming: SimpleQueue[Any] = SimpleQueue()
        self.begun: list[int] = []

    def __call__(self, _: object) -> Topic:
        return self

    def get_watermark_offsets(self, *_: object, **__: object) -> tuple[int, int]:
        return 0, 0

    def incremental_assign(self, partitions: list[Any]) -> None:
        self.begun += [each.partition for each in partitions]

    def poll(self, _: float) -> Any:
        found = None if self.coming.empty() else self.coming.get()
        if isinstance(found, Exception):
            raise found
        return found

    def consume(self, *_: object) -> list[Any]:
        return []

    def close(self) -> None: ...


class Told:
    """A record of the topic."""

    def __init__(self, partition: int, value: bytes | None) -> None:
        self._partition, self._value = partition, value

    def topic(self) -> str:
        return TOPIC

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return 0

    def error(self) -> None: ...

    def value(self) -> bytes | None:
        return self._value


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Topic:
    told = Topic()
    monkeypatch.setattr(tail, "Consumer", told)
    monkeypatch.setattr(backlog, "_AGAIN_SECONDS", 0.0)
    return told


@pytest.fixture
def failures() -> SimpleQueue[Exception]:
    return SimpleQueue()


@pytest.fixture
def reader(told: Topic, failures: SimpleQueue[Exception]) -> Iterator[BacklogReader]:
    reader = BacklogReader(Settings(), CAPPED, failures.put)
    reader.start()
    yield reader
    reader.stop()


def report(jobs: int) -> bytes:
    return BACKLOG.encode(report_of(0, {ACME: jobs}))


def is_full(reader: BacklogReader) -> bool:
    return reader.full("acme", "draft_reply") is not None


def test_the_newest_report_of_each_partition_holds(told: Topic, reader: BacklogReader) -> None:
    eventually(lambda: reader.settled, what="the topic is read to its end")
    assert not is_full(reader)
    told.coming.put(Told(0, report(9)))
    eventually(lambda: is_full(reader), what="acme is full")
    told.coming.put(Told(1, b"of another version"))
    told.coming.put(Told(0, report(8)))
    eventually(lambda: not is_full(reader), what="acme is below its cap")
    told.coming.put(Told(0, report(9)))
    told.coming.put(Told(0, None))
    eventually(lambda: told.coming.empty() and not is_full(reader), what="nothing is near")
    assert told.begun == [0, 1, 2, 3]


def test_a_consumer_that_breaks_is_followed_by_another(told: Topic, reader: BacklogReader) -> None:
    with capture_logs() as logged:
        told.coming.put(Told(0, report(9)))
        eventually(lambda: is_full(reader), what="acme is full")
        told.coming.put(KafkaException(KafkaError(KafkaError._FATAL)))
        eventually(lambda: told.begun == 2 * [0, 1, 2, 3], what="it is read anew")
        told.coming.put(Told(2, report(9)))
        eventually(lambda: is_full(reader), what="acme is full again")
    assert [each["log_level"] for each in logged] == ["warning", "info"]


def test_a_fault_of_ours_ends_the_process(
    told: Topic, reader: BacklogReader, failures: SimpleQueue[Exception]
) -> None:
    told.coming.put(IndexError("of ours"))
    failure = failures.get(timeout=10)
    assert isinstance(failure, StageFailed)
    assert "IndexError: of ours" in str(failure)


def test_without_caps_nothing_is_read(told: Topic, failures: SimpleQueue[Exception]) -> None:
    reader = BacklogReader(Settings(), topology(), failures.put)
    reader.start()
    assert reader.settled
    assert reader.full("acme", "draft_reply") is None
    reader.stop()
    assert told.begun == []
