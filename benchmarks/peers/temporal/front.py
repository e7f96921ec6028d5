"""The front of Temporal: a workflow id that was ever used starts no second workflow.

The namespace keeps ended workflows for a day; a redelivery after that would start the job again.
A job that waits is named by its subject, since the event that wakes it knows nothing else of it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from temporalio.client import Client
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from peers.front import Event, serve
from peers.temporal.worker import QUEUE


class Front:
    async def open(self) -> None:
        self._client = await Client.connect(os.environ["PEERS_TEMPORAL"])

    async def take(self, event: Event) -> bool:
        if event.type == "wait.answered":
            return await self._wake(event.subject)
        body = event.body.encode()
        if event.work == "wait":
            return await self._start("wait", event.subject, [event.id, body])
        more = [event.jobs] if event.work == "fan" else []
        return await self._start(event.work, event.id, [body, *more])

    async def unfinished(self) -> list[str]:
        running = self._client.list_workflows('ExecutionStatus = "Running"')
        return [each.id async for each in running]

    async def _start(self, workflow: str, name: str, given: Sequence[Any]) -> bool:
        try:
            await self._client.start_workflow(
                workflow,
                args=given,
                id=name,
                task_queue=QUEUE,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            )
        except WorkflowAlreadyStartedError:
            return False
        return True

    async def _wake(self, subject: str) -> bool:
        """A second signal changes nothing while the job runs, and finds none once it has ended."""
        try:
            await self._client.get_workflow_handle(subject).signal("answered")
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise
            return False
        return True


if __name__ == "__main__":
    serve(Front(), int(sys.argv[1]))
