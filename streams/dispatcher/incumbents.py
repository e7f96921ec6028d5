"""Which process of each instance is the one that counts.

A process that announces itself under an instance's name takes its predecessor's place. Processes
are ordered by their ids (UUIDv7, so by their machine's clock). Because the clock of a restarted
machine may be behind, an earlier id is believed, too, once the later one has been silent for a
while.
"""

from __future__ import annotations

from streams.dispatcher.leases import split_worker


class Boots:
    """The newest process of each instance, and when it was heard (monotonic seconds)."""

    def __init__(self, silent_seconds: float) -> None:
        self._silent = silent_seconds
        self._newest: dict[str, tuple[str, float]] = {}

    def newest(self, worker_id: str) -> str:
        """The process that counts of a worker's instance; itself if none is known."""
        instance, _ = split_worker(worker_id)
        return self._newest.get(instance, (worker_id, 0.0))[0]

    def heard(self, worker_id: str, now: float) -> bool:
        """A process speaks: whether it counts."""
        instance, _ = split_worker(worker_id)
        newest, heard_at = self._newest.get(instance, (worker_id, now))
        if worker_id < newest and now - heard_at < self._silent:
            return False
        self._newest[instance] = (worker_id, now)
        return True

    def found(self, worker_id: str, now: float) -> None:
        """A process holds a lease: it may still speak, as if it was heard now."""
        if worker_id >= self.newest(worker_id):
            self._newest[split_worker(worker_id)[0]] = (worker_id, now)

    def succeeds(self, worker_id: str, other: str) -> bool:
        """Whether `worker_id` is a process that comes after `other` of the same instance."""
        if worker_id == other or split_worker(worker_id)[0] != split_worker(other)[0]:
            return False
        newest = self.newest(other)
        return newest == worker_id or (newest == other and worker_id > other)

    def forget(self, worker_id: str) -> None:
        """Nothing of a process is left."""
        if self.newest(worker_id) == worker_id:
            self._newest.pop(split_worker(worker_id)[0], None)
