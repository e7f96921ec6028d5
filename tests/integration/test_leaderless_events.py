"""A partition of `events` has no leader: readers say so, go on elsewhere, and later finish."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from support.conditions import eventually
from support.operator_cluster import Cluster, make_cluster, make_event
from typer.testing import CliRunner, Result

from streams.api.events.cli import events
from streams.broker.cluster import EmbeddedCluster
from streams.kafka.admin import admin_client

pytestmark = [pytest.mark.broker, pytest.mark.fault, pytest.mark.chaos]

Run = Callable[..., Result]


def test_a_partition_without_a_leader_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    with EmbeddedCluster(tmp_path / "kafka") as nodes:
        cluster = make_cluster(nodes.bootstrap, {}, tmp_path)
        environ = {
            "TIDEGATE_BOOTSTRAP": nodes.bootstrap,
            "TIDEGATE_TOPIC_PREFIX": cluster.settings.topic_prefix,
        }
        run: Run = lambda *words: CliRunner().invoke(events, [*words], env=environ)  # noqa: E731
        homes = {cluster.home(f"t{n}"): f"t{n}" for n in range(40)}
        cluster.write(*(make_event(f"k{n}", tenant) for n, tenant in homes.items()))
        counts(run, len(homes))
        led = leaders(cluster)
        lost = nodes.nodes[led[cluster.home("t0")]]
        lost.kill()
        eventually(lambda: -1 in leaders(cluster).values(), what="it is known to be gone")
        out = str(tmp_path / "out")
        for words in (
            ("count",),
            ("export", "--to", out),
            ("seek", "--group", "g", "--to", "end", "--create"),
        ):
            refused = run(*words)
            assert refused.exit_code == 1, refused.output
            assert "eader" in refused.stderr, refused.stderr
        there = next(p for p, leader in led.items() if leader != led[cluster.home("t0")])
        assert counts(run, 1, "--tenant", homes[there])
        nodes.start()
        counts(run, len(homes))
        done = run("export", "--to", out, "--json")
        assert json.loads(done.stdout)["events_in_all"] == len(homes)


def leaders(cluster: Cluster) -> dict[int, int]:
    """The node that leads each partition of `events`, -1 for none."""
    name = f"{cluster.settings.topic_prefix}events"
    try:
        found = admin_client(cluster.settings).list_topics(name, 5).topics[name].partitions
    except KafkaException:
        return {}
    return {number: partition.leader for number, partition in found.items()}


def counts(run: Run, count: int, *words: str) -> Any:
    """Return once so many events are counted."""

    def counted() -> bool:
        result = run("count", *words, "--json")
        return result.exit_code == 0 and json.loads(result.stdout)["events"] == count

    return eventually(counted, what=f"{count} events")
