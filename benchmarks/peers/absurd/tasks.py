"""The tasks of Absurd, for an asynchronous worker.

A task cannot wait for tasks of its own queue, so the children of a fan-out have one of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import chain
from typing import Any

from absurd_sdk import AsyncAbsurd, AsyncTaskContext

from peers.journal import effect, note

QUEUE, CHILDREN = "default", "children"


def register(app: AsyncAbsurd, children: AsyncAbsurd, asking: Sequence[AsyncAbsurd]) -> None:
    """Give both clients their tasks; a parent asks for its children over all of `asking` at once.

    One client has one connection.
    """

    async def fan(params: Any, context: AsyncTaskContext) -> None:
        event_id = params["event_id"]
        note("start", event_id)
        names = [f"{event_id}/{number}" for number in range(params["jobs"])]
        shares = (_spawned(app, names[n :: len(asking)]) for n, app in enumerate(asking))
        for task_id in chain(*await asyncio.gather(*shares)):
            await context.await_task_result(task_id, queue_name=CHILDREN)
        note("end", event_id)

    app.register_task("plain")(_plain)
    app.register_task("effect")(_effect)
    app.register_task("wait")(_wait)
    app.register_task("fan")(fan)
    children.register_task("plain")(_plain)


async def _spawned(app: AsyncAbsurd, names: Sequence[str]) -> list[str]:
    """Ask for children one after the other; their ids."""
    spawned = [
        await app.spawn("plain", {"event_id": name}, queue=CHILDREN, idempotency_key=name)
        for name in names
    ]
    return [each["task_id"] for each in spawned]


async def _plain(params: Any, context: AsyncTaskContext) -> None:
    note("start", params["event_id"])
    note("end", params["event_id"])


async def _effect(params: Any, context: AsyncTaskContext) -> None:
    event_id = params["event_id"]
    note("start", event_id)
    await context.step("send", lambda: effect(event_id))
    note("end", event_id)


async def _wait(params: Any, context: AsyncTaskContext) -> None:
    event_id = params["event_id"]
    note("start", event_id)
    await context.await_event(f"wait.answered:{params['tenant']}:{params['subject']}")
    note("woke", event_id)
    note("end", event_id)
