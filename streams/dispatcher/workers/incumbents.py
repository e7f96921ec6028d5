"""Tracks the incumbent process of each instance, the only one whose words count.

A process that announces itself under an instance's name replaces its predecessor. The process with
the later id is the newer one; ids are UUIDv7, so they follow the machine's clock. The clock of a
restarted machine may be behind, so a process with an earlier id is accepted as well once the
incumbent is not connected, and has been silent for a while.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from streams.serde.ids import split_worker
from streams.topology.model import LeasePolicy

_SILENT_HEARTBEATS = 2.5
_LOOKED_AT = 16


class Incumbents:
    """The newest process of each instance, and when it was heard (monotonic seconds)."""

    def __init__(self, policy: LeasePolicy) -> None:
        self._silent = policy.heartbeat_seconds * _SILENT_HEARTBEATS
        self._kept = policy.term_seconds + self._silent
        self._newest: OrderedDict[str, tuple[str, float]] = OrderedDict()  # longest silent first

    def newest(self, worker_id: str) -> str:
        """The incumbent of a worker's instance, or the worker itself if none is known."""
        instance, _ = split_worker(worker_id)
        return self._newest.get(instance, (worker_id, 0.0))[0]

    def heard(self, worker_id: str, now: float, *, lives: bool) -> bool:
        """Note that a process spoke; returns whether it is the incumbent now.

        `lives` says that the incumbent is connected.
        """
        instance, _ = split_worker(worker_id)
        newest, heard_at = self._newest.get(instance, (worker_id, now))
        if worker_id < newest and (lives or now - heard_at < self._silent):
            return False
        self._note(instance, worker_id, now)
        return True

    def found(self, worker_id: str, now: float) -> None:
        """Count a process that holds a lease as heard now, since it may still speak."""
        if worker_id >= self.newest(worker_id):
            self._note(split_worker(worker_id)[0], worker_id, now)

    def forget_some(self, now: float, is_known: Callable[[str], bool]) -> None:
        """Look at some of the instances that were silent for long: forget those that have ended."""
        for _ in range(min(_LOOKED_AT, len(self._newest))):
            instance, (worker_id, heard_at) = next(iter(self._newest.items()))
            if now - heard_at < self._kept:
                return
            del self._newest[instance]
            if is_known(worker_id):
                self._note(instance, worker_id, now)

    def _note(self, instance: str, worker_id: str, now: float) -> None:
        self._newest[instance] = (worker_id, now)
        self._newest.move_to_end(instance)
