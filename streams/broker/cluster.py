"""`EmbeddedCluster`: three real Kafka nodes as child processes of this one, for tests and trials.

Every topic that names no other number has three replicas, of which two must have a record before
it is acknowledged (G1). One node may be killed, frozen or lose its disk at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from streams.broker.cluster_file import (
    ClusterFile,
    node_dir,
    read_cluster_file,
    save_cluster_file,
    settle,
    size_of_cluster,
)
from streams.broker.cluster_status import stop_cluster
from streams.broker.embedded import EmbeddedKafka
from streams.broker.fencing import await_fenced
from streams.broker.jars import ensure_jars
from streams.broker.member import REPLICAS, Member, NodePorts
from streams.broker.status import read_status
from streams.errors import BrokerError

_FENCE_SECONDS = 60.0
_BETWEEN_KILLS_SECONDS = 0.1

Ports = Mapping[int, NodePorts]


def as_they_are(ports: Ports) -> Ports:
    """Nodes and clients dial the nodes directly."""
    return ports


class EmbeddedCluster:
    """Three nodes on one data directory, each broker and controller, on 127.0.0.1 only.

    Clients find them at `port` and the two that follow it; 0 picks free ports once, as
    `EmbeddedKafka` does. `between` is given each node's ports and says at which ports nodes and
    clients dial it.
    """

    def __init__(
        self,
        data_dir: Path,
        port: int = 0,
        *,
        between: Callable[[Ports], Ports] = as_they_are,
    ) -> None:
        self._root = data_dir.resolve()
        self._port = port
        self._between = between
        self.nodes: dict[int, EmbeddedKafka] = {}

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, separated by commas."""
        if not self.nodes:
            raise BrokerError("the embedded cluster has no address yet: start it first")
        return ",".join(node.bootstrap for node in self.nodes.values())

    def start(self, timeout: float = 180.0) -> Self:
        """Start the nodes that do not run; return once each serves clients, in `timeout` seconds.

        If none runs, the controllers first drop the brokers of before (`fencing`).

        Raises:
            BrokerError: a node cannot start; those started with it were stopped again.
            ConfigError: the directory holds a broker without others.
        """
        ensure_jars()
        if not self.nodes:
            self._found()
        down = [node for id_, node in self.nodes.items() if not self._pid(id_)]
        if not down:
            raise BrokerError(
                f"all nodes of {self._root} run at {self.bootstrap}; use them with --bootstrap, "
                f"or stop them (tidegate broker stop --data-dir {self._root})"
            )
        if len(down) == len(self.nodes) and any(node.formatted for node in down):
            _fence_former(down)
        _start_all(down, timeout)
        return self

    def stop(self) -> None:
        """Stop every node of the directory, whoever started it; returns when all are gone."""
        stop_cluster(self._root)
        _kill(self.nodes.values())  # they are gone: it lets go of their processes

    def kill(self) -> None:
        """SIGKILL all nodes, as a crash of the machine's user space would end them."""
        _kill(self.nodes.values())

    def release(self) -> None:
        """Let the nodes that it started stay when this process ends."""
        for node in self.nodes.values():
            node.release()

    def __enter__(self) -> Self:
        return self if self.nodes else self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _found(self) -> None:
        """Settle identity and ports, and make the nodes of them."""
        size_of_cluster(self._root, REPLICAS)
        cluster = settle(read_cluster_file(self._root), self._root, REPLICAS, self._port)
        save_cluster_file(self._root, cluster)
        reached_at = self._between(cluster.nodes)
        self.nodes = {id_: self._node(cluster, id_, reached_at) for id_ in cluster.nodes}

    def _node(self, cluster: ClusterFile, id_: int, reached_at: Ports) -> EmbeddedKafka:
        member = Member(cluster.cluster_id, id_, cluster.nodes[id_], reached_at)
        return EmbeddedKafka(node_dir(self._root, id_), member=member)

    def _pid(self, id_: int) -> int | None:
        return read_status(node_dir(self._root, id_)).pid


def _fence_former(nodes: Iterable[EmbeddedKafka]) -> None:
    with ExitStack() as stack:
        controllers = [stack.enter_context(node.controller()) for node in nodes]
        if not await_fenced(controllers, time.monotonic() + _FENCE_SECONDS):
            raise BrokerError(
                "the controllers do not find together: see kafka/server.log of each node"
            )


def _start_all(nodes: list[EmbeddedKafka], timeout: float) -> None:
    """Start them at once: none is ready before a majority of the cluster is."""
    pool = ThreadPoolExecutor(len(nodes))
    starts = [pool.submit(node.start, timeout) for node in nodes]
    try:
        for start in starts:
            start.result()
    except BaseException:
        # Also those that begin only now: nobody else would end them.
        while wait(starts, _BETWEEN_KILLS_SECONDS).not_done:
            _kill(nodes)
        _kill(nodes)
        raise


def _kill(nodes: Iterable[EmbeddedKafka]) -> None:
    for node in nodes:
        node.kill()
