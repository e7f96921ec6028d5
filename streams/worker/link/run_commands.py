"""The commands that one run sends about its job."""

from __future__ import annotations

import asyncio
from functools import partial

from streams.serde.records import Command, CommandBody, Lease
from streams.worker.link.contract import Acknowledged, Deadline
from streams.worker.link.link import Link
from streams.worker.link.promise import promise


class RunCommands:
    """Sends commands to the owner of a job's partition, in the order of the calls."""

    def __init__(self, link: Link, lease: Lease) -> None:
        self._link = link
        self._lease = lease

    def post(self, body: CommandBody, until: Deadline, done: Acknowledged | None = None) -> None:
        """Send a command without waiting; any thread may call this."""
        lease = self._lease
        command = Command("", lease.tenant_id, lease.job_id, lease.epoch, 0, body)
        self._link.post(lease.home_partition, command, until, done)

    def send(self, body: CommandBody, until: Deadline) -> asyncio.Future[None]:
        """Send a command at once; the future is done when it is acknowledged.

        Raises (in the future):
            LeaseLost: the deadline passed first; a copy may still have been applied.
            PermanentError: the owner cannot apply it.
        """
        return promise(partial(self.post, body, until))
