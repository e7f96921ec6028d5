"""Exchanges demand reports with the other ingress processes over the topic `ingress.rates`.

All reports go to one partition, because shares are computed from their order. A process also
reports while no tenant has a rate, so that it has a share as soon as the first tenant gets one.
"""

from __future__ import annotations

import time
from contextlib import suppress

import structlog
from confluent_kafka import KafkaException, Message, Producer

from ingress.rates.shares import SILENT_SECONDS, TICK_SECONDS, Rates
from streams.errors import DecodeError, StageFailed
from streams.kafka.clients import producer_config
from streams.kafka.tail import Tail, Unreadable
from streams.process.daemon_thread import DaemonThread
from streams.serde.codec import RATE_REPORT
from streams.serde.records import RateReport
from streams.settings import Settings
from streams.tenants.follower import Failed

log = structlog.get_logger(__name__)

TOPIC = "ingress.rates"
_PARTITION = 0
_BATCH = 500
_QUIET_SECONDS = 4 * TICK_SECONDS
"""The time between two reports while no tenant has a rate; nobody uses them before one has."""
_CONTACT_SECONDS = 2.0
_STOP_SECONDS = 5.0


class RateGossip:
    """Feeds every process's demand to `rates`, in a thread of its own.

    `failed` is called in that thread with an error after which the process must end.
    """

    def __init__(self, settings: Settings, rates: Rates, failed: Failed) -> None:
        self._settings = settings
        self._topic = settings.topic_prefix + TOPIC
        self._rates = rates
        self._failed = failed
        self._lost = False
        self._settled = False
        self._thread = DaemonThread("rate-gossip", self._run, self._ends)

    @property
    def settled(self) -> bool:
        """Whether deliveries can be judged by their rates, or rates are known to be unavailable."""
        return self._settled or not self._rates.needed

    def start(self) -> None:
        """Start the thread; returns at once, even without a reachable broker."""
        self._thread.start()

    def stop(self) -> None:
        """Tell the others that this process leaves; wait for the thread, 5 seconds at most."""
        self._thread.stop(_STOP_SECONDS)

    def _run(self) -> None:
        while not self._thread.stopping.wait(TICK_SECONDS):
            try:
                self._talk()
            except (KafkaException, Unreadable) as error:
                self._say_lost(str(error.args[0]))

    def _ends(self, error: Exception) -> None:
        log.exception("rates are kept no more")
        self._failed(
            StageFailed(
                f"what it knows of rates stands still ({type(error).__name__}: {error}): the "
                "process ends, and whoever started it starts it again"
            )
        )

    def _talk(self) -> None:
        """Report and listen, with clients of its own, until `stop` is called."""
        producer = Producer(
            producer_config(
                self._settings, **{"linger.ms": 0, "message.timeout.ms": 1_000, "log_level": 2}
            )
        )
        with Tail(self._settings, "ingress") as tail:
            try:
                self._exchange(tail, producer)
            finally:
                producer.flush(_CONTACT_SECONDS)

    def _exchange(self, tail: Tail, producer: Producer) -> None:
        tail.begin_at_end([(TOPIC, _PARTITION)], _CONTACT_SECONDS)
        # First it hears a report of every other process.
        first = due = time.monotonic() + 2 * self._tick()
        while not self._thread.stopping.is_set():
            for message in tail.read(_BATCH, max(0.0, due - time.monotonic())):
                self._hear(message)
            if time.monotonic() >= due:
                due = time.monotonic() + self._tick()
                self._tell(producer, self._rates.report())
                if not self._rates.known and due > first + SILENT_SECONDS:
                    self._say_lost("this process's own reports do not come back")
        self._tell(producer, self._rates.leave())

    def _tick(self) -> float:
        return TICK_SECONDS if self._rates.needed else _QUIET_SECONDS

    def _hear(self, message: Message) -> None:
        try:
            self._rates.hear(RATE_REPORT.decode(message.value()))
        except DecodeError as unreadable:  # perhaps of another version; no share then
            log.warning("a report of demand cannot be read", reason=str(unreadable))
        self._settled |= self._rates.known
        if self._lost and self._rates.known:
            self._lost = False
            log.info("rates are kept again")

    def _tell(self, producer: Producer, report: RateReport) -> None:
        with suppress(BufferError):  # nobody waits for this report, and the next one replaces it
            producer.produce(self._topic, RATE_REPORT.encode(report), report.process, _PARTITION)
        producer.poll(0)

    def _say_lost(self, reason: str) -> None:
        """Log once per outage that the others cannot be heard, if a tenant has a rate."""
        self._settled = True
        if not self._rates.needed:
            return
        if not self._lost:
            log.warning(
                "rates cannot be kept: deliveries of tenants that have one are answered 503",
                topic=self._topic,
                reason=reason,
            )
        self._lost = True
