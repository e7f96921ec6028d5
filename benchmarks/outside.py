"""A pipeline seen from the outside: stages as processes, topics as their readers see them."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic
from harness import Result

from streams.broker.ports import pick_free
from streams.stages import STAGES
from streams.topology.model import Topology

HERE = Path(__file__).parent
OVERLAY = HERE / "topology.yaml"
APPLICATION_PATH = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
"""`PYTHONPATH` with which a worker finds `bench_app`."""
KEY = b"b" * 32
LINK = f"127.0.0.1:{pick_free()}"
"""Where the owner of jobs listens for workers."""
LINK_TOKEN = "the-token-of-benchmarks"


@contextmanager
def stage(
    name: str, bootstrap: str, folder: Path, *flags: str, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """`tidegate NAME` as a pod would run it, with `topology.yaml` of this folder over the shipped
    one; its log is shown if the benchmark fails."""
    key_file = folder / "key"
    key_file.write_bytes(KEY)
    command = [
        sys.executable,
        "-m",
        "streams.cli",
        name,
        *(("--bootstrap", bootstrap) if name != "worker" else ()),
        "--data-dir",
        str(folder / "state"),
        "--topology",
        str(OVERLAY),
        *flags,
    ]
    link = "TIDEGATE_LINK_LISTEN" if STAGES[name].owns_jobs else "TIDEGATE_LINK"
    own = {
        "TIDEGATE_VAULT_KEY_FILE": str(key_file),
        "TIDEGATE_LINK_TOKEN": LINK_TOKEN,
        link: LINK if STAGES[name].owns_jobs else f"ws://{LINK}",
        "TIDEGATE_LOG_LEVEL": "warning",
        "PYTHONPATH": APPLICATION_PATH,
    }
    log = folder / f"{name}.log"
    with (
        log.open("wb") as out,
        subprocess.Popen(
            command, stdout=out, stderr=out, env={**os.environ, **own, **(env or {})}
        ) as process,
    ):
        try:
            yield process
        except BaseException:
            sys.stderr.write(log.read_text())
            raise
        finally:
            process.terminate()
            process.wait(30)


def until(
    condition: Callable[[], bool], process: subprocess.Popen[bytes], what: str, seconds: float = 50
) -> None:
    """Return once the condition holds; a stage that ended, or too long a wait, ends the program."""
    deadline = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None:
            raise SystemExit(f"the stage ended with exit code {process.returncode}")
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {seconds:g} s: {what}")


def _client(bootstrap: str) -> dict[str, str | int]:
    """Of every client here; librdkafka would tell of the broker's end."""
    return {"bootstrap.servers": bootstrap, "log_level": 0}


def producer(bootstrap: str, linger_ms: float = 5, transactional_id: str | None = None) -> Producer:
    """One that loses nothing; large topics are filled with a longer linger."""
    transactional = {"transactional.id": transactional_id} if transactional_id else {}
    return Producer(
        {
            **_client(bootstrap),
            "acks": "all",
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": linger_ms,
            "queue.buffering.max.messages": 1_000_000,
            **transactional,
        }
    )


def flush(sender: Producer) -> None:
    """Everything is acknowledged, or the program ends."""
    if sender.flush(60):
        raise SystemExit("the broker did not take the records")


class Reader:
    """Reads committed records of some topics, from their start or from now on."""

    def __init__(
        self, bootstrap: str, topology: Topology, *topics: str, from_now: bool = False
    ) -> None:
        self._consumer = Consumer(
            {
                **_client(bootstrap),
                "group.id": "bench",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 20,
                "fetch.queue.backoff.ms": 2,
            }
        )
        offset = OFFSET_END if from_now else OFFSET_BEGINNING
        self._consumer.assign(
            [
                TopicPartition(topic, partition, offset)
                for topic in topics
                for partition in range(topology.topics[topic].partitions)
            ]
        )

    def read(self, most: int = 2_000, wait: float = 0.05) -> list[Message]:
        """What came, without waiting for more once there is something."""
        first = self._consumer.poll(wait)
        if first is None or first.error():
            return []
        return [first, *(m for m in self._consumer.consume(most, 0) if m.error() is None)]

    def close(self) -> None:
        self._consumer.close()


