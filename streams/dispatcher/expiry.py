"""Expires leases that no heartbeat renews, after reading every command sent before their end."""

from __future__ import annotations

import structlog

from streams.dispatcher.lifecycle import Lifecycle
from streams.dispatcher.worker_registry import WorkerRegistry
from streams.runtime.processor import Context
from streams.topology.model import LeasePolicy

log = structlog.get_logger(__name__)


class Expiry:
    """Takes back the overdue leases of one partition, at most `at_once` in one punctuation."""

    def __init__(self, policy: LeasePolicy, registry: WorkerRegistry, at_once: int) -> None:
        self._policy = policy
        self._registry = registry
        self._at_once = at_once
        self._asking: tuple[float, float] | None = None
        self._silent = False
        self._last_command = 0.0

    def heard(self, monotonic: float) -> None:
        """Note that a command was read."""
        self._last_command = monotonic

    def go_on(self, life: Lifecycle, ctx: Context) -> None:
        """Take back overdue leases, once every command sent before their deadlines was read."""
        overdue = self._registry.overdue(ctx.monotonic, self._at_once)
        if not overdue:
            self._asking, self._silent = None, False
            return
        if self._asking is None:
            self._asking = (overdue[-1].ends_at, ctx.monotonic)
        moment, since = self._asking
        if not ctx.caught_up_to("jobs.commands", moment):
            # Count Kafka as silent only if no command arrives. While commands are still read, this
            # process is merely behind, and will read the heartbeats that were sent.
            waited = ctx.monotonic - since > self._policy.heartbeat_seconds
            self._silent |= waited and self._last_command < since
            return
        self._asking = None
        if self._silent:
            self._silent = False
            log.warning("kafka was silent: every lease gets a fresh term")
            self._registry.fresh_terms(ctx.monotonic)
            return
        for lease in overdue:
            if lease.ends_at <= moment:
                term = self._policy.term_seconds
                why = f"LeaseExpired: worker {lease.worker_id} did not renew it for {term:g} s"
                life.lose(lease, why, "expired")
