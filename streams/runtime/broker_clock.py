"""The broker's time in a stage's process, known without trusting the process's wall clock.

A small record is sent to the topic `clock`, whose records carry the time at which the broker
appended them. The append happens between sending and acknowledgement, so each record bounds how far
the broker's time is ahead of this machine's boot clock. Between two records, time runs on the boot
clock alone. So a step of the wall clock changes nothing, a suspended machine loses no time, and
time goes on while the broker is away.

`now` is the lower bound that `Estimate` knows: a timer may fire one round trip late, but never
early (G4). The estimate is kept for the next process, so that a start after `ClockStepped` does not
forget it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import structlog
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message, Producer

from streams.errors import ClockStepped, ConfigError, TidegateError
from streams.process.boot_clock import boot_seconds
from streams.process.daemon_thread import DaemonThread
from streams.runtime import metrics
from streams.runtime.broker_clock_estimate import Estimate, Reading
from streams.runtime.broker_clock_file import ClockMemory, clock_memory
from streams.settings import Settings

log = structlog.get_logger(__name__)

TOPIC = "clock"
STEP_MS = 10_000
"""How far the broker's clock may move, beyond drift, before the stage stops deciding by it.

Time services correct less than a second while they run. The ledger counts keys of tools as expired
a minute early, which has to cover this.
"""
_EVERY_SECONDS = 10.0
_RETRY_SECONDS = 1.0
_PATIENCE_MS = 5_000
"""A round trip that takes longer is not believed."""
_TELL_SECONDS = 60.0
_POLL_SECONDS = 0.1


class BrokerClock:
    """`Clock` of one stage's process; a context manager that reads the broker's time on a thread.

    `now` and `monotonic` are called on the stage's thread and do not ask the broker.
    """

    def __init__(
        self,
        producer: Producer,
        topic: str,
        stage: str,
        memory: ClockMemory,
        boot: Callable[[], float] = boot_seconds,
    ) -> None:
        self.monotonic = boot
        self._producer = producer
        self._topic = topic
        self._stage = stage
        self._memory = memory
        self._known = memory.recall(boot() * 1000)
        self._estimate: Estimate | None = None
        self._latest = 0 if self._known is None else self._known.now(boot() * 1000)
        self._failure: Exception | None = None
        self._read_at = boot()
        self._told = False
        self._thread = DaemonThread("broker clock", self._run, self._failed)

    def now(self) -> int:
        """The broker's time in milliseconds; it stands still rather than run backwards.

        Raises:
            TidegateError: the broker's time is not known yet; `awaited` was not called.
        """
        if self._estimate is None:
            raise TidegateError("the broker's time is not known yet: wait for its first reading")
        self._latest = max(self._latest, self._estimate.now(self.monotonic() * 1000))
        return self._latest

    def awaited(self, pause: Callable[[], bool]) -> bool:
        """Wait for the first reading; return False if `pause`, called meanwhile, says to give up.

        Raises:
            ConfigError: see `check`.
        """
        while self._estimate is None:
            self.check()
            if pause():
                return False
        return True

    def check(self) -> None:
        """Check that the broker's time can be believed.

        Raises:
            ClockStepped: the broker's clock was set, or this machine's clock stood still.
            ConfigError: the topic does not carry the broker's time.
        """
        if self._failure is not None:
            raise self._failure

    def read(self) -> None:
        """Ask the broker for its time, and wait for the answer.

        Raises:
            ClockStepped, ConfigError: see `check`.
        """
        answers: list[tuple[float, KafkaError | None, Message]] = []

        def answered(error: KafkaError | None, message: Message) -> None:
            answers.append((self.monotonic() * 1000, error, message))

        sent = self.monotonic() * 1000
        try:
            self._producer.produce(self._topic, b"", self._stage, 0, on_delivery=answered)
        except (BufferError, KafkaException) as error:
            self._missed(str(error))
            return
        while not answers and not self._thread.stopping.is_set():
            self._producer.poll(_POLL_SECONDS)
        for at, refused, message in answers:
            if refused is not None:
                self._missed(refused.str())
            elif at - sent > _PATIENCE_MS:
                self._missed(f"the answer took {(at - sent) / 1000:.1f} s")
            else:
                self._take(Reading(sent, at, self._append_time(message)))

    def __enter__(self) -> BrokerClock:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.stop()

    def _run(self) -> None:
        while not self._thread.stopping.is_set():
            before = self._read_at
            self.read()
            missed = self._read_at == before
            self._thread.stopping.wait(_RETRY_SECONDS if missed else _EVERY_SECONDS)

    def _failed(self, error: Exception) -> None:
        self._failure = error  # `check` raises it in the stage's thread

    def _take(self, reading: Reading) -> None:
        known = self._known
        found = Estimate.first(reading) if known is None else known.after(reading)
        if known is not None and abs(found.strayed) > STEP_MS:
            moved = max(found.strayed, found.low - known.low, key=abs)  # bit by bit, or at once
            raise _stepped(moved, self._memory)
        self._known = self._estimate = found
        self._memory.keep(found)
        self._read_at, self._told = reading.answered / 1000, False
        ahead = time.time() - found.now(reading.answered) / 1000
        metrics.WALL_CLOCK_AHEAD.labels(self._stage).set(ahead)

    def _append_time(self, message: Message) -> int:
        kind, at = message.timestamp()
        if kind != TIMESTAMP_LOG_APPEND_TIME:
            raise ConfigError(
                f"{self._topic} does not carry the broker's time: its message.timestamp.type is "
                "not LogAppendTime. Run `tidegate topology apply`, then start the stage again"
            )
        return at

    def _missed(self, why: str) -> None:
        silent = self.monotonic() - self._read_at
        if not self._told and (self._estimate is None or silent > _TELL_SECONDS):
            self._told = True
            log.warning("the broker's time cannot be read: trying on", topic=self._topic, why=why)


def broker_clock(settings: Settings, stage: str) -> BrokerClock:
    """The clock of a stage's process.

    Its producer is not idempotent: writing a record twice does no harm, while an idempotent
    producer can fail for good.
    """
    config: dict[str, Any] = {
        "acks": "all",
        "enable.idempotence": False,
        "linger.ms": 0,
        "message.timeout.ms": _PATIENCE_MS,
    }
    producer = Producer(settings.client(**config))
    return BrokerClock(
        producer, settings.topic_prefix + TOPIC, stage, clock_memory(settings, stage)
    )


def _stepped(moved_ms: float, memory: ClockMemory) -> ClockStepped:
    return ClockStepped(
        f"the broker's clock moved by {moved_ms / 1000:+.1f} s against this machine's boot clock: "
        "it was set, the topic `clock` is led by another broker, or this virtual machine was "
        "paused. Nothing was decided by the new time. Mend the time service of the brokers, and "
        "the stage goes on when it is started again; or, if the new time is the right one, delete "
        f"{memory.path} and start it"
    )
