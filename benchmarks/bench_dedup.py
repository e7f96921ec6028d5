"""Events a second of one dedup process, exactly once, with the broker on the same machine.

    python benchmarks/bench_dedup.py [--events 400000] [--redelivered 10] [--json]

The topic is filled first: real envelopes of 200 tenants with the headers that the ingress sends,
some of them redeliveries of any earlier event. Then `tidegate dedup` runs, as a pod would run it.
Speed is taken from outside: the offsets that the stage's group has committed. At the end `events`
is read with read_committed and must hold exactly the expected events; else the exit code is 1.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from harness import Result, arguments, broker_and_folder, create_topics, report

from streams.runtime.offsets import latest
from streams.serde.codec import ENVELOPE
from streams.serde.ids import fingerprint, new_traceparent, partition_for
from streams.serde.records import Envelope, PayloadRef
from streams.topology.load import load

TENANTS = 200
TOPOLOGY = load()
FINGERPRINT = slice(5, 21)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--events", type=int, default=400_000)
    parser.add_argument("--redelivered", type=int, default=10, help="of a hundred deliveries")
    chosen = parser.parse_args()
    with broker_and_folder() as (bootstrap, folder):
        names = ("events.received", "events", "duplicates", "dedup.seen.changelog", "dlq")
        create_topics(bootstrap, TOPOLOGY, names)
        expected = fill(bootstrap, chosen.events, chosen.redelivered)
        rate = run(bootstrap, folder, chosen.events)
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)
        found = Counter(read(bootstrap))
    wrong = len(expected - found.keys()) + sum(n - (f in expected) for f, n in found.items())
    report("dedup", [
        Result("tidegate dedup", "throughput, exactly once", rate, "events/s"),
        Result("tidegate dedup", "CPU of the process, all of it",
               (spent.ru_utime + spent.ru_stime) / chosen.events * 1e6, "us/event"),
        Result("tidegate dedup", "unique events", len(expected), "events"),
        Result("tidegate dedup", "lost or repeated", wrong, "events"),
    ], as_json=chosen.json)  # fmt: skip
    sys.exit(1 if wrong else 0)


def fill(bootstrap: str, events: int, redelivered: int) -> set[bytes]:
    """Write the deliveries; the fingerprints of which exactly one each must come out."""
    producer = Producer({
        "bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True,
        "compression.type": "lz4", "linger.ms": 20, "queue.buffering.max.messages": 1_000_000,
    })  # fmt: skip
    expected = set()
    for number in range(events):
        envelope = delivery(number, redelivered)
        expected.add(envelope.fingerprint)
        headers: list[tuple[str, str | bytes | None]] = [
            ("ce_specversion", b"1.0"),
            ("ce_id", envelope.event_id.encode()),
            ("ce_source", b"/v1/hooks/zendesk"),
            ("ce_type", envelope.event_type.encode()),
            ("traceparent", new_traceparent().encode()),
        ]
        producer.produce(
            "events.received", ENVELOPE.encode(envelope), envelope.tenant_id.encode(),
            partition_for(envelope.tenant_id, TOPOLOGY.partitions), headers=headers,
        )  # fmt: skip
    if producer.flush(60):
        raise SystemExit("the broker did not take the deliveries")
    return expected


def delivery(number: int, redelivered: int) -> Envelope:
    """Of each hundred the last so many repeat an event of any hundred up to their own."""
    hundred, place = divmod(number, 100)
    new = 100 - redelivered
    event = number if place < new else number * 7919 % (hundred + 1) * 100 + place % new
    tenant = f"tnt_{event % TENANTS:06d}"
    key = f"zendesk:ticket:{event}:rev:44"
    now = time.time_ns() // 1_000_000
    return Envelope(
        fingerprint(tenant, "zendesk", key), f"evt_{number:036d}", "zendesk", tenant,
        "ticket.updated", now, now, b"\7" * 32, key, f"ticket:{event}", "application/json",
        f"delivery-{number}", f"req-{number}", PayloadRef(1, (number,), 1024, "kek_0123456789ab"),
        {"ticket_id": str(event), "trigger": "webhook"}, "webhook",
    )  # fmt: skip


def run(bootstrap: str, folder: Path, events: int) -> float:
    """Events a second from the first commit seen to the last."""
    command = [
        sys.executable, "-m", "streams.cli", "dedup",
        "--bootstrap", bootstrap, "--data-dir", str(folder / "state"),
    ]  # fmt: skip
    with (
        (folder / "dedup.log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as stage,
    ):
        try:
            return measure(bootstrap, stage, events)
        except SystemExit:
            sys.stderr.write((folder / "dedup.log").read_text())
            raise
        finally:
            stage.terminate()
            stage.wait(30)


def measure(bootstrap: str, stage: subprocess.Popen[bytes], events: int) -> float:
    # A consumer that never joins reads the group's offsets; AdminClient's own call for it
    # crashes the process while the group has none (confluent-kafka 2.16.1).
    group = Consumer({
        "bootstrap.servers": bootstrap, "group.id": "dedup", "enable.auto.commit": False,
        "isolation.level": "read_uncommitted",
    })  # fmt: skip
    first: tuple[float, int] | None = None
    while True:
        done, at = committed(group), time.perf_counter()
        if stage.poll() is not None:
            raise SystemExit(f"the stage ended with exit code {stage.returncode}")
        if first is None and done:
            first = at, done
        if first is not None and done >= events:
            group.close()
            return (done - first[1]) / (at - first[0])
        time.sleep(0.05)


def committed(group: Consumer) -> int:
    """Input records that the stage's group has committed, as far as the broker can say."""
    places = [TopicPartition("events.received", p) for p in range(TOPOLOGY.partitions)]
    try:
        return sum(max(0, place.offset) for place in group.committed(places, 10))
    except KafkaException:
        return 0


def read(bootstrap: str) -> list[bytes]:
    """Fingerprints on `events`, as a read_committed consumer sees them."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = {TopicPartition("events", p): latest() for p in range(TOPOLOGY.partitions)}
    ends = {tp.partition: f.result(10).offset for tp, f in admin.list_offsets(asked).items()}
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False,
        "isolation.level": "read_committed", "auto.offset.reset": "earliest",
    })  # fmt: skip
    consumer.assign([TopicPartition("events", partition, 0) for partition in ends])
    found: list[bytes] = []
    while any(
        place.offset < ends[place.partition]
        for place in consumer.position([TopicPartition("events", p) for p in ends])
    ):
        found += [(m.value() or b"")[FINGERPRINT] for m in consumer.consume(20_000, 0.1)]
    consumer.close()
    return found


if __name__ == "__main__":
    main()
