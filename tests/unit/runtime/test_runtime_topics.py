"""What a stage learns of its topics before it starts."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource
from structlog.testing import capture_logs
from support.counting import counting_stage, counting_topology

from streams.errors import ConfigError, StageFailed
from streams.kafka.failures import Outage
from streams.kafka.offsets import latest, request_offsets
from streams.runtime.stage import AnyStage, Stage, StoreSpec
from streams.runtime.topics import (
    Changelog,
    StageTopics,
    Topics,
    await_topics,
    refuse_growth,
)

HOUR_MS = 3_600_000


def answered(value: object) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


class Admin:
    """A cluster with two topics that keep deletions for an hour, and `widths` partitions."""

    def __init__(self, **widths: int) -> None:
        self.widths = widths
        self.isolation: IsolationLevel | None = None
        self.settings: dict[str, dict[str, str]] = {}

    def describe_topics(self, names: TopicCollection, request_timeout: float) -> Any:
        return {
            name: answered(SimpleNamespace(topic_id=f"id of {name}")) for name in ("p.a", "p.b")
        }

    def describe_configs(self, asked: Collection[ConfigResource], request_timeout: float) -> Any:
        entries = {"delete.retention.ms": str(HOUR_MS)}
        return {
            resource: answered(
                {
                    name: SimpleNamespace(value=value)
                    for name, value in {**entries, **self.settings.get(resource.name, {})}.items()
                }
            )
            for resource in asked
        }

    def list_topics(self, timeout: float) -> Any:
        found = {
            name: SimpleNamespace(partitions=range(width), error=None)
            for name, width in self.widths.items()
        }
        return SimpleNamespace(topics=found)

    def list_offsets(self, asked: Any, isolation_level: IsolationLevel, **_: Any) -> Any:
        self.isolation = isolation_level
        return {}


def test_a_changelog_keeps_deletions_as_the_cluster_says_but_in_bundles_for_ever() -> None:
    stores = StoreSpec("a", "a"), StoreSpec("b", "b", "window", 1_000)
    stage = Stage("s", ("in",), stores, cast(Any, None))
    found = Topics(cast(AdminClient, Admin()), "p.").changelogs(stage)
    assert [(c.topic_id, c.tombstones_ms) for c in found.values()] == [
        ("id of p.a", HOUR_MS),
        ("id of p.b", math.inf),
    ]


@pytest.mark.parametrize("odd", ["in", "out", "counting.counts.changelog"])
def test_another_number_of_partitions_than_declared_is_refused(odd: str) -> None:
    stage, topology = counting_stage(), counting_topology()
    widths = {name: topic.partitions for name, topic in topology.topics.items()}
    topics = Topics(cast(AdminClient, Admin(**widths | {odd: 7})), "")
    with pytest.raises(ConfigError, match=f"{odd} has 7 partitions, topology.yaml says"):
        await_topics(topics, stage, topology, Outage(), lambda: True)


def unfit(settings: dict[str, dict[str, str]], inputs: tuple[str, ...] = ("in",)) -> str:
    """What a stage is refused with where the cluster's topics are set so."""
    topology = counting_topology(inputs=inputs)
    topology.topics["in"] = replace(topology.topics["in"], timestamp="append")
    admin = Admin(**{name: topic.partitions for name, topic in topology.topics.items()})
    admin.settings = settings
    topics = Topics(cast(AdminClient, admin), "")
    with pytest.raises(ConfigError) as refused:
        await_topics(topics, counting_stage(inputs=inputs), topology, Outage(), lambda: True)
    return str(refused.value)


@pytest.mark.parametrize("topic", ["out", "dlq", "counting.counts.changelog"])
def test_a_topic_that_would_refuse_what_the_stage_sends_is_refused_itself(topic: str) -> None:
    why = unfit({topic: {"max.message.bytes": "999999"}})
    assert why.startswith(f"stage counting: {topic} takes messages of 999,999 bytes at most")
    assert why.endswith("Run `tidegate topology apply`, then start it again")


