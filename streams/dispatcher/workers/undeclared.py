"""Heartbeats of workers whose pool or work partition the topology does not declare.

Such a heartbeat is no poison record, because the dispatcher's topology may be older than the
workers'. The worker gets a notice at most once a minute, and its next heartbeat is checked again.
"""

from __future__ import annotations

import structlog

from streams.dispatcher import metrics
from streams.dispatcher.replies import TOPIC
from streams.dispatcher.step import Step
from streams.serde.records import Heartbeat, Reply
from streams.topology.model import Topology

log = structlog.get_logger(__name__)

_SILENCE_SECONDS = 60.0
_LOGGED = 100


class Undeclared:
    """The undeclared workers of one partition that got a notice, and when (monotonic)."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._told: dict[str, float] = {}
        self._logged: set[str] = set()

    def turned_away(self, heartbeat: Heartbeat, step: Step) -> bool:
        """Whether a heartbeat's pool or work partition is undeclared; if so, notify its worker."""
        missing = self._missing(heartbeat)
        if missing is None:
            return False
        metrics.NO_POOL.inc()
        message = (
            f"{missing} in the dispatcher's topology, so this worker gets no jobs: declare it, "
            "run `tidegate topology apply`, and restart dispatcher and worker with the same file"
        )
        if missing not in self._logged and len(self._logged) < _LOGGED:
            self._logged.add(missing)
            log.warning("a worker is turned away", worker=heartbeat.worker_id, detail=message)
        self._tell(heartbeat, message, step)
        return True

    def has_replies(self, heartbeat: Heartbeat) -> bool:
        """Whether its worker can get a reply; one to a missing partition would fail the batch."""
        return 0 <= heartbeat.work_partition < self._topology.topics[TOPIC].partitions

    def _missing(self, heartbeat: Heartbeat) -> str | None:
        topic = self._topology.topics.get(f"jobs.work.{heartbeat.pool}")
        if heartbeat.pool not in self._topology.pools or topic is None:
            return f"pool {heartbeat.pool!r} is not declared"
        if not 0 <= heartbeat.work_partition < topic.partitions:
            return f"{topic.name}-{heartbeat.work_partition} is not declared"
        return None

    def _tell(self, heartbeat: Heartbeat, message: str, step: Step) -> None:
        now = step.monotonic
        self._told = {who: at for who, at in self._told.items() if now - at < _SILENCE_SECONDS}
        if heartbeat.worker_id not in self._told and self.has_replies(heartbeat):
            self._told[heartbeat.worker_id] = now
            step.on_undo(lambda: self._told.pop(heartbeat.worker_id, None))
            reply = Reply(heartbeat.worker_id, "", 0, "", "no_pool", message=message)
            step.answer(reply, heartbeat.work_partition)
