"""What is wrong with topics: as `topology plan` finds it, and for readers who may not see all."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from streams.doctor import topics
from streams.doctor.cluster_view import TopicsSeen
from streams.topology.cluster import Cluster, ClusterTopic, topic_config
from streams.topology.load import load

TOPOLOGY = load()
PREFIX = "t-"
APPLY = "tidegate topology apply"


def part(number: int, leader: int = 1, in_sync: tuple[int, ...] = (1, 2, 3)) -> Any:
    nodes = {id_: SimpleNamespace(id=id_) for id_ in (-1, 1, 2, 3)}
    return SimpleNamespace(
        id=number,
        leader=nodes[leader],
        replicas=[nodes[n] for n in (1, 2, 3)],
        isr=[nodes[n] for n in in_sync],
    )


def seen() -> TopicsSeen:
    """A cluster of three brokers as declared."""
    declared = {PREFIX + t.name: t for t in TOPOLOGY.topics.values()}
    known = {
        n: ClusterTopic(t.partitions, 3, 0, topic_config(t, True)) for n, t in declared.items()
    }
    parts = {n: [part(p) for p in range(t.partitions)] for n, t in declared.items()}
    return TopicsSeen(Cluster(3, known), parts, {}, {})


def changed(topic: str, **fields: Any) -> TopicsSeen:
    found = seen()
    there = dict(found.cluster.topics)
    there[PREFIX + topic] = replace(there[PREFIX + topic], **fields)
    return replace(found, cluster=replace(found.cluster, topics=there))


def without(*names: str) -> TopicsSeen:
    found = seen()
    there = {n: t for n, t in found.cluster.topics.items() if n.removeprefix(PREFIX) not in names}
    parts = {n: p for n, p in found.partitions.items() if n.removeprefix(PREFIX) not in names}
    return replace(found, cluster=replace(found.cluster, topics=there), partitions=parts)


def test_topics_as_declared_are_ok() -> None:
    found = [
        *topics.hidden(seen()),
        *topics.declared(TOPOLOGY, seen(), PREFIX, APPLY),
        *topics.co_partitioned(TOPOLOGY, seen(), PREFIX),
        *topics.replicas(seen()),
    ]
    assert {each.status for each in found} == {"ok"}


def test_missing_topics_are_one_finding_with_one_remedy() -> None:
    (found,) = topics.declared(TOPOLOGY, without("dlq", "clock", "jobs", "tenants"), PREFIX, APPLY)
    assert found.status == "fail"
    assert found.text == "4 topics do not exist: t-clock, t-dlq, t-jobs and 1 more"
    assert found.remedy == "tidegate topology apply"


def test_a_wrong_retention_is_named_with_both_values() -> None:
    config = topic_config(TOPOLOGY.topics["events.received"], True) | {"retention.ms": "1000"}
    (found,) = topics.declared(TOPOLOGY, changed("events.received", config=config), PREFIX, APPLY)
    assert found.status == "fail"
    assert found.text == "t-events.received: retention.ms is 1000, not 1209600000"


def test_other_partitions_than_declared_are_refused_with_the_plans_reason() -> None:
    (found,) = topics.declared(TOPOLOGY, changed("events", partitions=8), PREFIX, APPLY)
    assert found.status == "fail"
    assert found.text == "t-events: has 8 partitions, the file says 4"
    assert "--allow" not in (found.remedy or "")


def test_topics_with_the_same_fault_are_told_together() -> None:
    found = seen()
    there = {n: replace(t, partitions=2) for n, t in found.cluster.topics.items()}
    wider = replace(found, cluster=replace(found.cluster, topics=there))
    (told,) = topics.declared(TOPOLOGY, wider, PREFIX, APPLY)
    assert "and 33 more: has 2 partitions, the file says 4" in told.text


def test_too_few_replicas_are_told_by_topic_on_three_brokers_alone() -> None:
    few = changed("events", replication=1)
    found = [each.text for each in topics.declared(TOPOLOGY, few, PREFIX, APPLY)]
    assert "t-events: has 1 of 3 replicas" in found
    small = replace(few, cluster=replace(few.cluster, brokers=1))
    found = [each.text for each in topics.declared(TOPOLOGY, small, PREFIX, APPLY)]
    assert found == ["t-events: min.insync.replicas is 2, not 1"]


def test_a_topic_that_may_not_be_seen_is_skipped_and_not_missing() -> None:
    hidden = replace(without("dlq"), hidden={PREFIX + "dlq": "Describe"})
    (skipped,) = topics.hidden(hidden)
    assert skipped.status == "skipped"
    assert "lacks the right Describe on 1 topic: t-dlq" in skipped.text
    (found,) = topics.declared(TOPOLOGY, hidden, PREFIX, APPLY)
    assert found.status == "ok"
    assert "35 topics" in found.text


def test_nothing_is_ok_where_nothing_may_be_seen() -> None:
    names = {PREFIX + name: "Describe" for name in TOPOLOGY.topics}
    blind = replace(without(*TOPOLOGY.topics), hidden=names)
    assert list(topics.declared(TOPOLOGY, blind, PREFIX, APPLY)) == []
    assert list(topics.replicas(blind)) == []
    assert list(topics.co_partitioned(TOPOLOGY, blind, PREFIX)) == []


def test_topics_that_meet_need_as_many_partitions() -> None:
    found = seen()
    parts = {**found.partitions, PREFIX + "events": [part(p) for p in range(8)]}
    (told,) = topics.co_partitioned(TOPOLOGY, replace(found, partitions=parts), PREFIX)
    assert told.status == "fail"
    assert "8: events" in told.text


def replicas_of(*parts: Any) -> list[tuple[str, str]]:
    found = replace(seen(), partitions={PREFIX + "events": parts})
    return [(each.status, each.text) for each in topics.replicas(found)]


def test_partitions_without_leader_or_replicas_are_told_by_what_they_cannot_do() -> None:
    ((status, text),) = replicas_of(part(0), part(1, in_sync=(1, 2)))
    assert (status, text) == ("warn", "1 partition of 2 lack replicas in sync")
    ((status, text),) = replicas_of(part(0, in_sync=(1,)))
    assert status == "fail"
    assert "takes no record" in text
    (status, text), *_ = replicas_of(part(0, leader=-1, in_sync=()))
    assert status == "fail"
    assert "t-events-0" in text
