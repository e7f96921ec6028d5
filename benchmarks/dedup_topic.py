"""The topics of the dedup benchmark: deliveries written, expected and found.

No topic is trimmed by age, and the input carries the writer's time while it is filled: the
deliveries are spread over more than the window, so that a window store has all its segments in use,
and the oldest are days old. Afterwards it carries append times, without which the stage refuses it.
"""

from __future__ import annotations

import os
import random
import struct
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from outside import flush, producer

from streams.kafka.admin import LeaderCachingAdmin
from streams.kafka.offsets import latest
from streams.serde.codec import ENVELOPE
from streams.serde.ids import fingerprint, new_traceparent, partition_for
from streams.serde.records import Envelope, PayloadRef
from streams.state.bundle import bundles
from streams.topology.load import load
from streams.topology.model import Topic

INPUT = "events.received"
STAMP, APPENDED, WRITTEN = "message.timestamp.type", "LogAppendTime", "CreateTime"
FEW = "events.received.few"
"""The input of contenders that would take too long for all of it."""

_SHIPPED = load()
TOPOLOGY = replace(
    _SHIPPED, topics={**_SHIPPED.topics, FEW: Topic(FEW, _SHIPPED.topics[INPUT].partitions)}
)
OUTPUT = "events"
CHANGELOG = "dedup.seen.changelog"
TENANTS = 200
BLOCK = 10_000
BUNDLES_UNDER_WAY = 500
_MOST_UNSENT = 100_000
FINGERPRINT = slice(5, 21)
DAY_MS = 86_400_000
SPREAD_MS = 9 * DAY_MS
REDELIVERED_WITHIN = 6 / 9
"""Of the spread: 6 days, so that none comes past the window of 7."""


@dataclass(frozen=True)
class Faults:
    """What is wrong with an output: events that are missing, too often there, or unknown."""

    lost: int
    repeated: int
    unknown: int

    @property
    def total(self) -> int:
        return self.lost + self.repeated + self.unknown

    def __str__(self) -> str:
        if not self.total:
            return "each event once"
        return f"VOID: {self.lost} lost, {self.repeated} repeated, {self.unknown} unknown"


def create(bootstrap: str, *names: str) -> None:
    """Topics as described above, on one replica; what the topology declares compacted is so."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    wanted = []
    for name in names:
        declared = TOPOLOGY.topics.get(name, Topic(name, TOPOLOGY.partitions))
        config = {
            "cleanup.policy": declared.cleanup,
            STAMP: APPENDED if declared.timestamp == "append" else WRITTEN,
            "retention.ms": "-1",
        }
        wanted.append(NewTopic(name, TOPOLOGY.partitions, 1, config=config))
    for created in admin.create_topics(wanted).values():
        created.result(30)


def create_stage_topics(bootstrap: str) -> None:
    """What `tidegate dedup` needs, as the topology declares it."""
    stage = TOPOLOGY.stages["dedup"]
    changelogs = (store.changelog for store in stage.stores)
    create(bootstrap, *stage.reads, *stage.writes, *changelogs, "clock")


def stamp(bootstrap: str, topic: str, kind: str) -> None:
    """Have a topic's new records carry this kind of time, and wait until the broker says so."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    entry = ConfigEntry(STAMP, kind, incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([changed])[changed].result(10)
    asked = ConfigResource(ConfigResource.Type.TOPIC, topic)
    while admin.describe_configs([asked])[asked].result(10)[STAMP].value != kind:
        time.sleep(0.05)


def fill(
    bootstrap: str, topic: str, events: int, duplicates: float, spread_ms: int = SPREAD_MS
) -> set[bytes]:
    """Write deliveries up to now; the fingerprints of which exactly one each must come out."""
    stamp(bootstrap, topic, WRITTEN)
    sender = producer(bootstrap, linger_ms=20)
    start = time.time_ns() // 1_000_000 - spread_ms
    expected = set()
    for number, event in enumerate(deliveries(events, duplicates)):
        at = start + number * spread_ms // events
        envelope = delivery(number, event, at)
        expected.add(envelope.fingerprint)
        send(sender, topic, envelope, at)
    flush(sender)
    stamp(bootstrap, topic, APPENDED)
    return expected


