"""Faust's Kafka consumer, taught to read committed records only and to say what each one follows.

Faust reads uncommitted records unless it runs in its own exactly-once mode. `CommittedConsumer`
sets the isolation level, and is enough for an application whose tables are Faust's own.

`CountingConsumer` also seeks each partition to the offset that the application has counted, where
Faust would take the group's, and tells of each record which offset it `follows`. Faust may repeat
or skip records around a rebalance: its queues are cleared, and a batch that was being handed over
is given up. With what it follows, every such record is recognised (`partition.accepts`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import aiokafka
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer, Transport
from faust.types import TP
from faust.types.tuples import ConsumerMessage
from mode import Service

Positions = Callable[[Iterable[TP]], Mapping[TP, int]]
"""Answers with the next offset to count of each partition that is now this process's."""


_LOOKS, _BETWEEN_LOOKS_SECONDS = 100, 0.1


class _Fetched(NamedTuple):
    """A record, and the offset behind the record that the broker gave before it."""

    record: Any
    follows: int | None


class _CommittedThread(AIOKafkaConsumerThread):
    def _create_worker_consumer(self, transport: Any) -> aiokafka.AIOKafkaConsumer:
        consumer = super()._create_worker_consumer(transport)
        # Faust has no setting for it, and aiokafka reads it when the consumer starts.
        consumer._isolation_level = "read_committed"
        return consumer


class _CountingThread(_CommittedThread):
    """Notes in the client's own thread what each record follows.

    In that thread nothing can come between a seek or a fetch and the note about it.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._next: dict[TP, int] = {}

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        self._next.clear()
        await super().on_partitions_revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        self._next.clear()
        await super().on_partitions_assigned(assigned, generation_id)

    async def _seek_wait(self, consumer: Any, partitions: Mapping[TP, int]) -> None:
        # A partition may have gone since it was asked for; the client would refuse them all.
        held = {tp: at for tp, at in partitions.items() if tp in self.assignment()}
        self._next.update(held)
        await super()._seek_wait(consumer, held)

    async def _fetch_records(self, *args: Any, **kwargs: Any) -> dict[TP, list[_Fetched]]:
        found = await super()._fetch_records(*args, **kwargs)
        return {tp: [self._fetched(tp, record) for record in found[tp]] for tp in found}

    def _fetched(self, tp: TP, record: Any) -> _Fetched:
        follows = self._next.get(tp)
        if follows is not None:
            self._next[tp] = record.offset + 1
        return _Fetched(record, follows)


class CommittedConsumer(Consumer):
    """Reads committed records only (`isolation.level=read_committed`)."""

    def _new_consumer_thread(self) -> AIOKafkaConsumerThread:
        return _CommittedThread(self, loop=self.loop, beacon=self.beacon)


class CountingConsumer(CommittedConsumer):
    """Starts each partition where the application's own tables end, and commits that."""

    def _new_consumer_thread(self) -> AIOKafkaConsumerThread:
        return _CountingThread(self, loop=self.loop, beacon=self.beacon)

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Seek to the positions of the application; Faust calls it before each (re)start."""
        positions: Mapping[TP, int] = self.app.positions(self.assignment())
        if positions:
            await self.seek_wait(positions)
        return positions

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Note none: `_new_offset` needs none."""

    def _new_offset(self, tp: TP) -> int | None:
        """The offset to commit: where the tables end.

        Faust would list each offset that it was not given, to find out how far it may commit:
        gigabytes where a topic is compacted, or its records were deleted while no process read it.
        """
        if not self._acked[tp]:
            return None
        self._acked[tp].clear()
        self._acked_index[tp].clear()
        counted_to: int | None = self.app.counted_to(tp)
        return counted_to

    def _to_message(self, tp: TP, record: _Fetched) -> ConsumerMessage:
        message = super()._to_message(tp, record.record)
        message.follows = record.follows
        return message


class CommittedTransport(Transport):
    """Faust's transport with `CommittedConsumer`."""

    Consumer = CommittedConsumer

    async def _create_topic(
        self, owner: Service, client: aiokafka.AIOKafkaClient, topic: str, *args: Any, **kwargs: Any
    ) -> None:
        """Return once the brokers tell of the topic, or after 10 s.

        Before, Faust would leave a table's new changelog out of its assignment, and the first
        change of the table would crash its agent with `PartitionsMismatch`.
        """
        await super()._create_topic(owner, client, topic, *args, **kwargs)
        for _ in range(_LOOKS):
            if (await client.fetch_all_metadata()).partitions_for_topic(topic):
                return
            await owner.sleep(_BETWEEN_LOOKS_SECONDS)


class CountingTransport(Transport):
    """Faust's transport with `CountingConsumer`.

    The application has `positions: Positions`, and `counted_to`, the position of one partition.
    """

    Consumer = CountingConsumer
