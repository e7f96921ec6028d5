"""Keeps the workers that send heartbeats and confirm no lease: when each gets its next one.

Such a worker cannot read its work partition, or refuses what it reads. It uses none of its slots,
so it would otherwise get more leases than any other worker, again and again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import structlog

from streams.dispatcher.workers.credits import Worker

log = structlog.get_logger(__name__)

_TERMS_PAUSED = 2
"""How many terms it waits for its next lease. The job of its last one is taken back after one term;
in the second term that job finds another worker."""


class Doubts:
    """The doubted workers of one partition; the caller updates their places in their pools.

    All times are this process's monotonic ones, in seconds.
    """

    def __init__(self, term_seconds: float) -> None:
        self._seconds = _TERMS_PAUSED * term_seconds
        self._paused: OrderedDict[str, tuple[Worker, float]] = OrderedDict()

    def doubt(self, worker: Worker, now: float) -> bool:
        """Let a worker wait for its next lease; return whether it was doubted before."""
        before, worker.doubted = worker.doubted, True
        if not before:
            log.warning(
                "a worker confirms no lease: it gets one at a time until it does; look at its log",
                worker_id=worker.worker_id,
                work_partition=worker.work_partition,
            )
            self._pause(worker, now)
        return before

    def granted(self, worker: Worker) -> None:
        """Note that it got a lease: a doubted worker waits for the next one."""
        if worker.doubted:
            self._pause(worker, worker.read_at)

    def trust(self, worker: Worker) -> None:
        """Let a worker have all that it takes."""
        worker.doubted = worker.paused = False
        self.forget(worker.worker_id)

    def due(self, now: float) -> Iterator[Worker]:
        """Yield the workers that get a lease now."""
        while self._paused and next(iter(self._paused.values()))[1] <= now:
            _, (worker, _) = self._paused.popitem(last=False)
            worker.paused = False
            yield worker

    def forget(self, worker_id: str) -> None:
        self._paused.pop(worker_id, None)

    def _pause(self, worker: Worker, since: float) -> None:
        worker.paused = True
        self._paused[worker.worker_id] = worker, since + self._seconds
        self._paused.move_to_end(worker.worker_id)
