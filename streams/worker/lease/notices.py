"""Handles replies that concern no run: the dispatcher asks for an introduction or for credits, or
says that the pool is not declared."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import structlog

from streams.serde.records import Reply, ReplyKind
from streams.worker.lease.heartbeater import IDLE_SECONDS, Heartbeater
from streams.worker.lease.held_leases import HeldLeases

log = structlog.get_logger(__name__)

_UNDECLARED_SECONDS = 2.5 * IDLE_SECONDS
"""One `no_pool` counts this long; the dispatcher repeats it when it hears the worker again."""

_SAY_SECONDS = 60.0


class Notices:
    """Handles notices in the reader's thread, so that a blocked event loop does not delay them."""

    def __init__(
        self, heartbeater: Heartbeater, held_leases: HeldLeases, clock: Callable[[], float]
    ) -> None:
        self._heartbeater = heartbeater
        self._held_leases = held_leases
        self._clock = clock
        self._lock = threading.Lock()
        self._undeclared = ""
        self._undeclared_until = float("-inf")
        self._said_at = float("-inf")

    def by_kind(self) -> Mapping[ReplyKind, Callable[[Reply], None]]:
        """The method for each kind of reply that is a notice."""
        return {"wanted": self._wanted, "who": self._who, "no_pool": self._no_pool}

    @property
    def undeclared(self) -> str | None:
        """The remedy, if a dispatcher said recently that this worker's pool gets no jobs."""
        return self._undeclared if self._clock() < self._undeclared_until else None

    def _wanted(self, reply: Reply) -> None:
        """Give a partition credits: it has ready jobs and no credits of this worker."""
        with self._held_leases.lock:
            self._held_leases.credits.want(home_of(reply))
            self._heartbeater.tell()

    def _who(self, reply: Reply) -> None:
        """Introduce this worker to a dispatcher that took a partition over."""
        self._undeclared_until = float("-inf")
        self._heartbeater.introduce(home_of(reply))

    def _no_pool(self, reply: Reply) -> None:
        now = self._clock()
        with self._lock:
            self._undeclared = reply.message or self._remedy()
            self._undeclared_until = now + _UNDECLARED_SECONDS
            if now - self._said_at < _SAY_SECONDS:
                return
            self._said_at = now
        log.error("idle: no lease can be made", reason=self._undeclared)

    def _remedy(self) -> str:
        pool = self._heartbeater.identity.pool
        return (
            f"pool {pool!r} is not declared where the dispatcher runs: add it to `pools` of its "
            f"topology.yaml, with the topic jobs.work.{pool}, run `tidegate topology apply`, and "
            "restart the dispatcher"
        )


def home_of(reply: Reply) -> int:
    """The partition of `jobs.commands` whose dispatcher sent a notice."""
    return reply.epoch
