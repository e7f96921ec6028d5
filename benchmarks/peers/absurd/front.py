"""The front of Absurd: a task's idempotency key, or an event's name, drops redeliveries."""

from __future__ import annotations

import os
import sys
from typing import Any

from absurd_sdk import AsyncAbsurd
from psycopg_pool import AsyncConnectionPool

from peers.absurd.tasks import QUEUE
from peers.front import Event, serve

_UNFINISHED = """
    SELECT idempotency_key FROM (
        TABLE absurd.t_default UNION ALL TABLE absurd.t_children
    ) AS tasks WHERE state IN ('pending', 'running', 'sleeping')
"""


class Front:
    async def open(self) -> None:
        size, address = int(os.environ["PEERS_ABSURD_CONNECTIONS"]), os.environ["PEERS_POSTGRES"]
        options = {"autocommit": True}
        self._pool = AsyncConnectionPool(
            address, kwargs=options, min_size=size, max_size=size, open=False
        )
        await self._pool.open(wait=True)

    async def take(self, event: Event) -> bool:
        """True for a redelivery too: the client does not tell that the task was there."""
        async with self._pool.connection() as connection:
            app = AsyncAbsurd(connection, queue_name=QUEUE)
            if event.type == "wait.answered":
                await app.emit_event(f"{event.type}:{event.tenant}:{event.subject}", event.body)
            else:
                key = f"{event.tenant}:{event.id}"
                await app.spawn(event.work, _params(event), queue=QUEUE, idempotency_key=key)
        return True

    async def unfinished(self) -> list[str]:
        async with self._pool.connection() as connection:
            found: Any = await (await connection.execute(_UNFINISHED)).fetchall()
        return [key for (key,) in found]


def _params(event: Event) -> dict[str, Any]:
    return {
        "event_id": event.id,
        "tenant": event.tenant,
        "subject": event.subject,
        "jobs": event.jobs,
        "body": event.body,
    }


if __name__ == "__main__":
    serve(Front(), int(sys.argv[1]))
