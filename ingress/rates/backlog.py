"""Follows `jobs.backlog`, on which the dispatcher publishes how many jobs wait near a cap.

Nothing here loses an event: one that is let in has its job. So while the topic cannot be read, what
was known last decides, and before anything is known all are let in.
"""

from __future__ import annotations

import structlog
from confluent_kafka import KafkaException, Message

from streams.errors import DecodeError, StageFailed
from streams.kafka.tail import PATIENT, Fault, Tail
from streams.limits.backlog import Backlog, Depth, QueueCaps
from streams.process.daemon_thread import DaemonThread
from streams.serde.codec import BACKLOG
from streams.settings import Settings
from streams.tenants.follower import Failed
from streams.topology.model import Topology

log = structlog.get_logger(__name__)

TOPIC = "jobs.backlog"
_BATCH, _POLL_SECONDS = 500, 0.2
_CONTACT_SECONDS = 2.0
_AGAIN_SECONDS = 1.0
_STOP_SECONDS = 5.0


class BacklogReader:
    """Knows which caps on waiting jobs are reached; reads in a thread of its own, if any is set.

    `failed` is called in that thread with an error after which the process must end.
    """

    def __init__(self, settings: Settings, topology: Topology, failed: Failed) -> None:
        caps = QueueCaps(topology.max_queued)
        self._settings = settings
        self._partitions = topology.partitions if caps else 0
        self._backlog = Backlog(caps)
        self._failed = failed
        self._lost = False
        self._settled = not caps
        self._thread = DaemonThread("backlog", self._run, self._ends)

    @property
    def settled(self) -> bool:
        """Whether the depths are known, or known to be unavailable."""
        return self._settled

    def full(self, tenant_id: str, type_: str) -> Depth | None:
        """The cap that lets no further job of a tenant and type in; None if there is none."""
        return self._backlog.full(tenant_id, type_)

    def start(self) -> None:
        """Begin to follow; returns at once, even without a reachable broker."""
        if self._partitions:
            self._thread.start()

    def stop(self) -> None:
        """Stop following; wait for the thread, 5 seconds at most."""
        if self._partitions:
            self._thread.stop(_STOP_SECONDS)

    def _run(self) -> None:
        while not self._thread.stopping.is_set():
            try:
                self._follow()
            except KafkaException as error:
                self._say_lost(str(error.args[0]))
                self._thread.stopping.wait(_AGAIN_SECONDS)

    def _follow(self) -> None:
        with Tail(self._settings, "ingress", tell=self._unread, **PATIENT) as tail:
            places = [(TOPIC, number) for number in range(self._partitions)]
            tail.begin_at_start(places, _CONTACT_SECONDS)
            for _, number in places:  # its record may have been deleted meanwhile
                self._backlog.hear(number, None)
            while not self._thread.stopping.is_set():
                for message in tail.read(_BATCH, _POLL_SECONDS):
                    self._hear(message)
                if tail.caught_up:
                    self._settled = True
                    self._say_read()

    def _hear(self, message: Message) -> None:
        value, partition = message.value(), message.partition() or 0
        try:
            self._backlog.hear(partition, None if value is None else BACKLOG.decode(value))
        except DecodeError as unreadable:  # perhaps of another version
            log.warning("a report of the backlog cannot be read", reason=str(unreadable))

    def _unread(self, fault: Fault) -> None:
        self._say_lost(fault.text)

    def _say_lost(self, reason: str) -> None:
        """Log once per outage that the depths are not known."""
        self._settled = True
        if not self._lost:
            log.warning(
                "the backlog cannot be read: max_queued holds by what was known last",
                topic=self._settings.topic_prefix + TOPIC,
                reason=reason,
            )
        self._lost = True

    def _say_read(self) -> None:
        if self._lost:
            self._lost = False
            log.info("the backlog is read again")

    def _ends(self, error: Exception) -> None:
        log.exception("the backlog is followed no more")
        self._failed(
            StageFailed(
                f"what it knows of the backlog stands still ({type(error).__name__}: {error}): the "
                "process ends, and whoever started it starts it again"
            )
        )
