"""Tracks how long workers have been silent; every call costs O(1) for each worker that it names.

All times are this process's monotonic ones, in seconds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from streams.topology.model import LeasePolicy

FRESH_HEARTBEATS = 2.5
_INTRODUCED_SECONDS = 60.0
"""How often a worker announces itself to a partition that it has nothing to do with."""


class Silence:
    """Orders workers by the time when they were last heard.

    A worker with credits or leases here is heard at each heartbeat and forgotten after a term. Any
    other worker is heard once a minute and forgotten after two and a half minutes.
    """

    def __init__(self, policy: LeasePolicy) -> None:
        self.fresh_seconds = policy.heartbeat_seconds * FRESH_HEARTBEATS
        self._term = policy.term_seconds
        self._seldom = max(_INTRODUCED_SECONDS * FRESH_HEARTBEATS, self._term)
        self._fresh: OrderedDict[str, float] = OrderedDict()  # when it falls silent
        self._often: OrderedDict[str, float] = OrderedDict()  # when it is forgotten
        self._rarely: OrderedDict[str, float] = OrderedDict()

    def __contains__(self, worker_id: str) -> bool:
        return worker_id in self._often or worker_id in self._rarely

    def heard(self, worker_id: str, now: float, *, often: bool) -> None:
        """Note that a worker spoke; `often` is True if it has credits or leases here."""
        self.forget(worker_id)
        self._fresh[worker_id] = now + self.fresh_seconds
        if often:
            self._often[worker_id] = now + self._term
        else:
            self._rarely[worker_id] = now + self._seldom

    def forget(self, worker_id: str) -> None:
        for known in (self._fresh, self._often, self._rarely):
            known.pop(worker_id, None)

    def silent(self, now: float) -> Iterator[str]:
        """Yield the workers that have fallen silent since the last call."""
        yield from _due(self._fresh, now)

    def gone(self, now: float) -> Iterator[str]:
        """Yield the workers to forget."""
        yield from _due(self._often, now)
        yield from _due(self._rarely, now)


def _due(known: OrderedDict[str, float], now: float) -> Iterator[str]:
    while known:
        worker_id, moment = next(iter(known.items()))
        if moment >= now:
            return
        del known[worker_id]
        yield worker_id
