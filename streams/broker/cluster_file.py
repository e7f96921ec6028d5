"""`cluster.json`: the nodes of a data directory that holds several, and where they listen.

<data-dir>/cluster.json   cluster id, and the ports of each node
<data-dir>/node-1 ...     each node's own data directory (`datadir.py`)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from streams.broker import ports
from streams.broker.datadir import CLUSTER_FILE, new_cluster_id, write_atomically
from streams.broker.member import NODE_ID, REPLICAS, NodePorts
from streams.broker.status import read_status
from streams.errors import BrokerError, ConfigError

SIZES = (1, REPLICAS)
_LAST_PORT = 65_535


@dataclass(frozen=True)
class ClusterFile:
    """The identity of a cluster of several nodes: its id, and the ports of each node by id."""

    cluster_id: str
    nodes: Mapping[int, NodePorts]


def cluster_file(data_dir: Path) -> Path:
    return data_dir / CLUSTER_FILE


def node_dir(data_dir: Path, node_id: int) -> Path:
    return data_dir / f"node-{node_id}"


def read_cluster_file(data_dir: Path) -> ClusterFile | None:
    """The cluster of this data directory; None if it holds none.

    Raises:
        BrokerError: the file is damaged.
    """
    path = cluster_file(data_dir)
    try:
        stored = json.loads(path.read_text())
        nodes = {int(node): NodePorts(**found) for node, found in stored["nodes"].items()}
        return ClusterFile(str(stored["cluster_id"]), nodes)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BrokerError(
            f"{path} is not readable: {error}; restore it from a copy, or move {data_dir} away to "
            "start empty (its topics are then gone)"
        ) from error


def save_cluster_file(data_dir: Path, found: ClusterFile) -> None:
    """Keep the identity for the next start; raises BrokerError if that is not possible."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(cluster_file(data_dir), json.dumps(asdict(found)) + "\n")


def size_of_cluster(data_dir: Path, asked: int | None) -> int:
    """Number of nodes of this directory: those asked for, else those it has, else 1.

    Raises:
        ConfigError: another number than 1 or 3, or not the one that the directory has.
    """
    if asked is not None and asked not in SIZES:
        raise ConfigError(
            f"--nodes {asked}: give --nodes 3, so that each record has three copies, or --nodes 1"
        )
    had = _size_had(data_dir)
    if asked is not None and had is not None and asked != had:
        raise ConfigError(
            f"--nodes {asked}: the number of nodes in {data_dir} is {had}, and it stays; "
            "leave --nodes out, or choose another --data-dir"
        )
    return asked or had or 1


def settle(known: ClusterFile | None, data_dir: Path, size: int, port: int) -> ClusterFile:
    """Identity and ports of a start: clients find the nodes at `port` and those that follow it.

    `port` 0 takes the former ports again. While a node runs, all keep their ports.

    Raises:
        BrokerError: a port is taken.
        ConfigError: there are no such ports.
    """
    if port + size - 1 > _LAST_PORT:
        raise ConfigError(f"--port {port}: {size} nodes need as many ports; give a lower one")
    if known and any(read_status(node_dir(data_dir, node)).pid for node in known.nodes):
        return known
    nodes: dict[int, NodePorts] = {}
    all_asked = frozenset(range(port, port + size)) if port else frozenset()
    for node in range(NODE_ID, NODE_ID + size):
        former = known.nodes[node] if known else NodePorts(0, 0, 0)
        asked = port + node - NODE_ID if port else 0
        nodes[node] = _settle_node(former, asked, all_asked | _used(nodes))
    return ClusterFile(known.cluster_id if known else new_cluster_id(), nodes)


def _settle_node(former: NodePorts, asked: int, used: frozenset[int]) -> NodePorts:
    clients = ports.require_free(asked) if asked else ports.former_or_free(former.clients, used)
    used |= {clients}
    brokers = ports.former_or_free(former.brokers, used)
    return NodePorts(clients, brokers, ports.former_or_free(former.controller, used | {brokers}))


def _used(nodes: Mapping[int, NodePorts]) -> frozenset[int]:
    return frozenset(port for each in nodes.values() for port in vars(each).values())


def _size_had(data_dir: Path) -> int | None:
    found = read_cluster_file(data_dir)
    if found:
        return len(found.nodes)
    return 1 if (data_dir / "kafka").exists() else None
