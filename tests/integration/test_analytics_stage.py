"""The analytics stage on a real Kafka: committed records, each counted once."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.analytics import Traffic, analytics, counted_from_topics, ends, tables_of
from support.conditions import eventually
from support.kafka_under_test import KafkaUnderTest
from support.stage_process import Cluster

from streams.topology.load import load

pytestmark = [pytest.mark.broker, pytest.mark.long]


@pytest.fixture
def cluster(kafka: KafkaUnderTest) -> Cluster:
    made = Cluster(kafka, load())
    made.create()
    return made


@pytest.mark.fault
def test_the_tables_are_what_the_topics_say_across_sigkill(
    cluster: Cluster, tmp_path: Path
) -> None:
    traffic = Traffic(cluster)
    traffic.write(40)
    for _ in range(3):
        with analytics(cluster, tmp_path) as process:
            eventually(lambda: sum(process.positions().values()) > 0, what="it counts")
            traffic.write(60)
    traffic.write(20)
    with analytics(cluster, tmp_path) as process:
        wanted = ends(cluster)
        eventually(lambda: wanted.items() <= process.positions().items(), what="all is counted")
        assert process.stop() == 0
    assert tables_of(tmp_path) == counted_from_topics(cluster)
