"""A stage as a child process of a test, and its topics on a real broker."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)
from confluent_kafka.cimpl import NewTopic

from streams.kafka.admin import LeaderCachingAdmin
from streams.kafka.offsets import latest
from streams.topology.model import Topology
from support.conditions import PATIENCE_SECONDS, eventually, exit_code
from support.topics import create_topics

QUIET = {"log_level": 0}
TESTS = Path(__file__).parents[1]


class StageProcess:
    """One process of a stage; `lines` is what it has logged so far."""

    def __init__(self, program: str, log: Path, environ: Mapping[str, str]) -> None:
        self._log = log
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"support.{program}"],
                stdout=out,
                stderr=out,
                env={
                    **os.environ,
                    "PYTHONPATH": f"{TESTS}{os.pathsep}{TESTS.parent}",
                    "TIDEGATE_LOG_FORMAT": "json",
                    **environ,
                },
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def lines(self) -> str:
        return self._log.read_text()

    def wait_for(self, text: str, timeout: float = PATIENCE_SECONDS, times: int = 1) -> None:
        eventually(lambda: self.lines.count(text) >= times, timeout, what=f"log line {text!r}")

    def said(self, event: str) -> dict[str, Any]:
        """The newest log line of an event, with its fields; empty before the first."""
        lines = [line for line in self.lines.splitlines() if f'"event": "{event}"' in line]
        return dict(json.loads(lines[-1])) if lines else {}

    @property
    def share(self) -> list[int]:
        """The partitions that it last said it works on."""
        return list(self.said("running").get("partitions", []))

    def ready(self) -> bool:
        """What its probe says; False before it has one."""
        if not self._started():
            return False
        try:
            return bool(self._probe("/readyz").status == 200)
        except HTTPError as refused:
            if refused.code != 503:
                raise
            return False

    def metric(self, name: str) -> float:
        """The sum of a metric's samples."""
        told = self._probe("/metrics").read().decode()
        return sum(map(float, re.findall(rf"^{name}(?:\{{.*\}})? (\S+)$", told, re.M)))

    def _probe(self, path: str) -> Any:
        port = self._started()["probe_port"]
        return urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", None, 10)

    def _started(self) -> dict[str, Any]:
        return self.said("stage starts") or self.said("probes are answered")

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self._process.send_signal(signal.SIGTERM)
        return exit_code(self._process)

    def kill(self) -> None:
        self._process.kill()
        exit_code(self._process)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def exit_code(self, timeout: float = PATIENCE_SECONDS) -> int:
        return exit_code(self._process, timeout)


