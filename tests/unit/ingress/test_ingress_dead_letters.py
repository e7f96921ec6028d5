"""The dead letter of a record of `tenants` is kept until the broker has it."""

from __future__ import annotations

import asyncio
from typing import Any

from structlog.testing import capture_logs
from support.webhooks import MemoryLog

from ingress.receive.dead_letters import DeadLetters
from streams.errors import DecodeError, RecordTooLarge
from streams.serde.codec import DEAD_LETTER
from streams.serde.ids import partition_for
from streams.serde.keys import tenant_key
from streams.serde.sizes import PRODUCER_BATCH_BYTES
from streams.topology.model import MAX_MESSAGE_BYTES

OF_A_TENANT = tenant_key("acme", "tenant", "acme")
"""A key whose value is no secret, so that letters keep it."""


class Message:
    """A record of `tenants`."""

    def __init__(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        self._offset, self._key, self._value = offset, key, value

    def partition(self) -> int:
        return 2

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value


def refused(log: MemoryLog, *records: tuple[bytes | None, bytes]) -> DeadLetters:
    letters = DeadLetters(log, 4)
    for offset, record in enumerate(records):
        message: Any = Message(offset, *record)
        letters.refuse(message, DecodeError("no tenant"))
    return letters


async def test_a_dead_letter_that_is_not_acknowledged_is_sent_again() -> None:
    log, key = MemoryLog(down=True), OF_A_TENANT
    letters = refused(log, (key, b"one"), (None, b"two"))
    await letters.flush()
    assert log.records == []
    log.down = False
    await letters.flush()
    await letters.flush()
    assert [(r.topic, r.key, r.partition) for r in log.records] == [
        ("dlq", b"ingress:tenants:2:0", partition_for("acme", 4)),
        ("dlq", b"ingress:tenants:2:1", partition_for("", 4)),
    ]
    first = DEAD_LETTER.decode(log.records[0].value)
    assert (first.tenant_id, first.reason, first.value) == ("acme", "undecodable", b"one")


class Narrow(MemoryLog):
    """A log whose topics take little."""

    most = 1_000
    refusals = 0

    async def send(self, topic: str, key: bytes | None, value: bytes | None, **how: Any) -> int:
        if len(value or b"") > self.most:
            self.refusals += 1
            raise RecordTooLarge("dlq: the message is too large")
        return await super().send(topic, key, value, **how)


async def test_a_letter_that_is_too_large_for_the_broker_goes_without_its_record() -> None:
    log, key = Narrow(), OF_A_TENANT
    letters = refused(log, (key, b"v" * 5_000), (key, b"small"))
    for _ in range(3):
        await letters.flush()
    small, large = (DEAD_LETTER.decode(record.value) for record in log.records)
    assert (small.value, small.cut) == (b"small", False)
    assert (large.id, large.key, large.value, large.cut) == (
        "ingress:tenants:2:0",
        None,
        None,
        True,
    )
    assert "the broker refuses more" in large.detail
    assert log.refusals == 2, "together with the others, and alone"


async def test_a_letter_that_the_broker_never_takes_is_given_up_in_the_log() -> None:
    log, key = Narrow(), OF_A_TENANT
    log.most = 10
    letters = refused(log, (key, b"v" * 5_000))
    with capture_logs() as lines:
        for _ in range(3):
            await letters.flush()
    assert (log.records, log.refusals) == ([], 3), "it is not tried for ever"
    (given_up,) = [line for line in lines if line["log_level"] == "error"]
    assert given_up["id"] == "ingress:tenants:2:0"
    assert "topology plan" in given_up["event"]


async def test_a_batch_that_is_too_large_costs_no_small_letter_its_record() -> None:
    """The broker measures the batch in which a producer sends letters."""

    class Batches(MemoryLog):
        under_way = 0

        async def send(self, *record: Any, **how: Any) -> int:
            self.under_way += 1
            await asyncio.sleep(0)
            together = self.under_way
            await asyncio.sleep(0)
            self.under_way -= 1
            if together > 1:
                raise RecordTooLarge("dlq: the batch is too large")
            return await super().send(*record, **how)

    log = Batches()
    await refused(log, *[(OF_A_TENANT, b"v")] * 3).flush()
    assert {DEAD_LETTER.decode(record.value).cut for record in log.records} == {False}


async def test_letters_are_sent_many_at_once() -> None:
    class Slow(MemoryLog):
        under_way = most = 0

        async def send(self, topic: str, key: bytes | None, value: bytes | None, **how: Any) -> int:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            await asyncio.sleep(0)
            self.under_way -= 1
            return await super().send(topic, key, value, **how)

    log = Slow()
    await refused(log, *[(None, b"v")] * 250).flush()
    assert (len(log.records), log.most) == (250, 100)


async def test_letters_that_memory_has_no_room_for_are_left_to_the_next_process() -> None:
    log, value = MemoryLog(), b"v" * 512 * 1024
    await refused(log, *[(OF_A_TENANT, value)] * 200).flush()
    assert len(log.records) == 127


async def test_the_dead_letter_of_the_largest_record_can_be_sent() -> None:
    log = MemoryLog()
    await refused(log, (b"k" * MAX_MESSAGE_BYTES, b"v" * MAX_MESSAGE_BYTES)).flush()
    (sent,) = log.records
    assert len(sent.key or b"") + len(sent.value or b"") < PRODUCER_BATCH_BYTES
    assert DEAD_LETTER.decode(sent.value).cut
