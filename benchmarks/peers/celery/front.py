"""The front of Celery: `SET NX` drops redeliveries, and the task is enqueued after that.

A front that is killed between the two loses the job: the vendor's next delivery is dropped, too.
"""

from __future__ import annotations

import json
import os
import sys
from base64 import b64decode
from typing import Any

import redis.asyncio as redis

from peers.celery.tasks import effect, fan, plain
from peers.front import Event, serve

_WINDOW_SECONDS = 7 * 86_400
_TASKS: dict[str, Any] = {"plain": plain, "effect": effect, "fan": fan}


class Front:
    async def open(self) -> None:
        self._redis = redis.Redis.from_url(os.environ["PEERS_REDIS"])

    async def take(self, event: Event) -> bool:
        key = f"seen:{event.tenant}:{event.id}"
        if not await self._redis.set(key, 1, nx=True, ex=_WINDOW_SECONDS):
            return False
        more = (event.jobs,) if event.work == "fan" else ()
        # The client of Celery has no asynchronous way; a thread for each call would cost more.
        _TASKS[event.work].delay(event.id, event.body, *more)
        return True

    async def unfinished(self) -> list[str]:
        waiting: Any = await self._redis.lrange("celery", 0, -1)
        taken: Any = await self._redis.hvals("unacked")
        messages = [*map(json.loads, waiting), *(json.loads(each)[0] for each in taken)]
        return [str(json.loads(b64decode(each["body"]))[0][0]) for each in messages]


if __name__ == "__main__":
    serve(Front(), int(sys.argv[1]))