class Cluster:
    """The topics of one test under a prefix of their own."""

    def __init__(self, kafka: Any, topology: Topology) -> None:
        self.prefix = f"t{uuid.uuid4().hex[:8]}-"
        self._kafka = kafka
        self._topology = topology
        self.admin = LeaderCachingAdmin({**kafka.client(), **QUIET})
        # Idempotent, or a broker that dies between writing and answering gets records twice.
        once = {**kafka.client(acks="all"), "enable.idempotence": True}
        self._producer = Producer({**once, **QUIET})

    def create(self, *left_out: str) -> None:
        """Create the topology's topics, less some."""
        topics = [
            NewTopic(
                self.prefix + t.name,
                t.partitions,
                1,
                config={
                    "cleanup.policy": t.cleanup,
                    "message.timestamp.type": "LogAppendTime"
                    if t.timestamp == "append"
                    else "CreateTime",
                },
            )
            for t in self._topology.topics.values()
            if t.name not in left_out
        ]
        create_topics(self._kafka.bootstrap, self.admin, topics)

    def configure(self, topic: str, name: str, value: str) -> None:
        """Change one setting of a topic; return once the broker shows it."""
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        changed = ConfigResource(
            ConfigResource.Type.TOPIC, self.prefix + topic, incremental_configs=[entry]
        )
        self.admin.incremental_alter_configs([changed])[changed].result(10)
        asked = ConfigResource(ConfigResource.Type.TOPIC, self.prefix + topic)

        def shown() -> bool:
            return bool(self.admin.describe_configs([asked])[asked].result(10)[name].value == value)

        eventually(shown, what=f"the broker has {name}={value}")

    def client(self, **settings: Any) -> dict[str, Any]:
        """A whole client configuration; keyword `group_id` becomes `group.id`."""
        return dict(self._kafka.client(**settings))

    def width(self, topic: str) -> int:
        """Number of partitions."""
        return self._topology.topics[topic].partitions

    def environ(self, data_dir: Path, instance: str = "0") -> dict[str, str]:
        """Settings of a stage's process."""
        client = self._kafka.client_settings.items()
        return {
            "TIDEGATE_BOOTSTRAP": self._kafka.bootstrap,
            "TIDEGATE_TOPIC_PREFIX": self.prefix,
            "TIDEGATE_DATA_DIR": str(data_dir),
            "TIDEGATE_INSTANCE": instance,
            **{f"TIDEGATE_KAFKA_{k.upper().replace('.', '_')}": str(v) for k, v in client},
        }

    def send(
        self,
        topic: str,
        records: Iterable[tuple[bytes | None, bytes | None]],
        partition: int = 0,
        timestamp: int = 0,
    ) -> None:
        """Records at this time in milliseconds, or at that of now."""
        for key, value in records:
            self._producer.produce(self.prefix + topic, value, key, partition, timestamp=timestamp)
        assert self._producer.flush(90) == 0

    def read(self, topic: str, *, committed: bool = True) -> list[Message]:
        """All records of a topic, by partition and offset, up to its end as of now."""
        name = self.prefix + topic
        level = "read_committed" if committed else "read_uncommitted"
        consumer = Consumer(
            {
                **self._kafka.client(group_id=uuid.uuid4().hex),
                "isolation.level": level,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",  # otherwise it would skip what it cannot find
                **QUIET,
            }
        )
        ends = self.ends(topic)
        consumer.assign([TopicPartition(name, p, 0) for p, end in ends.items() if end])
        found: list[Message] = []

        def complete() -> bool:
            found.extend(m for m in consumer.consume(1000, 0.1) if m.error() is None)
            positions = consumer.position([TopicPartition(name, p) for p in ends if ends[p]])
            return all(tp.offset >= ends[tp.partition] for tp in positions)

        eventually(complete, what=f"{topic} read to {ends}")
        consumer.close()
        return sorted(found, key=lambda m: (m.partition(), m.offset()))

    def pairs(self, topic: str) -> list[tuple[bytes | None, bytes | None]]:
        return [(m.key(), m.value()) for m in self.read(topic)]

    def ends(self, topic: str, *, committed: bool = False) -> dict[int, int]:
        """The end of each partition; the `committed` one is the last stable offset."""
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        return eventually(lambda: self._ask_ends(topic, level), what=f"the ends of {topic}")

    def held_back(self, topic: str) -> dict[int, int]:
        """By partition, how many records stand behind the beginning of an open transaction."""
        stable, ends = self.ends(topic, committed=True), self.ends(topic)
        return {p: end - stable[p] for p, end in ends.items() if end > stable[p]}

    def _ask_ends(self, topic: str, level: IsolationLevel) -> dict[int, int]:
        """Empty while the broker does not answer."""
        name = self.prefix + topic
        asked = {TopicPartition(name, p): latest() for p in range(self.width(topic))}
        answers = self.admin.list_offsets(asked, isolation_level=level)
        try:
            ends = {tp.partition: future.result(10).offset for tp, future in answers.items()}
        except KafkaException:
            return {}
        return ends if min(ends.values()) >= 0 else {}


@contextmanager
def counting(cluster: Cluster, folder: Path) -> Iterator[StageProcess]:
    """The counting stage on new topics, running; its log is shown where the test failed."""
    cluster.create()
    running = StageProcess("counting_stage", folder / "log", cluster.environ(folder / "d"))
    running.wait_for("running")
    yield running
    running.kill()
    print(running.lines)
