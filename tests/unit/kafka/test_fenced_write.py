"""What a write of one transactional id does when its transaction or its connection fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from streams.errors import RecordTooLarge
from streams.kafka import fenced_write
from streams.kafka.fenced_write import FencedWrite, FencedWrites, OutgoingRecord, Unsettled
from streams.settings import Settings

TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large")
ABORTABLE = KafkaError(KafkaError._INCONSISTENT, "not delivered", txn_requires_abort=True)
RECORD = OutgoingRecord("tenants", b"acme", b"record", 3)


class Scripted:
    """A producer that delivers at offset 7, and remembers what it was asked, in order.

    `errors` has what a call raises, by its name; a delivery's is told, and the commit fails.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.asked: list[str] = []
        self.headers: list[Any] = []
        self.errors: dict[str, KafkaError] = {}
        self._told: list[Callable[[], None]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self._asked(name)

    def produce(self, *_: Any, on_delivery: Callable[..., None], headers: Any) -> None:
        self._asked("produce")
        self.headers.append(headers)
        error, message = self.errors.get("delivery"), SimpleNamespace(offset=lambda: 7)
        self._told.append(lambda: on_delivery(error, message))

    def commit_transaction(self, _: float) -> None:
        for tell in self._told:
            tell()
        self._asked("commit_transaction")

    def _asked(self, name: str) -> None:
        self.asked.append(name)
        if name in self.errors:
            raise KafkaException(self.errors[name])


@pytest.fixture
def producers(monkeypatch: pytest.MonkeyPatch) -> list[Scripted]:
    made: list[Scripted] = []

    def make(config: dict[str, Any]) -> Scripted:
        made.append(Scripted(config))
        return made[-1]

    monkeypatch.setattr(fenced_write, "Producer", make)
    return made


async def opened() -> FencedWrite:
    return await FencedWrites(Settings(), "operator-0").open()


@pytest.mark.parametrize(
    ("facility", "told", "broken"),
    [
        ("FAIL", "127.0.0.1:9092/1: Disconnected (after 761ms in state UP)", True),
        ("FAIL", "127.0.0.1:9093/2: Connect failed (after 0ms in state CONNECT)", False),
        ("REQTMOUT", "127.0.0.1:9092/1: Timed out EndTxnRequest in flight (after 4003ms)", True),
    ],
)
async def test_a_write_says_that_its_connection_broke(
    producers: list[Scripted], facility: str, told: str, broken: bool
) -> None:
    write = await opened()
    assert await write.commit(RECORD) == [7]
    assert not write.is_broken
    producers[0].config["logger"].log(20, "%s [%s] %s", facility, "rdkafka#producer-1", told)
    assert write.is_broken is broken
    assert producers[0].asked[-1] == "poll", "librdkafka's log lines wait for it"


@pytest.mark.parametrize(
    "errors",
    [{"produce": TOO_LARGE}, {"delivery": TOO_LARGE, "commit_transaction": ABORTABLE}],
    ids=["by the client", "by the broker"],
)
async def test_a_transaction_with_a_record_that_is_too_large_is_aborted(
    producers: list[Scripted], errors: dict[str, KafkaError]
) -> None:
    """Readers of what is committed would wait behind it until the coordinator gives it up."""
    write = await opened()
    producers[0].errors = errors
    with pytest.raises(RecordTooLarge, match="tenants"):
        await write.commit(RECORD)
    assert producers[0].asked[-1] == "abort_transaction"


async def test_a_record_is_too_large_also_where_the_abort_fails(producers: list[Scripted]) -> None:
    write = await opened()
    fatal = KafkaError(KafkaError.INVALID_PRODUCER_EPOCH, "fenced")
    producers[0].errors = {"produce": TOO_LARGE, "abort_transaction": fatal}
    with pytest.raises(RecordTooLarge, match="tenants"):
        await write.commit(RECORD)


async def test_a_transaction_whose_outcome_is_unknown_is_left_to_the_next_write(
    producers: list[Scripted],
) -> None:
    write = await opened()
    producers[0].errors = {"commit_transaction": ABORTABLE}
    with pytest.raises(Unsettled, match="not delivered"):
        await write.commit(RECORD)
    assert producers[0].asked[-1] == "commit_transaction"


async def test_a_record_is_written_with_its_headers(producers: list[Scripted]) -> None:
    write = await opened()
    await write.commit(RECORD, replace(RECORD, headers=(("tidegate-letter", b"id"),)))
    assert producers[-1].headers == [[], [("tidegate-letter", b"id")]]
