"""TCP proxies in front of each node of an embedded cluster, which can cut one node off.

    with NodeLinks() as links:
        cluster = EmbeddedCluster(folder, between=links.between)
        links.attach(cluster)
        with cluster:
            links.cut(2, clients=False)

Nothing passes a cut link and nothing breaks it, as where a network drops packets: what was sent
arrives when it is healed. Clients have ports of their own; a connection between nodes belongs to
the node whose process dialled it.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

from streams.broker.cluster import EmbeddedCluster, Ports
from streams.broker.member import NodePorts
from support.tcp_relay import relayed

HOST = "127.0.0.1"
_CLIENT = 0
_CHUNK = 65_536
_SECONDS = 10.0


class NodeLinks:
    """Listens while entered; `between` makes the nodes and their clients use it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)
        self._lone: int | None = None
        self._from_clients = False
        self._healed = asyncio.Event()
        self._cluster: EmbeddedCluster | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_SECONDS)
        self._loop.close()

    def between(self, ports: Ports) -> Ports:
        """A port here for each of the nodes' own."""
        return {
            node: NodePorts(
                **{
                    name: self._run(self._listen(node, port, of_nodes=name != "clients"))
                    for name, port in vars(own).items()
                }
            )
            for node, own in ports.items()
        }

    def attach(self, cluster: EmbeddedCluster) -> None:
        """Tell the nodes of this cluster from its clients; call it before they start."""
        self._cluster = cluster

    def cut(self, node: int, *, clients: bool) -> None:
        """Cut a node off from the others, and from clients too."""
        self._healed = asyncio.Event()
        self._lone, self._from_clients = node, clients

    def heal(self) -> None:
        self._lone = None
        self._loop.call_soon_threadsafe(self._healed.set)

    async def _listen(self, node: int, port: int, *, of_nodes: bool) -> int:
        serve = partial(self._serve, node, port, of_nodes)
        server = await asyncio.start_server(serve, HOST, 0)
        return int(server.sockets[0].getsockname()[1])

    async def _serve(
        self,
        node: int,
        port: int,
        of_nodes: bool,
        near: asyncio.StreamReader,
        to_near: asyncio.StreamWriter,
    ) -> None:
        from_port = to_near.get_extra_info("peername")[1]
        ends = {node, self._dialler(from_port) if of_nodes else _CLIENT}
        try:
            await self._pass(ends)
            far, to_far = await asyncio.open_connection(HOST, port)
        except OSError:
            to_near.close()
            return
        there, back = self._pump(ends, near, to_far), self._pump(ends, far, to_near)
        await relayed(there, back, to_near, to_far)

    async def _pump(
        self, ends: set[int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(_CHUNK):
            await self._pass(ends)
            writer.write(data)
            await writer.drain()

    async def _pass(self, ends: set[int]) -> None:
        """Wait while the link between these is cut."""
        # A node dials itself here too.
        while self._lone in ends and len(ends) == 2 and (self._from_clients or _CLIENT not in ends):
            await self._healed.wait()

    def _dialler(self, port: int) -> int:
        """The node whose process has this port of a connection to here."""
        sockets = _sockets_at(port)
        nodes = self._cluster.nodes.items() if self._cluster else ()
        return next((id_ for id_, node in nodes if node.pid and _has(node.pid, sockets)), _CLIENT)

    async def _close(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _run(self, what: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(_SECONDS)


def _sockets_at(port: int) -> set[str]:
    """The sockets with this port of their own, as links of /proc/PID/fd name them (proc(5))."""
    rows = [
        row.split()
        for table in ("tcp", "tcp6")
        for row in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    return {f"socket:[{row[9]}]" for row in rows if int(row[1].rpartition(":")[2], 16) == port}


def _has(pid: int, sockets: set[str]) -> bool:
    with suppress(OSError):  # the process has ended
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):  # it was closed meanwhile
                if str(descriptor.readlink()) in sockets:
                    return True
    return False
