"""What the brokers of a cluster tell of its topics, when they do not all know the same."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource

from streams.topology.cluster import read_cluster


class Brokers:
    """The first lists the topics `old` and `new`; another, asked for settings, knows `old` only."""

    def list_topics(self, **_: object) -> Any:
        partitions = {0: SimpleNamespace(replicas=[1, 2, 3], leader=1)}
        topic = SimpleNamespace(partitions=partitions)
        return SimpleNamespace(brokers={1: None, 2: None}, topics={"old": topic, "new": topic})

    def describe_configs(self, asked: list[ConfigResource], **_: object) -> dict[Any, Future[Any]]:
        answers: dict[Any, Future[Any]] = {}
        for resource in asked:
            answers[resource] = future = Future[Any]()
            if resource.name == "old":
                future.set_result({"a": SimpleNamespace(name="a", value=1)})
            else:
                unknown = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
                future.set_exception(KafkaException(unknown))
        return answers


def test_a_topic_that_not_every_broker_knows_is_not_there_yet() -> None:
    cluster = read_cluster(Brokers(), ["old", "new"])  # type: ignore[arg-type]
    assert dict(cluster.topics["old"].config) == {"a": "1"}
    assert "new" not in cluster.topics
