"""One node's place in its cluster: its identity, its ports, and where the others are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

NODE_ID = 1
"""Of a node that has no others; the nodes of a cluster count from it."""
REPLICAS = 3
IN_SYNC = 2
"""With three nodes: replicas of every topic, and how many of them must have a record."""


@dataclass(frozen=True)
class NodePorts:
    """The ports of one node on 127.0.0.1: for clients, for other brokers, for controllers."""

    clients: int
    brokers: int
    controller: int


@dataclass(frozen=True)
class Member:
    """A node of a cluster; `reached_at` has, by node id, the ports at which others dial the nodes.

    These are the nodes' own ports, unless something stands between.
    """

    cluster_id: str
    node_id: int
    ports: NodePorts
    reached_at: Mapping[int, NodePorts]


def alone(cluster_id: str, port: int, controller_port: int) -> Member:
    """The only node of its cluster; it reaches itself at its clients' port."""
    ports = NodePorts(port, port, controller_port)
    return Member(cluster_id, NODE_ID, ports, {NODE_ID: ports})
