"""Pools that stand in the file or on the cluster alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streams.errors import ConfigError
from streams.settings import Settings
from streams.topology.cluster import Cluster, ClusterTopic, topic_config
from streams.topology.load import load
from streams.topology.model import JobType, Topic, Topology
from streams.topology.plan import Consent, Plan, compare
from streams.worker.app import App
from streams.worker.run import run

GPU = Topic("jobs.work.gpu", 2, retention_ms=86_400_000, timestamp="append")


def with_gpu(*types: str) -> Topology:
    topology = load()
    return replace(
        topology,
        pools=(*topology.pools, "gpu"),
        topics={**topology.topics, GPU.name: GPU},
        job_types={name: JobType(name, pool="gpu") for name in types},
    )


def planned(
    wanted: Topology, there: Topology, prefix: str = "", consent: Consent | None = None
) -> Plan:
    topics = {
        prefix + topic.name: ClusterTopic(topic.partitions, 3, config=topic_config(topic, True))
        for topic in there.topics.values()
    }
    return compare(wanted, Cluster(3, topics), prefix, consent or Consent())


@pytest.mark.parametrize("prefix", ["", "tg."])
def test_a_pool_that_the_file_left_is_told_with_what_becomes_of_its_jobs(prefix: str) -> None:
    found = planned(load(), with_gpu("resize"), prefix)
    assert found.empty
    (note,) = found.notes
    assert note.startswith(f"{prefix}jobs.work.gpu is there, and no pool 'gpu' is declared.")
    assert "A dispatcher that runs leases to it as before." in note
    assert "waiting jobs go to the pool of their type" in note
    assert note.endswith("then --delete jobs.work.gpu")


def test_a_pool_whose_topic_is_still_declared_is_told_as_well() -> None:
    kept = replace(with_gpu(), pools=("default",))
    (note,) = planned(kept, with_gpu()).notes
    assert note.startswith("jobs.work.gpu is there, and no pool 'gpu' is declared.")


def test_a_pool_whose_topic_is_to_be_deleted_needs_no_word() -> None:
    consent = Consent(delete=("jobs.work.gpu",))
    assert planned(load(), with_gpu(), consent=consent).notes == ()


def test_a_pool_that_is_new_names_its_types_and_what_runs_without_it() -> None:
    (note,) = planned(with_gpu("resize", "ocr"), load()).notes
    assert note.startswith("pool 'gpu' is new to this cluster, for resize, ocr.")
    assert "it leases nothing to the pool's workers, and tells them so" in note


def test_a_pool_of_no_type_says_so() -> None:
    (note,) = planned(with_gpu(), load()).notes
    assert "no job type runs in it" in note


def test_on_a_new_cluster_no_pool_is_news() -> None:
    assert compare(with_gpu(), Cluster(3, {}), "", Consent()).notes == ()


def test_pools_as_declared_need_no_word() -> None:
    assert planned(with_gpu("resize"), with_gpu()).notes == ()


def test_a_worker_of_a_pool_that_is_not_declared_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--pool 'gpu' is not in the topology; .*: default"):
        run(App("a"), Settings(), load(), pools={"gpu": None})
