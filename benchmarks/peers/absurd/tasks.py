"""The tasks of Absurd, for an asynchronous worker.

A task cannot wait for tasks of its own queue, so the children of a fan-out have one of their own.
"""

from __future__ import annotations

from typing import Any

from absurd_sdk import AsyncAbsurd, AsyncTaskContext

from peers.journal import effect, note

QUEUE, CHILDREN = "default", "children"


def register(app: AsyncAbsurd, children: AsyncAbsurd) -> None:
    """Give both clients their tasks."""

    async def fan(params: Any, context: AsyncTaskContext) -> None:
        event_id = params["event_id"]
        note("start", event_id)
        names = [f"{event_id}/{number}" for number in range(params["jobs"])]
        spawned = [
            await children.spawn("plain", {"event_id": name}, idempotency_key=name)
            for name in names
        ]
        for each in spawned:
            await context.await_task_result(each["task_id"], queue_name=CHILDREN)
        note("end", event_id)

    app.register_task("plain")(_plain)
    app.register_task("effect")(_effect)
    app.register_task("wait")(_wait)
    app.register_task("fan")(fan)
    children.register_task("plain")(_plain)


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
