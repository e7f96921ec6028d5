"""A live copy of the compacted `tenants` topic, current within a second.

Every process reads every partition from its beginning, by manual assignment: there is no
group to rebalance and no offset to commit. The follower skips a record that cannot be used. Any
other error ends the process, because everybody would go on trusting an outdated copy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import structlog
from confluent_kafka import KafkaException, Message
from prometheus_client import Gauge

from streams.errors import ConfigError, PoisonRecord, StageFailed
from streams.kafka.tail import PATIENT, Fault, Tail
from streams.process.daemon_thread import DaemonThread
from streams.settings import Settings
from streams.topology.model import Topology
from streams.topology.partition_counts import keyed_topics, refuse_other_counts

log = structlog.get_logger(__name__)

TOPIC = "tenants"
POSITION = Gauge(
    "tidegate_tenants_position",
    "Offset before which this process knows every record of the topic `tenants`",
    ["partition"],
)
_BATCH, _POLL_SECONDS = 500, 0.2
_CONTACT_SECONDS = 2.0

Fold = Callable[[bytes | None, bytes | None], None]
"""Takes a record's key and value; raises `PoisonRecord` for one that cannot be used."""
Refuse = Callable[[Message, PoisonRecord], None]
Failed = Callable[[Exception], None]
"""Called from the follower's thread with an error after which the process must end."""


class TenantsFollower:
    """Follows `tenants` in a thread of its own; only that thread calls the given functions.

    `group` is the process's own, which it does not join here (see `consumer_config`).
    """

    def __init__(
        self,
        settings: Settings,
        topology: Topology,
        group: str,
        fold: Fold,
        refuse: Refuse,
        failed: Failed,
    ) -> None:
        self._settings = settings
        self._topology = topology
        self._group = group
        self._fold = fold
        self._refuse = refuse
        self._failed = failed
        self._caught_up = threading.Event()
        self._thread = DaemonThread("tenants", self._follow, self._stands_still)

    @property
    def ready(self) -> bool:
        """Whether everything that was on the topic when it was first read is known."""
        return self._caught_up.is_set()

    def start(self) -> None:
        """Begin to follow; returns at once, even without a reachable broker."""
        self._thread.start()

    def stop(self) -> None:
        """Stop following; wait for the thread, 5 seconds at most."""
        self._thread.stop(5)

    def _follow(self) -> None:
        with Tail(self._settings, self._group, tell=_tell, **PATIENT) as tail:
            self._contact(tail)
            while not self._thread.stopping.is_set():
                for message in tail.read(_BATCH, _POLL_SECONDS):
                    self._apply(message)
                for (_, partition), at in tail.positions().items():  # past markers of transactions
                    POSITION.labels(partition).set(at)
                if tail.caught_up and not self.ready:
                    self._caught_up.set()
                    log.info("tenants are known")

    def _stands_still(self, error: Exception) -> None:
        if isinstance(error, ConfigError):
            self._failed(error)
            return
        log.exception("tenants are followed no more")
        self._failed(
            StageFailed(
                f"what it knows of tenants stands still ({type(error).__name__}: {error}): the "
                "process ends, and whoever started it starts it again"
            )
        )

    def _contact(self, tail: Tail) -> None:
        """Begin every partition from its start.

        Whoever waits for tenants writes no topic before that, so all topics are checked here.

        Raises:
            ConfigError: a topic of this process has other than its declared number of partitions.
        """
        said = False
        while not self._thread.stopping.is_set():
            try:
                width = self._checked(tail.widths(_CONTACT_SECONDS))
                places = [(TOPIC, number) for number in range(width)]
                tail.begin_at_start(places, _CONTACT_SECONDS)
                reason = "the topic is not there, or this user may not see it"
            except KafkaException as error:
                width, reason = 0, str(error.args[0])
            if width:
                return
            if not said:
                log.warning(
                    "tenants cannot be read yet: waiting",
                    bootstrap=self._settings.bootstrap,
                    reason=reason,
                )
            said = True
            self._thread.stopping.wait(_POLL_SECONDS)

    def _checked(self, widths: Mapping[str, int]) -> int:
        """The number of partitions of `tenants`, 0 if it is not seen."""
        keyed = keyed_topics(self._group, self._topology)
        refuse_other_counts(self._group, self._topology, keyed, lambda topic: widths.get(topic, 0))
        return widths.get(TOPIC, 0)

    def _apply(self, message: Message) -> None:
        try:
            self._fold(message.key(), message.value())
        except PoisonRecord as error:
            self._refuse(message, error)
        except Exception as error:  # one record must not end the process
            self._refuse(message, PoisonRecord("unusable", type(error).__name__))


def _tell(fault: Fault) -> None:
    log.error("tenants cannot be read: what is known of them ages", reason=fault.text)


def log_unusable(message: Message, error: PoisonRecord) -> None:
    """Log an unusable record of `tenants`, for processes that write no dead letter of it."""
    log.error(
        "a record of tenants cannot be used",
        partition=message.partition(),
        offset=message.offset(),
        reason=str(error),
    )
