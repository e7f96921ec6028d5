"""A batch that fails its checksum ends each way of reading `events`, and nothing is skipped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition
from support.broken_records import BROKEN_EVENT
from support.killed_reader import LOGS, fresh, read, seen
from support.played_consumer import PlayedConsumer, PlayedMessage

from streams.errors import KafkaUnavailable, PoisonRecord
from streams.event_reader import consume as consuming
from streams.event_reader import follow as following
from streams.event_reader import reader as reading
from streams.event_reader.scan import Found, Scan
from streams.event_reader.selection import Selection
from streams.event_reader.span import Span
from streams.kafka import tail as tails
from streams.settings import Settings

TOLD = "partition 0: .* damaged batch at offset 4 .* nothing was skipped"
GARBAGE = 7_611_410_075_462_884_242
"""An offset that librdkafka reads from damaged bytes, and at which it then goes on."""


class Damaged(PlayedConsumer):
    """Behind the four records of partition 0 lies a damaged batch; the client then loses its way.

    The errors are those of librdkafka 2 for a batch that is compressed.
    """

    def __init__(self, _: dict[str, Any]) -> None:
        super().__init__(LOGS)
        self._polls = iter(range(20))

    def consume(self, most: int, wait: float) -> list[PlayedMessage]:
        assert next(self._polls, None) is not None, "it does not end"
        found = super().consume(most, wait)
        if not wait or self._next.get(0) != len(LOGS[0]):
            return found
        return [*(each for each in found if each.partition() or not each.error()), *self._errors()]

    def _errors(self) -> list[PlayedMessage]:
        return [
            PlayedMessage(0, 4, None, KafkaError._BAD_MSG),
            PlayedMessage(0, GARBAGE, None, KafkaError._NOT_IMPLEMENTED),
            PlayedMessage(0, GARBAGE + 1, None, KafkaError._AUTO_OFFSET_RESET),
        ]


class Purged(Damaged):
    def _errors(self) -> list[PlayedMessage]:
        return [PlayedMessage(0, 4, None, KafkaError._AUTO_OFFSET_RESET)]


def test_a_reader_handles_what_comes_before_it_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise these events would be lost with the batch, once it is deleted."""
    monkeypatch.setattr(consuming, "wait_for_broker", lambda *_, **__: None)
    monkeypatch.setattr(reading, "Consumer", Damaged)
    file = fresh(tmp_path / "orders.db")
    for _ in range(2):
        with pytest.raises(KafkaUnavailable, match=TOLD):
            read(file, skip_purged=True)
    assert [each for each in seen(file) if "_a" in each] == [f"evt_a{n}" for n in range(4)]


def test_a_scan_gives_what_comes_before_it_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tails, "Consumer", Damaged)
    found = list[Found]()
    with pytest.raises(KafkaUnavailable, match=TOLD):
        found.extend(Scan(Settings(), {0: Span(0, 0, 9)}, Selection()))
    assert [each.offset for each in found] == [0, 1, 2, 3]


class Skipping(Damaged):
    """As a client would be that skips the batch: it gives what lies behind it."""

    def position(self, places: Sequence[TopicPartition]) -> list[TopicPartition]:
        found = super().position(places)
        if self._next.get(0) == len(LOGS[0]):
            found[0].offset = 9
        return found


def test_a_scan_never_passes_a_damaged_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tails, "Consumer", Skipping)
    scan = Scan(Settings(), {0: Span(0, 0, 9)}, Selection())
    reached = list[int]()
    with pytest.raises(KafkaUnavailable, match=TOLD):
        reached.extend(batch.next[0] for batch in scan.batches())
    assert max(reached) == 4


def test_a_scan_whose_span_ends_before_it_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tails, "Consumer", Damaged)
    assert len(list(Scan(Settings(), {0: Span(0, 0, 4)}, Selection()))) == 4


@pytest.mark.parametrize(("consumer", "told"), [(Damaged, TOLD), (Purged, "offset 4 was purged")])
def test_who_follows_is_told_and_does_not_begin_with_the_oldest_event_again(
    monkeypatch: pytest.MonkeyPatch, consumer: Callable[..., Damaged], told: str
) -> None:
    configs = list[dict[str, Any]]()

    def noted(config: dict[str, Any]) -> Damaged:
        configs.append(config)
        return consumer(config)

    monkeypatch.setattr(tails, "Consumer", noted)
    found = list[Found]()
    with pytest.raises(KafkaUnavailable, match=told):
        found.extend(following.follow(Settings(), {0: 2}, Selection()))
    assert [each.offset for each in found] == [2, 3]
    assert [config["auto.offset.reset"] for config in configs] == ["error"]


def test_what_lies_before_a_record_that_cannot_be_read_is_handled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consuming, "wait_for_broker", lambda *_, **__: None)
    logs = [[*LOGS[0][:2], BROKEN_EVENT, *LOGS[0][2:]], LOGS[1]]
    monkeypatch.setattr(reading, "Consumer", lambda _: PlayedConsumer(logs))
    file = fresh(tmp_path / "orders.db")
    for _ in range(2):
        with pytest.raises(PoisonRecord, match="partition 0, offset 2"):
            read(file)
    assert seen(file) == ["evt_a0", "evt_a1"]