def deliveries(count: int, duplicates: float) -> Iterator[int]:
    """The number of the event that each delivery tells of: new ones and, evenly mixed among them,
    this share of redeliveries of any event of the last six days."""
    chance = random.Random(1)
    firsts: list[int] = []
    reach = int(count * REDELIVERED_WITHIN)
    for number in range(count):
        if not firsts or int((number + 1) * duplicates) == int(number * duplicates):
            yield len(firsts)
            firsts.append(number)
        else:
            oldest = min(bisect_left(firsts, number - reach), len(firsts) - 1)
            yield chance.randrange(oldest, len(firsts))


def delivery(number: int, event: int, at: int) -> Envelope:
    """One delivery of an event, as the ingress writes it."""
    tenant = f"tnt_{event % TENANTS:06d}"
    key = f"zendesk:ticket:{event}:rev:44"
    return Envelope(
        fingerprint(tenant, "zendesk", key),
        f"evt_{number:036d}",
        "zendesk",
        tenant,
        "ticket.updated",
        at,
        at,
        b"\7" * 32,
        key,
        f"ticket:{event}",
        "application/json",
        f"delivery-{number}",
        f"req-{number}",
        PayloadRef(1, (number,), 1024, "kek_0123456789ab"),
        {"ticket_id": str(event), "trigger": "webhook"},
        "webhook",
    )


def send(sender: Producer, topic: str, envelope: Envelope, at: int) -> None:
    """With the headers that the ingress sends; waits while much is unsent."""
    while len(sender) > _MOST_UNSENT:
        sender.poll(0.01)
    headers: list[tuple[str, str | bytes | None]] = [
        ("ce_specversion", b"1.0"),
        ("ce_id", envelope.event_id.encode()),
        ("ce_source", b"/v1/hooks/zendesk"),
        ("ce_type", envelope.event_type.encode()),
        ("traceparent", new_traceparent().encode()),
    ]
    sender.produce(
        topic,
        ENVELOPE.encode(envelope),
        envelope.tenant_id.encode(),
        partition_for(envelope.tenant_id, TOPOLOGY.partitions),
        headers=headers,
        timestamp=at,
    )


def faults(bootstrap: str, topic: str, expected: set[bytes]) -> Faults:
    """Compare what a read_committed consumer finds on an output with what must be there."""
    found = Counter(fingerprints(bootstrap, topic))
    return Faults(
        len(expected - found.keys()),
        sum(times - 1 for event, times in found.items() if event in expected),
        sum(times for event, times in found.items() if event not in expected),
    )


def fingerprints(bootstrap: str, topic: str) -> Iterator[bytes]:
    """Of every committed record on a topic."""
    admin = LeaderCachingAdmin({"bootstrap.servers": bootstrap, "log_level": 0})
    places = [TopicPartition(topic, p) for p in range(TOPOLOGY.partitions)]
    asked = admin.list_offsets({place: latest() for place in places})
    ends = {place.partition: answer.result(10).offset for place, answer in asked.items()}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in ends])
    while any(at.offset < ends[at.partition] for at in consumer.position(places)):
        for message in consumer.consume(20_000, 0.1):
            if message.error() is None:
                yield (message.value() or b"")[FINGERPRINT]
    consumer.close()


def fill_changelog(bootstrap: str, keys: int) -> None:
    """As many fingerprints, each once, over the last window, as a busy dedup would have written
    them: thousands in a transaction."""
    sender = producer(bootstrap, linger_ms=50)
    end = time.time_ns() // 1_000_000 - 60_000
    start = end - TOPOLOGY.window_ms + DAY_MS // 24
    for done in range(0, keys, BLOCK):
        at = start + (end - start) * done // keys
        value, partition = struct.pack(">q", at), done // BLOCK % TOPOLOGY.partitions
        ids = os.urandom(16 * min(BLOCK, keys - done))
        seen = dict.fromkeys((ids[i : i + 16] for i in range(0, len(ids), 16)), value)
        for key, bundle in bundles(seen):
            sender.produce(CHANGELOG, bundle, key, partition, timestamp=at)
        while len(sender) > BUNDLES_UNDER_WAY:
            sender.poll(0.01)
    flush(sender)
