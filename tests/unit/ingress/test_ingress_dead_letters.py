"""The dead letter of a record of `tenants` is kept until the broker has it."""

from __future__ import annotations

from typing import Any

from support.webhooks import MemoryLog

from ingress.receive.dead_letters import DeadLetters
from streams.errors import DecodeError
from streams.serde.codec import DEAD_LETTER
from streams.serde.ids import partition_for
from streams.serde.keys import tenant_key
from streams.topology.model import MAX_MESSAGE_BYTES, PRODUCER_BATCH_BYTES


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
    log, key = MemoryLog(down=True), tenant_key("acme", "source", "shop")
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


async def test_the_dead_letter_of_the_largest_record_can_be_sent() -> None:
    log = MemoryLog()
    await refused(log, (b"k" * MAX_MESSAGE_BYTES, b"v" * MAX_MESSAGE_BYTES)).flush()
    (sent,) = log.records
    assert len(sent.key or b"") + len(sent.value or b"") < PRODUCER_BATCH_BYTES
    assert DEAD_LETTER.decode(sent.value).cut
