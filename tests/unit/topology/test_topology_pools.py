"""Pools and topics that the file no longer has."""

from __future__ import annotations

import pytest

from streams.errors import ConfigError
from streams.settings import Settings
from streams.topology.cluster import Cluster, ClusterTopic, topic_config
from streams.topology.load import load
from streams.topology.model import Topic
from streams.topology.plan import Consent, Plan, compare
from streams.worker.app import App
from streams.worker.run import run

RETIRED = (Topic("jobs.work.gpu", 2, retention_ms=1), Topic("jobs.replies", 16, retention_ms=1))


def planned(prefix: str, consent: Consent) -> Plan:
    """The plan for a cluster that still has the topics of workers."""
    topics = {
        prefix + topic.name: ClusterTopic(topic.partitions, 3, config=topic_config(topic, True))
        for topic in (*load().topics.values(), *RETIRED)
    }
    return compare(load(), Cluster(3, topics), prefix, consent)


@pytest.mark.parametrize("prefix", ["", "tg."])
def test_topics_of_an_earlier_version_are_told_with_how_to_delete_them(prefix: str) -> None:
    found = planned(prefix, Consent())
    assert found.empty
    replies, work = found.notes
    assert replies.startswith(f"{prefix}jobs.replies is of an earlier version")
    assert replies.endswith("delete it with --delete jobs.replies")
    assert work.endswith("delete it with --delete jobs.work.gpu")


def test_topics_of_an_earlier_version_that_are_to_be_deleted_need_no_word() -> None:
    found = planned("", Consent(delete=tuple(topic.name for topic in RETIRED)))
    assert found.notes == ()
    assert [str(step) for step in found.steps] == ["delete jobs.work.gpu", "delete jobs.replies"]


def test_a_worker_of_a_pool_that_is_not_declared_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--pool 'gpu' is not in the topology; .*: default"):
        run(App("a"), Settings(), load(), pools={"gpu": None})
