"""What a plan says for each difference between a topology and a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from streams.topology.cluster import Cluster, ClusterTopic, topic_config
from streams.topology.load import load
from streams.topology.model import CHANGELOG_DELETE_RETENTION_MS, Topic, Topology
from streams.topology.plan import (
    AddPartitions,
    ChangeConfig,
    Consent,
    CreateTopic,
    DeleteTopic,
    compare,
)

UNSAFE = Consent(unsafe=True)
DAY = 86_400_000


def as_declared(
    topology: Topology, prefix: str = "", replication: int = 3
) -> dict[str, ClusterTopic]:
    return {
        prefix + topic.name: ClusterTopic(
            topic.partitions, replication, config=topic_config(topic, replication >= 3)
        )
        for topic in topology.topics.values()
    }


def cluster(changed: Mapping[str, ClusterTopic] | None = None, brokers: int = 3) -> Cluster:
    return Cluster(brokers, {**as_declared(load()), **(changed or {})})


def altered(name: str, **changes: Any) -> dict[str, ClusterTopic]:
    return {name: replace(as_declared(load())[name], **changes)}


def with_setting(name: str, setting: str, value: str) -> dict[str, ClusterTopic]:
    config = as_declared(load())[name].config
    return altered(name, config={**config, setting: value})


def test_an_empty_cluster_gets_every_topic_on_three_replicas() -> None:
    planned = compare(load(), Cluster(3, {}), "", Consent())
    assert [step.topic for step in planned.of(CreateTopic)] == list(load().topics)
    assert {step.replication for step in planned.of(CreateTopic)} == {3}
    assert {step.config["min.insync.replicas"] for step in planned.of(CreateTopic)} == {"2"}
    assert not planned.refusals


def test_a_cluster_as_declared_needs_nothing() -> None:
    assert compare(load(), cluster(), "", Consent()).empty


@pytest.mark.parametrize(("brokers", "named"), [(1, "1 broker,"), (2, "2 brokers,")])
def test_too_few_brokers_are_refused_by_number(brokers: int, named: str) -> None:
    planned = compare(load(), Cluster(brokers, {}), "", Consent())
    assert [named in r.why and "--allow-unsafe" in r.why for r in planned.refusals] == [True]


def test_a_broker_that_is_down_refuses_nothing_where_no_topic_is_made() -> None:
    """Kafka names the brokers that run; those of existing topics are told by their replicas."""
    assert compare(load(), cluster(brokers=2), "", Consent()).empty


def test_too_few_brokers_are_accepted_when_unsafe_is_allowed() -> None:
    planned = compare(load(), Cluster(1, {}), "", UNSAFE)
    assert not planned.refusals
    assert {step.replication for step in planned.of(CreateTopic)} == {1}
    assert {step.config["min.insync.replicas"] for step in planned.of(CreateTopic)} == {"1"}


def test_three_brokers_replicate_three_times_even_when_unsafe_is_allowed() -> None:
    planned = compare(load(), Cluster(3, {}), "", UNSAFE)
    assert {step.replication for step in planned.of(CreateTopic)} == {3}


def test_a_topic_with_too_few_replicas_is_refused_on_a_cluster_that_grew() -> None:
    one = altered("events", replication=1)
    planned = compare(load(), cluster(one), "", Consent())
    assert [(r.topic, "1 of 3 replicas" in r.why) for r in planned.refusals] == [("events", True)]


def test_a_topic_with_one_replica_never_waits_for_two_in_sync() -> None:
    """min.insync.replicas above the replicas would stop every write to it."""
    wanted = topic_config(load().topics["events"], replicated=False)
    one = altered("events", replication=1, config=wanted)
    assert compare(load(), cluster(one), "", UNSAFE).empty


def test_a_changed_setting_is_changed_back_and_others_are_left_alone() -> None:
    config = {**as_declared(load())["events"].config, "retention.ms": "5", "flush.ms": "1"}
    planned = compare(load(), cluster(altered("events", config=config)), "", Consent())
    assert planned.steps == (ChangeConfig("events", "retention.ms", "5", "1814400000"),)


@pytest.mark.parametrize(
    ("topic", "setting", "kept"),
    [
        ("dlq", "retention.ms", str(90 * DAY)),
        ("dlq", "retention.ms", "-1"),
        ("jobs", "cleanup.policy", "delete"),
        ("events", "cleanup.policy", "compact"),
    ],
)
def test_what_would_delete_records_that_are_kept_is_refused(
    topic: str, setting: str, kept: str
) -> None:
    there = cluster(with_setting(topic, setting, kept))
    planned = compare(load(), there, "", Consent())
    assert planned.steps == ()
    assert "--allow-shorter-retention" in planned.refusals[0].why
    allowed = compare(load(), there, "", Consent(shorter_retention=True))
    assert [step.setting for step in allowed.of(ChangeConfig)] == [setting]
    assert allowed.refusals == ()


def test_a_longer_retention_needs_no_consent() -> None:
    there = cluster(with_setting("dlq", "retention.ms", str(DAY)))
    change = ChangeConfig("dlq", "retention.ms", str(DAY), str(30 * DAY))
    assert compare(load(), there, "", Consent()).steps == (change,)


def test_settings_are_compared_by_meaning() -> None:
    config = {
        **as_declared(load())["dedup.seen.changelog"].config,
        "cleanup.policy": "delete,compact",
        "min.cleanable.dirty.ratio": "0.20",
    }
    changed = altered("dedup.seen.changelog", config=config)
    assert compare(load(), cluster(changed), "", Consent()).empty


def test_more_partitions_are_refused_with_the_reason() -> None:
    planned = compare(load(), cluster(altered("events", partitions=2)), "", Consent())
    assert planned.steps == ()
    assert planned.refusals[0].topic == "events"
    assert "has 2 partitions, the file says 4: keys move" in planned.refusals[0].why
    assert "--allow-partition-change" in planned.refusals[0].why


def test_more_partitions_are_added_when_allowed() -> None:
    consent = Consent(partition_change=True)
    planned = compare(load(), cluster(altered("events", partitions=2)), "", consent)
    assert planned.steps == (AddPartitions("events", 2, 4),)
    assert not planned.refusals


def test_fewer_partitions_are_refused_whatever_is_allowed() -> None:
    consent = Consent(partition_change=True)
    planned = compare(load(), cluster(altered("events", partitions=8)), "", consent)
    assert planned.steps == ()
    assert "Kafka cannot remove partitions" in planned.refusals[0].why


def test_an_undeclared_topic_is_left_alone() -> None:
    stranger = {"events.old": ClusterTopic(1, 3)}
    planned = compare(load(), cluster(stranger), "", Consent())
    assert planned.empty
    assert planned.notes == ()


def test_an_undeclared_topic_with_the_prefix_is_mentioned() -> None:
    topics = {**as_declared(load(), "tg."), "tg.old": ClusterTopic(1, 3), "x": ClusterTopic(1, 3)}
    planned = compare(load(), Cluster(3, topics), "tg.", Consent())
    assert planned.empty
    assert planned.notes == ("tg.old carries the prefix but is not declared: left alone",)


def test_only_a_named_topic_is_deleted() -> None:
    strangers = {"old": ClusterTopic(1, 3), "other": ClusterTopic(1, 3)}
    planned = compare(load(), cluster(strangers), "", Consent(delete=("old",)))
    assert planned.steps == (DeleteTopic("old"),)


@pytest.mark.parametrize(
    ("name", "why"), [("events", "is declared"), ("__consumer_offsets", "is Kafka's own")]
)
def test_declared_and_internal_topics_are_not_deleted(name: str, why: str) -> None:
    there = {"__consumer_offsets": ClusterTopic(50, 3)}
    planned = compare(load(), cluster(there), "", Consent(delete=(name,)))
    assert planned.steps == ()
    assert why in planned.refusals[0].why


def test_deleting_what_is_gone_changes_nothing() -> None:
    planned = compare(load(), cluster(), "", Consent(delete=("old",)))
    assert planned.empty
    assert planned.notes == ("old is not on the cluster: nothing to delete",)


def test_settings_of_a_topic() -> None:
    received = topic_config(load().topics["events.received"], replicated=True)
    assert received["message.timestamp.type"] == "LogAppendTime"
    assert received["message.timestamp.before.max.ms"] == "9223372036854775807"
    assert received["message.timestamp.after.max.ms"] == "9223372036854775807"
    assert received["cleanup.policy"] == "delete"
    assert received["retention.ms"] == "1209600000"
    assert received["retention.bytes"] == "-1"
    assert received["unclean.leader.election.enable"] == "false"
    assert received["min.insync.replicas"] == "2"
    assert "delete.retention.ms" not in received


def test_settings_of_a_changelog() -> None:
    ledger = topic_config(load().topics["ledger"], replicated=True)
    assert ledger["retention.ms"] == "-1"
    assert ledger["message.timestamp.type"] == "CreateTime"
    assert ledger["delete.retention.ms"] == str(CHANGELOG_DELETE_RETENTION_MS)
    assert float(ledger["min.cleanable.dirty.ratio"]) < 0.5
    window = topic_config(load().topics["dedup.seen.changelog"], replicated=True)
    assert window["cleanup.policy"] == "compact,delete"
    assert window["retention.ms"] == "1814400000"


def test_a_deleted_record_of_tenants_leaves_the_disk_within_an_hour() -> None:
    tenants = topic_config(load().topics["tenants"], replicated=True)
    assert tenants["max.compaction.lag.ms"] == "3600000"
    assert tenants["segment.ms"] == "1000"  # an erasure waits for so long, then closes the segment
    assert tenants["message.timestamp.type"] == "LogAppendTime"
    assert "max.compaction.lag.ms" not in topic_config(load().topics["ledger"], replicated=True)


def test_a_segment_closes_well_within_its_retention() -> None:
    """Kafka deletes closed segments only: one that stays open keeps everything."""
    for days in (0.01, 1, 8, 31):
        topic = Topic("x", 1, retention_ms=round(days * 86_400_000))
        assert int(topic_config(topic, True)["segment.ms"]) <= int(topic.retention_ms or 0) / 8
    tiny = Topic("x", 1, retention_ms=1000)
    assert int(topic_config(tiny, True)["segment.ms"]) == 60_000