def scan(bootstrap: str, topology: Topology, topic: str) -> list[Message]:
    """Every committed record that stands on a topic."""
    consumer = Consumer(
        {
            **_client(bootstrap),
            "group.id": "bench",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    unread = set(range(topology.topics[topic].partitions))
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in unread])
    found: list[Message] = []
    while unread:
        for message in consumer.consume(20_000, 0.1):
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                unread.discard(message.partition())
    consumer.close()
    return found


class GroupOffsets:
    """How far a stage's group has committed its inputs."""

    def __init__(self, bootstrap: str, group: str, topology: Topology, *topics: str) -> None:
        # A consumer that never joins; AdminClient's own call for it crashes the process while
        # the group has none (confluent-kafka 2.16.1).
        self._consumer = Consumer(
            {
                **_client(bootstrap),
                "group.id": group,
                "enable.auto.commit": False,
                "isolation.level": "read_uncommitted",
            }
        )
        self._places = [
            TopicPartition(t, p) for t in topics for p in range(topology.topics[t].partitions)
        ]

    def total(self) -> int:
        """Records committed so far, as far as the broker can say."""
        try:
            return sum(max(0, place.offset) for place in self._consumer.committed(self._places, 10))
        except KafkaException:
            return 0

    def close(self) -> None:
        self._consumer.close()


def resident(process: subprocess.Popen[bytes], contender: str) -> Result:
    """How much memory a process holds now."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return Result(contender, "resident", round(pages * 4096 / 2**20, 1), "MiB")


def percentiles(contender: str, metric: str, seconds: Sequence[float]) -> list[Result]:
    """p50 and p99 in milliseconds."""
    cuts = statistics.quantiles(seconds, n=100)
    return [
        Result(contender, f"{metric} p50", round(cuts[49] * 1000, 1), "ms"),
        Result(contender, f"{metric} p99", round(cuts[98] * 1000, 1), "ms"),
    ]


def plain_hop(bootstrap: str, rounds: int = 100) -> list[Result]:
    """Send, read, begin, produce, send offsets, commit, read committed, of a quiet broker."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic("hop.in", 1), NewTopic("hop.out", 1)]).values():
        created.result(30)
    sender, transactional = producer(bootstrap, 0), producer(bootstrap, 0, "hop")
    transactional.init_transactions(30)
    inside, outside = (_hop_reader(bootstrap, topic) for topic in ("hop.in", "hop.out"))
    took = []
    for _ in range(rounds):
        started = time.perf_counter()
        sender.produce("hop.in", b"x" * 200, b"key")
        sender.flush()
        message = _polled(inside)
        transactional.begin_transaction()
        transactional.produce("hop.out", message.value(), b"key")
        position = TopicPartition("hop.in", 0, (message.offset() or 0) + 1)
        transactional.send_offsets_to_transaction([position], inside.consumer_group_metadata())
        transactional.commit_transaction()
        _polled(outside)
        took.append(time.perf_counter() - started)
    inside.close()
    outside.close()
    return percentiles("one plain hop", "sent to read", took)


def _hop_reader(bootstrap: str, topic: str) -> Consumer:
    """Reads the one partition of a topic from its start."""
    reader = Consumer(
        {
            **_client(bootstrap),
            "group.id": topic,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.queue.backoff.ms": 1,
        }
    )
    reader.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    return reader


def _polled(reader: Consumer) -> Message:
    """The next record; ten seconds without one end the benchmark."""
    message = reader.poll(10)
    if message is None or message.error() is not None:
        raise SystemExit("the plain hop's record did not come")
    return message
