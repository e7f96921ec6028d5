"""DBOS without a queue: the front starts the workflows, and its process runs them.

A workflow that is there under its id is not started again. `worker` has the workflows.
"""

from __future__ import annotations

import sys

from dbos import DBOS, SetWorkflowID

from peers.dbos import worker
from peers.dbos.front import own, waiting
from peers.front import Event, serve

_WORKFLOWS = {
    "plain": worker.plain,
    "effect": worker.effect,
    "wait": worker.wait,
    "fan": worker.fan,
}


class Front:
    async def open(self) -> None:
        await worker.launch()

    async def take(self, event: Event) -> bool:
        """True for a redelivery too: the library does not tell that the workflow was there."""
        if event.type == "wait.answered":
            await DBOS.send_async(
                waiting(event), event.body, worker.ANSWERED, idempotency_key=event.id
            )
            return True
        more = (event.jobs,) if event.work == "fan" else ()
        with SetWorkflowID(waiting(event) if event.work == "wait" else own(event)):
            await DBOS.start_workflow_async(_WORKFLOWS[event.work], event.id, event.body, *more)
        return True

    async def unfinished(self) -> list[str]:
        left = await DBOS.list_workflows_async(
            status=["ENQUEUED", "PENDING"], load_input=False, load_output=False
        )
        return [each.workflow_id for each in left]


if __name__ == "__main__":
    serve(Front(), int(sys.argv[1]))