def test_an_input_that_carries_its_writers_time_is_refused() -> None:
    why = unfit({"in": {"message.timestamp.type": "CreateTime", "max.message.bytes": "1"}})
    assert "in has message.timestamp.type CreateTime, not LogAppendTime" in why
    assert "\n" not in why, "an input's size is its writers' matter"


@pytest.mark.parametrize("policy", ["delete", "delete,compact"])
def test_a_changelog_that_kafka_would_delete_is_refused(policy: str) -> None:
    why = unfit({"counting.counts.changelog": {"cleanup.policy": policy}})
    assert f"has cleanup.policy {policy}, not compact: Kafka would delete" in why


def test_a_stage_waits_for_the_topic_of_the_brokers_time() -> None:
    topology = counting_topology()
    widths = {n: t.partitions for n, t in topology.topics.items() if n != "clock"}
    topics = Topics(cast(AdminClient, Admin(**widths)), "")
    with capture_logs() as logs:
        assert await_topics(topics, counting_stage(), topology, Outage(), lambda: True) is None
    assert [line["topics"] for line in logs] == [["clock"]]


def test_a_broker_that_goes_away_once_its_topics_are_known_is_waited_for() -> None:
    stage, topology = counting_stage(), counting_topology()
    admin = Admin(**{name: topic.partitions for name, topic in topology.topics.items()})
    topics = Topics(cast(AdminClient, admin), "")
    found = {"counting.counts.changelog": Changelog("c", "id", HOUR_MS)}
    away = KafkaException(KafkaError(KafkaError._TRANSPORT))
    answers: Iterator[KafkaException | dict[str, Changelog]] = iter([away, away, found])

    def ask(stage: AnyStage) -> dict[str, Changelog]:
        answer = next(answers)
        if isinstance(answer, KafkaException):
            raise answer
        return answer

    topics.changelogs = ask  # type: ignore[method-assign]
    outage = Outage()
    with capture_logs() as logs:
        assert await_topics(topics, stage, topology, outage, lambda: False) == found
    assert [line["event"] for line in logs] == ["kafka does not answer: trying on", "kafka answers"]


def test_an_end_is_asked_for_with_what_open_transactions_wrote() -> None:
    """Else a restore would stop before them, and they be committed later."""
    admin = Admin()
    request_offsets(cast(AdminClient, admin), "", [("in", 0)], latest(), 1.0)
    assert admin.isolation is IsolationLevel.READ_UNCOMMITTED


def test_a_partition_that_came_while_the_stage_ran_is_refused() -> None:
    stage, topology = counting_stage(), counting_topology(2)
    widths = {"in": 3, "counting.counts.changelog": 2}
    topics = Topics(cast(AdminClient, Admin(**widths)), "")
    refuse_growth(topics, stage, topology, [0, 1])
    with pytest.raises(ConfigError, match=r"in has 3 partitions.*Declare 3, or see `tidegate topo"):
        refuse_growth(topics, stage, topology, [2])


def test_a_topic_that_was_deleted_is_missed_after_a_failed_transaction() -> None:
    admin = Admin(**{"in": 2, "out": 2, "limits.x": 2, "counting.counts.changelog": 2, "dlq": 2})
    topics = StageTopics(Topics(cast(AdminClient, admin), ""), counting_stage())
    assert topics.exists("out", 0)
    assert not topics.exists("out", 2), "no such partition: whoever named it is to blame"
    assert topics.exists("limits.x", 1)
    del admin.widths["out"], admin.widths["limits.x"]
    assert topics.exists("out", 0), "nothing failed yet"
    topics.doubt()
    with pytest.raises(StageFailed, match=r"the topic out is gone.*tidegate topology apply"):
        topics.exists("out", 0)
    assert not topics.exists("limits.x", 1)


def test_where_no_broker_answers_no_topic_is_gone() -> None:
    class Silent(Admin):
        def list_topics(self, timeout: float) -> Any:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    admin = cast(AdminClient, Silent())
    topics = StageTopics(Topics(admin, ""), counting_stage())
    topics.doubt()
    assert topics.exists("out", 0)
