"""The workers of one process: one for each of its pools, all in one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from streams.worker.worker import Worker


class Workers:
    """They start and end together. Their handlers share the loop, so each worker knows all runs."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._workers = tuple(workers)
        for worker in self._workers:
            others = [each.held_leases for each in self._workers if each is not worker]
            worker.held_leases.beside = others

    @property
    def unready(self) -> str | None:
        """Why leases cannot reach one of the workers now; None if they can reach all."""
        for worker in self._workers:
            if reason := worker.unready:
                pool = worker.link.identity.pool
                return reason if len(self._workers) == 1 else f"pool {pool}: {reason}"
        return None

    def failed(self, error: Exception) -> None:
        """End all workers because of an error of what they share."""
        for worker in self._workers:
            worker.failed(error)

    async def serve(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set or one worker has failed, then drain all of them.

        Raises:
            TidegateError: a worker cannot go on after this error.
        """
        serving = [asyncio.create_task(worker.serve(stop)) for worker in self._workers]
        await asyncio.wait(serving, return_when="FIRST_COMPLETED")
        stop.set()
        await asyncio.wait(serving)
        for each in serving:
            each.result()
