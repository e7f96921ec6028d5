"""The front of Procrastinate: a row of `seen` drops redeliveries, in the transaction of the job."""

from __future__ import annotations

import os
import sys
from typing import Any

from psycopg_pool import AsyncConnectionPool

from peers.front import Event, serve
from peers.procrastinate.tasks import app, plain, with_effect

_TASKS: dict[str, Any] = {"plain": plain, "effect": with_effect}
_TABLE = "CREATE TABLE IF NOT EXISTS seen (key text PRIMARY KEY, at timestamptz DEFAULT now())"
_SEEN = "INSERT INTO seen (key) VALUES (%s) ON CONFLICT DO NOTHING"
_UNFINISHED = """
    SELECT args->>'event_id' FROM procrastinate_jobs
    WHERE status IN ('todo', 'doing') AND task_name <> 'retry_stalled_jobs'
"""


class Front:
    async def open(self) -> None:
        size = int(os.environ["PEERS_PROCRASTINATE_CONNECTIONS"])
        address = os.environ["PEERS_POSTGRES"]
        self._pool = AsyncConnectionPool(address, min_size=size, max_size=size, open=False)
        await self._pool.open(wait=True)
        await app.open_async(self._pool)
        async with self._pool.connection() as connection:
            await connection.execute(_TABLE)

    async def take(self, event: Event) -> bool:
        async with self._pool.connection() as connection:  # which is one transaction
            seen = await connection.execute(_SEEN, (f"{event.tenant}:{event.id}",))
            if not seen.rowcount:
                return False
            job = _TASKS[event.work].configure(connection=connection)
            await job.defer_async(event_id=event.id, body=event.body)
        return True

    async def unfinished(self) -> list[str]:
        async with self._pool.connection() as connection:
            found: Any = await (await connection.execute(_UNFINISHED)).fetchall()
        return [event_id for (event_id,) in found]


if __name__ == "__main__":
    serve(Front(), int(sys.argv[1]))
