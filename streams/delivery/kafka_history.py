"""Reads inputs again for the stage, in a thread that no slow broker can block."""

from __future__ import annotations

import queue
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import structlog
from confluent_kafka import KafkaException

from streams.delivery.history import SLACK_MS, Part
from streams.delivery.reading import MOST_RECORDS, Reading, record_of
from streams.errors import StageFailed
from streams.kafka.admin import admin_client
from streams.kafka.failures import Outage
from streams.kafka.offsets import latest, offset_in, offset_since, request_offsets
from streams.kafka.offsets import since as first_since
from streams.kafka.tail import Fault, Tail, Unreadable
from streams.process.boot_clock import boot_seconds
from streams.process.daemon_thread import DaemonThread
from streams.settings import Settings

log = structlog.get_logger(__name__)

_IDLE_SECONDS, _POLL_SECONDS, _ASK_SECONDS, _AGAIN_SECONDS = 0.1, 0.02, 5.0, 0.5
_PACE: dict[str, Any] = {
    "fetch.wait.max.ms": 20,
    "fetch.message.max.bytes": 512 * 1024,
    "queued.min.messages": MOST_RECORDS,
    "queued.max.messages.kbytes": 4 * 1024,
}


class KafkaHistory:
    """The `History` of a process; `failed` is called, in the thread, if it cannot go on.

    It reads for each partition what was asked last, so it holds one part of each at most. Where
    retention has deleted the offset asked for, it goes on at the start of the log.
    """

    def __init__(self, settings: Settings, failed: Callable[[Exception], object]) -> None:
        self._prefix = settings.topic_prefix
        self._failed = failed
        self._tail = Tail(settings, "delivery", **_PACE)
        self._admin = admin_client(settings)
        self._outage = Outage()
        self._asked: dict[int, Reading] = {}
        self._requests: queue.SimpleQueue[tuple[int, Reading | None]] = queue.SimpleQueue()
        self._active: dict[int, Reading] = {}
        self._told: set[int] = set()
        self._thread = DaemonThread("history", self._run, self._stands_still)

    def start(self) -> None:
        """Start the thread, even without a reachable broker."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; wait for it, 5 seconds at most."""
        self._thread.stop(5)

    def read(self, topic: str, partition: int, since: int, offset: int) -> Part | None:
        reading = self._asked.get(partition)
        if reading is None or not reading.asks(topic, since, offset):
            end = _end_of(reading, topic, since) if offset >= 0 else None
            reading = Reading(topic, partition, since, offset, end)
            self._asked[partition] = reading
            self._requests.put((partition, reading))
        if reading.part is not None and reading.part.done:
            del self._asked[partition]  # nothing follows that part: keep it no longer
        return reading.part

    def forget(self, partition: int) -> None:
        if self._asked.pop(partition, None) is not None:
            self._requests.put((partition, None))

    def _run(self) -> None:
        with self._tail:
            while not self._thread.stopping.is_set():
                self._step()

    def _step(self) -> None:
        self._take_in()
        for reading in list(self._active.values()):
            if reading.next is None and boot_seconds() >= reading.begin_at:
                self._begin(reading)
        if not self._active:
            return
        try:
            self._read()
        except Unreadable as error:
            self._unreadable(error.fault)
        for reading in [each for each in self._active.values() if each.complete]:
            self._hand_over(reading)

    def _take_in(self) -> None:
        try:
            self._replace(*self._requests.get(block=not self._active, timeout=_IDLE_SECONDS))
            while True:
                self._replace(*self._requests.get(block=False))
        except queue.Empty:
            return

    def _replace(self, partition: int, reading: Reading | None) -> None:
        old = self._active.pop(partition, None)
        if old is not None:
            self._tail.drop(old.place)
        if reading is not None:
            self._active[partition] = reading

    def _begin(self, reading: Reading) -> None:
        """Ask where to begin and where to end, and begin once that is answered."""
        if reading.end is not None and reading.offset >= 0:
            self._assign(reading, reading.offset)
        elif not reading.questions:
            reading.questions = self._questions(reading)
        elif all(answer.done() for answer in reading.questions):
            end, *times = reading.questions
            reading.questions = []
            try:
                reading.end = offset_in(end)
                start = offset_since(times[0], reading.end) if times else reading.offset
            except KafkaException as error:
                self._outage.failed(error)
                reading.begin_at = boot_seconds() + _AGAIN_SECONDS
                return
            self._outage.answered()
            self._assign(reading, start)

    def _questions(self, reading: Reading) -> list[Future[Any]]:
        places = [reading.place]
        specs = [latest()]
        if reading.offset < 0:
            specs.append(first_since(max(0, reading.since - SLACK_MS)))
        ask = partial(request_offsets, self._admin, self._prefix, places)
        return [answer for s in specs for answer in ask(s, _ASK_SECONDS).values()]

    def _assign(self, reading: Reading, offset: int) -> None:
        reading.next = offset
        if not reading.complete:
            self._tail.begin({reading.place: offset})

    def _read(self) -> None:
        """Read on.

        Raises:
            Unreadable: a partition cannot be read on.
            KafkaException: the consumer can do nothing more.
        """
        for message in self._tail.read(MOST_RECORDS, _POLL_SECONDS):
            place = self._tail.place(message)
            reading = self._active[place[1]]
            if not reading.complete:
                reading.take(record_of(place[0], message))
        for reading in self._active.values():
            if reading.next is not None and not reading.complete:
                # Behind the last record are the markers that end transactions.
                reading.next = max(reading.next, self._tail.next[reading.place])

    def _unreadable(self, fault: Fault) -> None:
        """Read the part again later from its start, but without the records that are purged."""
        if fault.cause.code() not in self._told:
            self._told.add(fault.cause.code())
            log.warning("history cannot be read: trying on", reason=fault.text)
        if fault.gone:
            self._tail.again(fault)
            return
        self._tail.drop(fault.place)
        reading = self._active[fault.place[1]]
        reading.records, reading.size, reading.next = [], 0, None
        reading.begin_at = boot_seconds() + _AGAIN_SECONDS

    def _hand_over(self, reading: Reading) -> None:
        del self._active[reading.partition]
        self._told.clear()
        self._tail.drop(reading.place)
        reading.part = Part(reading.records, reading.next or 0, reading.at_end)

    def _stands_still(self, error: Exception) -> None:
        log.exception("history is read no more")
        self._failed(
            StageFailed(
                f"the inputs cannot be read again ({type(error).__name__}: {error}): the "
                "process ends, and its supervisor must start it again"
            )
        )


def _end_of(reading: Reading | None, topic: str, since: int) -> int | None:
    """Where a reading ends that goes on with this one."""
    if reading is None or (reading.topic, reading.since) != (topic, since):
        return None
    return reading.end
