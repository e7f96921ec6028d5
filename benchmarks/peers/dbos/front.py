"""The front of DBOS: the workflow's id is the event's, so that enqueueing it drops redeliveries.

A job that waits has the id of its subject instead, as the event that wakes it knows nothing else.
"""

from __future__ import annotations

import asyncio
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dbos import DBOSClient, error

from peers.front import Event, serve

_QUEUES = {"plain": "jobs", "effect": "jobs", "wait": "waits", "fan": "waits"}


class Front:
    async def open(self) -> None:
        # The client has threads for its calls: one for each connection.
        connections = int(os.environ["PEERS_DBOS_CLIENT"])
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(connections))
        self._client = await asyncio.to_thread(
            DBOSClient,
            system_database_url=os.environ["PEERS_POSTGRES"],
            system_database_pool_size=connections,
            application_name="peers",
        )

    async def take(self, event: Event) -> bool:
        if event.type == "wait.answered":
            return await self._wake(event)
        options: dict[str, Any] = {
            "workflow_name": event.work,
            "queue_name": _QUEUES[event.work],
            "workflow_id": waiting(event) if event.work == "wait" else own(event),
            "workflow_id_reuse_policy": "reject",
        }
        more = (event.jobs,) if event.work == "fan" else ()
        try:
            await self._client.enqueue_async(options, event.id, event.body, *more)
        except error.DBOSWorkflowIDInUseError:
            return False
        return True

    async def _wake(self, event: Event) -> bool:
        """Send the message once for each event; whether it is new is not answered."""
        await self._client.send_async(
            waiting(event), event.body, "answered", idempotency_key=event.id
        )
        return True

    async def unfinished(self) -> list[str]:
        left = await self._client.list_workflows_async(
            status=["ENQUEUED", "PENDING"], load_input=False, load_output=False
        )
        return [each.workflow_id for each in left]


def own(event: Event) -> str:
    return f"{event.tenant}:{event.id}"


def waiting(event: Event) -> str:
    return f"{event.tenant}:{event.subject}"


if __name__ == "__main__":
    serve(Front(), int(sys.argv[1]))
