"""Tracks the incumbent process of each instance, the only one whose words count.

A process that announces itself under an instance's name replaces its predecessor. The process with
the later id is the newer one; ids are UUIDv7, so they follow the machine's clock. The clock of a
restarted machine may be behind, so a process with an earlier id is accepted as well once the
incumbent has been silent for a while.
"""

from __future__ import annotations

from streams.dispatcher.workers.leases import split_worker


class Incumbents:
    """The newest process of each instance, and when it was heard (monotonic seconds)."""

    def __init__(self, silent_seconds: float) -> None:
        self._silent = silent_seconds
        self._newest: dict[str, tuple[str, float]] = {}

    def newest(self, worker_id: str) -> str:
        """The incumbent of a worker's instance, or the worker itself if none is known."""
        instance, _ = split_worker(worker_id)
        return self._newest.get(instance, (worker_id, 0.0))[0]

    def heard(self, worker_id: str, now: float) -> bool:
        """Note that a process spoke; returns whether it is the incumbent now."""
        instance, _ = split_worker(worker_id)
        newest, heard_at = self._newest.get(instance, (worker_id, now))
        if worker_id < newest and now - heard_at < self._silent:
            return False
        self._newest[instance] = (worker_id, now)
        return True

    def found(self, worker_id: str, now: float) -> None:
        """Count a process that holds a lease as heard now, since it may still speak."""
        if worker_id >= self.newest(worker_id):
            self._newest[split_worker(worker_id)[0]] = (worker_id, now)

    def succeeds(self, worker_id: str, other: str) -> bool:
        """Whether `worker_id` is a process that comes after `other` of the same instance."""
        if worker_id == other or split_worker(worker_id)[0] != split_worker(other)[0]:
            return False
        newest = self.newest(other)
        return newest == worker_id or (newest == other and worker_id > other)

    def forget(self, worker_id: str) -> None:
        """Forget a process of which nothing is left."""
        if self.newest(worker_id) == worker_id:
            self._newest.pop(split_worker(worker_id)[0], None)
