"""Reads chunks of `payloads` by their offsets, on its own thread."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from streams.errors import PermanentError, TransientError
from streams.kafka.clients import consumer_config
from streams.kafka.failures import GONE, is_fatal
from streams.serde.records import PayloadRef
from streams.settings import Settings

_TOPIC = "payloads"
_FETCH_SECONDS = 30.0
"""How long a body waits for a partition that delivers nothing."""

_READ_AHEAD = 100
"""How many records to read past rather than seek: jobs come in about the order of their events."""

_IDLE_SECONDS, _POLL_SECONDS = 0.1, 0.02


@dataclass(slots=True, eq=False)
class _Body:
    """A body that a caller waits for, and its chunks that were read."""

    ref: PayloadRef
    future: Future[list[bytes]]
    asked_at: float
    chunks: list[bytes] = field(default_factory=list)

    @property
    def next_offset(self) -> int:
        return self.ref.offsets[len(self.chunks)]


@dataclass(slots=True, eq=False)
class _Lane:
    """One partition: its bodies, and the offset that comes next; None if a seek is needed."""

    partition: int
    moved_at: float
    bodies: list[_Body] = field(default_factory=list)
    current: _Body | None = None
    position: int | None = None

    def next_body(self) -> _Body | None:
        """The next body in the order of the log from here on: each jump costs milliseconds."""
        here = self.position or 0
        while self.bodies:
            body = min(self.bodies, key=lambda b: (b.next_offset < here, b.next_offset))
            self.bodies.remove(body)
            if body.future.set_running_or_notify_cancel():
                return body
        return None


class PayloadReader:
    """Reads partitions side by side: one without a leader keeps no other waiting."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._topic = settings.topic_prefix + _TOPIC
        self._clock = clock
        self._consumer = Consumer(
            consumer_config(
                settings,
                "payloads",
                **{
                    "auto.offset.reset": "error",
                    "fetch.wait.max.ms": 10,
                    # Fetch a few bodies at a time: most read-ahead is never asked for.
                    "fetch.message.max.bytes": 64 * 1024,
                    "queued.min.messages": 50,
                },
            )
        )
        self._requests: queue.SimpleQueue[_Body] = queue.SimpleQueue()
        self._lanes: dict[int, _Lane] = {}

    def fetch(self, ref: PayloadRef) -> Future[list[bytes]]:
        """The sealed chunks of a raw body, in order."""
        body = _Body(ref, Future(), self._clock())
        self._requests.put(body)
        return body.future

    def run(self, closed: threading.Event) -> None:
        """Answer until closed; this is the body of the reader's thread."""
        try:
            while not closed.is_set():
                self.step()
        finally:
            self._consumer.close()

    def step(self) -> None:
        """Take in the requests, and read one record for the waiting bodies."""
        self._take_in()
        for lane in list(self._lanes.values()):
            self._begin(lane)
        busy = [lane for lane in self._lanes.values() if lane.current]
        if not busy:
            return
        for lane in [lane for lane in self._lanes.values() if not lane.current]:
            self._leave(lane)
        message = self._consumer.poll(_POLL_SECONDS)
        if message is not None:
            self._read(message)
        for lane in busy:
            self._give_up(lane)

    def _take_in(self) -> None:
        waiting = any(lane.current for lane in self._lanes.values())
        try:
            self._add(self._requests.get(block=not waiting, timeout=_IDLE_SECONDS))
            while True:
                self._add(self._requests.get(block=False))
        except queue.Empty:
            return

    def _add(self, body: _Body) -> None:
        if not body.ref.offsets:  # an empty body, whose caller may have stopped waiting
            if body.future.set_running_or_notify_cancel():
                body.future.set_result([])
            return
        partition = body.ref.partition
        lane = self._lanes.setdefault(partition, _Lane(partition, self._clock()))
        lane.bodies.append(body)

    def _begin(self, lane: _Lane) -> None:
        """Choose the lane's next body, and seek to its next chunk."""
        lane.current = lane.current or lane.next_body()
        if lane.current is None:
            return
        offset = lane.current.next_offset
        if lane.position is not None and 0 <= offset - lane.position <= _READ_AHEAD:
            return
        try:
            self._seek(lane, offset)
        except KafkaException as error:
            self._fail(lane, TransientError(f"payloads:{lane.partition}: {error}"))

    def _seek(self, lane: _Lane, offset: int) -> None:
        self._release(lane)
        self._consumer.incremental_assign([TopicPartition(self._topic, lane.partition, offset)])
        lane.position = offset

    def _leave(self, lane: _Lane) -> None:
        """Close a lane without waiting bodies, so that it fetches nothing ahead."""
        self._release(lane)
        del self._lanes[lane.partition]

    def _release(self, lane: _Lane) -> None:
        assigned = {place.partition for place in self._consumer.assignment()}
        if lane.partition in assigned:
            self._consumer.incremental_unassign([TopicPartition(self._topic, lane.partition)])
        lane.position = None

    def _read(self, message: Message) -> None:
        error, lane = message.error(), self._lanes.get(_or(message.partition(), -1))
        if error is not None and is_fatal(error):
            raise KafkaException(error)
        if lane is None or lane.current is None:
            return
        if error is not None:
            if error.code() in GONE:
                self._gone(lane)
            return  # other errors may pass: the partition has its time to recover
        offset, wanted = _or(message.offset(), -1), lane.current.next_offset
        lane.position, lane.moved_at = offset + 1, self._clock()
        if offset == wanted:
            self._chunk(lane, lane.current, message.value())
        elif offset > wanted:
            self._gone(lane)

    def _chunk(self, lane: _Lane, body: _Body, value: object) -> None:
        if not isinstance(value, bytes):
            self._gone(lane)
            return
        body.chunks.append(value)
        if len(body.chunks) == len(body.ref.offsets):
            lane.current = None
            body.future.set_result(body.chunks)

    def _gone(self, lane: _Lane) -> None:
        offset = lane.current.next_offset if lane.current else -1
        place = f"payloads:{lane.partition}:{offset}"
        text = f"{place} is gone: it is older than the topic's retention, which topology.yaml sets"
        self._fail(lane, PermanentError(text))

    def _give_up(self, lane: _Lane) -> None:
        """Fail bodies that waited too long; their time begins anew when the partition delivers."""
        waiting = [body for body in (lane.current, *lane.bodies) if body]
        for body in waiting:
            if self._clock() - max(lane.moved_at, body.asked_at) < _FETCH_SECONDS:
                continue
            if body is lane.current:
                self._fail(lane, _late(body))
            else:
                lane.bodies.remove(body)
                if body.future.set_running_or_notify_cancel():
                    body.future.set_exception(_late(body))

    def _fail(self, lane: _Lane, error: Exception) -> None:
        body, lane.current, lane.position = lane.current, None, None
        if body is not None:
            body.future.set_exception(error)


def _late(body: _Body) -> TransientError:
    place = f"payloads:{body.ref.partition}:{body.next_offset}"
    return TransientError(f"{place} could not be read in time: see whether it has a leader")


def _or(number: int | None, default: int) -> int:
    return default if number is None else number
