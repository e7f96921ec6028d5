"""Expires leases that no heartbeat renews, after reading every heartbeat sent before their end."""

from __future__ import annotations

import structlog

from streams.dispatcher.failures import lose
from streams.dispatcher.part import AT_ONCE, Part
from streams.dispatcher.shared import Shared
from streams.dispatcher.step import Step
from streams.runtime.link import LINK

log = structlog.get_logger(__name__)


class Expiry(Part):
    """Takes back overdue leases, some in each punctuation."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._policy = shared.topology.leases
        self._asking: tuple[float, float] | None = None
        self._silent = False

    def tick(self, step: Step) -> None:
        """Take back overdue leases, once every heartbeat sent before their deadlines was read."""
        workers = self.shared.workers
        overdue = workers.leases.overdue(step.monotonic, AT_ONCE)
        if not overdue:
            self._asking, self._silent = None, False
            return
        if self._asking is None:
            self._asking = (overdue[-1].ends_at, step.monotonic)
        moment, since = self._asking
        if not step.ctx.caught_up_to(LINK, moment):
            # Nobody could be heard only if no command arrives. While commands are still read, this
            # process is merely behind, and will read the heartbeats that were sent.
            waited = step.monotonic - since > self._policy.heartbeat_seconds
            self._silent |= waited and self.shared.commanded_at < since
            return
        self._asking = None
        if self._silent:
            self._silent = False
            log.warning("no worker could be heard: every lease gets a fresh term")
            workers.fresh_terms(step.monotonic)
            return
        for lease in overdue:
            if lease.ends_at <= moment:
                term = self._policy.term_seconds
                why = f"LeaseExpired: worker {lease.worker_id} did not renew it for {term:g} s"
                lose(step, lease, why, "expired")

    def rests(self) -> bool:
        """Whether no lease is overdue."""
        return self._asking is None
