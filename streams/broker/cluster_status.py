"""What runs on a data directory: one broker, or the nodes of a cluster."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from streams.broker.cluster_file import node_dir, read_cluster_file
from streams.broker.status import BrokerStatus, read_status, stop_broker


@dataclass(frozen=True)
class ClusterStatus:
    """The nodes by id; `several` is False for a broker without others."""

    nodes: dict[int, BrokerStatus]
    several: bool

    @property
    def running(self) -> bool:
        """Whether every node runs."""
        return all(node.running for node in self.nodes.values())

    @property
    def pids(self) -> list[int]:
        """Of the nodes whose processes live."""
        return [node.pid for node in self.nodes.values() if node.pid]

    def as_json(self) -> str:
        """One object: that of the broker, or of the cluster with one for each node."""
        if not self.several:
            return self.nodes[1].as_json()
        up = [node for node in self.nodes.values() if node.pid]
        return json.dumps(
            {
                "running": self.running,
                "bootstrap": ",".join(node.bootstrap or "" for node in up) or None,
                "version": up[0].version if up else None,
                "nodes": [{"node": id_, **asdict(node)} for id_, node in self.nodes.items()],
            }
        )


def read_cluster_status(data_dir: Path) -> ClusterStatus:
    """The nodes of this data directory.

    Raises:
        BrokerError: its `cluster.json` is damaged.
    """
    found = read_cluster_file(data_dir)
    if found is None:
        return ClusterStatus({1: read_status(data_dir)}, several=False)
    nodes = {id_: read_status(node_dir(data_dir, id_)) for id_ in found.nodes}
    return ClusterStatus(nodes, several=True)


def stop_cluster(data_dir: Path) -> ClusterStatus:
    """Stop all nodes of the directory, whoever started them; returns their status of before.

    They stop one after another, so that each hands its leaderships to the next. The last one has
    nobody to hand them to, and its controller no majority that would let it go: it is killed, and
    so is the only replica in sync that the next start finds. Were all stopped at once, partitions
    would be without a leader while transactions are ended (see `fencing`).

    Raises:
        BrokerError: its `cluster.json` is damaged.
    """
    status = read_cluster_status(data_dir)
    if not status.several:
        return ClusterStatus({1: stop_broker(data_dir)}, several=False)
    up = [id_ for id_, node in status.nodes.items() if node.pid]
    for id_ in up:
        stop_broker(node_dir(data_dir, id_), at_once=id_ == up[-1])
    return status
