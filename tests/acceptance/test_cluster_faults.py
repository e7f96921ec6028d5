"""Nodes of a cluster of three are struck while webhooks, jobs and deliveries flow (G1 to G8).

The demo is load and verdict. At the end no transaction is open and every replica is in sync.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support import cluster_faults as faults
from support.incident_under_way import Incident
from support.node_links import NodeLinks
from support.small_disk import small_disk

from streams.broker.cluster import EmbeddedCluster
from streams.broker.cluster_file import node_dir
from streams.demo.run.pipeline_run import APART, FUSED
from streams.dev.layout import Layout

pytestmark = [pytest.mark.broker, pytest.mark.chaos, pytest.mark.alone]

DISK_MIB = 700


@pytest.fixture(params=[FUSED, APART], ids=["fused", "apart"])
def layout(request: pytest.FixtureRequest) -> Layout:
    return request.param  # type: ignore[no-any-return]


def holds(
    cluster: EmbeddedCluster, folder: Path, layout: Layout, fault: Callable[[Incident], None]
) -> None:
    """Everything holds under this fault."""
    incident = Incident(cluster, folder / "demo", layout)
    incident.play(fault)
    faults.await_in_sync(cluster)
    faults.await_no_transaction(cluster)
    assert incident.violations == []
    print(f"{layout.name}: {incident.told}")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tmp_path / "kafka") as running:
        yield running


@pytest.mark.parametrize(
    "fault",
    [
        faults.restart_each,
        faults.lose_a_disk,
        faults.freeze,
        faults.move_leaders,
        faults.kill_coordinator,
        faults.kill_two,
        faults.kill_all,
    ],
)
def test_everything_holds_when_nodes_are_struck(
    cluster: EmbeddedCluster, tmp_path: Path, layout: Layout, fault: Callable[[Incident], None]
) -> None:
    holds(cluster, tmp_path, layout, fault)


@pytest.mark.parametrize("clients", [True, False], ids=["alone", "with_clients"])
def test_everything_holds_when_a_node_is_cut_off(
    tmp_path: Path, layout: Layout, clients: bool
) -> None:
    """From the other nodes; and from clients, or not."""
    with NodeLinks() as links:
        cluster = EmbeddedCluster(tmp_path / "kafka", between=links.between)
        links.attach(cluster)
        with cluster:
            holds(cluster, tmp_path, layout, lambda i: faults.cut_off(i, links, clients=clients))


def test_everything_holds_when_the_disk_of_a_node_is_full(tmp_path: Path, layout: Layout) -> None:
    root = tmp_path / "kafka"
    root.mkdir()
    with ExitStack() as stack:
        disk = stack.enter_context(small_disk(node_dir(root, 2), DISK_MIB))
        cluster = stack.enter_context(EmbeddedCluster(root))
        holds(cluster, tmp_path, layout, lambda i: faults.fill_disk(i, disk, 2))
