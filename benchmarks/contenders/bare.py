"""What dedup costs in library calls alone: the floor under any exactly-once stage in Python.

Read, look up, send the event and its changelog record, send positions, commit, write: and nothing
of what makes a stage. No window (one table a partition), no restore, no rebalance, no poison, no
metrics; settings are the stage's. Arguments are name=value: `bootstrap`, `group`, `input`,
`output`, `state` (a directory).
"""

from __future__ import annotations

import gc
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rocksdict import Rdict, WriteBatch

from streams.kafka.clients import consumer_config, producer_config
from streams.settings import Settings
from streams.state.rocksdb_memory import RocksMemory

FINGERPRINT = slice(5, 21)
SEEN = b"12345678"
BATCH = 10_000


class Bare:
    """`changelog` is a topic of its own beside the output."""

    def __init__(self, given: dict[str, str]) -> None:
        settings = Settings(bootstrap=given["bootstrap"])
        self.input, self.output = given["input"], given["output"]
        self.changelog = f"{self.output}.changelog"
        admin = AdminClient(settings.client())
        width = len(admin.list_topics(self.input, timeout=10).topics[self.input].partitions)
        for created in admin.create_topics([NewTopic(self.changelog, width, 1)]).values():
            created.result(30)
        options = RocksMemory().looked_up()
        self.tables = [Rdict(str(Path(given["state"]) / str(p)), options) for p in range(width)]
        self.consumer = Consumer(consumer_config(settings, given["group"]))
        transactional = {"transactional.id": given["group"]}
        self.producer = Producer(producer_config(settings, **transactional))
        self.producer.init_transactions()
        self.consumer.subscribe([self.input])

    def run(self) -> None:
        """Until it is ended."""
        while True:
            first = self.consumer.poll(0.05)
            if first is not None:
                self.step([first, *self.consumer.consume(BATCH, 0)])

    def step(self, messages: list[Message]) -> None:
        """One transaction, then one write for each partition."""
        by_partition: dict[int, list[Message]] = defaultdict(list)
        for message in messages:
            by_partition[message.partition() or 0].append(message)
        self.producer.begin_transaction()
        self.producer.send_offsets_to_transaction(
            [
                TopicPartition(self.input, p, (own[-1].offset() or 0) + 1)
                for p, own in by_partition.items()
            ],
            self.consumer.consumer_group_metadata(),
        )
        fresh = {p: self.forward(p, own) for p, own in by_partition.items()}
        self.producer.commit_transaction()
        for partition, keys in fresh.items():
            batch = WriteBatch(raw_mode=True)
            for key in sorted(keys):
                batch.put(key, SEEN)
            self.tables[partition].write(batch)

    def forward(self, partition: int, messages: list[Message]) -> set[bytes]:
        """Send what was not seen; its fingerprints."""
        produce = self.producer.produce
        keys: list[Any] = [(message.value() or b"")[FINGERPRINT] for message in messages]
        held: list[bytes | None] = self.tables[partition].get(keys) or []
        fresh: set[bytes] = set()
        for message, key, seen in zip(messages, keys, held, strict=True):
            if seen is None and key not in fresh:
                fresh.add(key)
                _, at = message.timestamp()
                produce(
                    self.output,
                    message.value(),
                    message.key(),
                    partition,
                    None,
                    None,
                    at,
                    message.headers(),
                )
                produce(self.changelog, SEEN, key, partition, None, None, at)
        return fresh


if __name__ == "__main__":
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)  # as our stage does
    Bare(dict(argument.split("=", 1) for argument in sys.argv[1:])).run()
