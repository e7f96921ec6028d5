"""Reads chunks of `payloads` by their offsets, on its own thread."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaException

from streams.errors import PermanentError, TransientError
from streams.kafka.payload_lane import READ_AHEAD, Body, Lane
from streams.kafka.tail import Fault, Tail, Unreadable
from streams.serde.records import PayloadRef
from streams.settings import Settings

_TOPIC = "payloads"
_FETCH_SECONDS = 30.0
"""How long a body waits for a partition that delivers nothing."""

_BATCH = 100
"""How many more records one step reads if they are there."""

_IDLE_SECONDS, _POLL_SECONDS = 0.1, 0.02
_PACE: dict[str, Any] = {
    "fetch.wait.max.ms": 10,
    # Fetch a few bodies at a time: most read-ahead is never asked for.
    "fetch.message.max.bytes": 64 * 1024,
    "queued.min.messages": 50,
}


class PayloadReader:
    """Reads partitions side by side: one without a leader keeps no other waiting.

    `group` is the process's own, which it does not join here (see `consumer_config`).
    """

    def __init__(
        self, settings: Settings, group: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._tail = Tail(settings, group, **_PACE)
        self._requests: queue.SimpleQueue[Body] = queue.SimpleQueue()
        self._lanes: dict[int, Lane] = {}

    def fetch(self, ref: PayloadRef) -> Future[list[bytes]]:
        """The sealed chunks of a raw body, in order."""
        body = Body(ref, Future(), self._clock())
        self._requests.put(body)
        return body.future

    def run(self, closed: threading.Event) -> None:
        """Answer until closed; this is the body of the reader's thread.

        An error is reported before the consumer is closed, which may last (librdkafka#5476).
        """
        while not closed.is_set():
            self.step()
        self._tail.close()

    def step(self) -> None:
        """Take in the requests, and read some records for the waiting bodies."""
        self._take_in()
        for lane in list(self._lanes.values()):
            self._serve(lane)
        busy = [lane for lane in self._lanes.values() if lane.current]
        if not busy:
            return
        for lane in [lane for lane in self._lanes.values() if not lane.current and lane.overfull]:
            self._leave(lane)
        self._read()
        for lane in busy:
            self._give_up(lane)

    def _take_in(self) -> None:
        waiting = any(lane.current or lane.bodies for lane in self._lanes.values())
        try:
            self._add(self._requests.get(block=not waiting, timeout=_IDLE_SECONDS))
            while True:
                self._add(self._requests.get(block=False))
        except queue.Empty:
            return

    def _add(self, body: Body) -> None:
        if not body.ref.offsets:  # an empty body, whose caller may have stopped waiting
            if body.future.set_running_or_notify_cancel():
                body.future.set_result([])
            return
        partition = body.ref.partition
        lane = self._lanes.setdefault(partition, Lane(partition, self._clock()))
        lane.bodies.append(body)

    def _begin(self, lane: Lane) -> None:
        """Choose the lane's next body, and seek to its next chunk."""
        lane.current = lane.current or lane.next_body(self._clock())
        if lane.current is None:
            return
        offset = lane.current.next_offset
        if lane.position is not None and 0 <= offset - lane.position <= READ_AHEAD:
            return
        try:
            self._seek(lane, offset)
        except KafkaException as error:
            self._fail(lane, TransientError(f"payloads:{lane.partition}: {error}"))

    def _seek(self, lane: Lane, offset: int) -> None:
        self._release(lane)
        self._tail.begin({(_TOPIC, lane.partition): offset})
        lane.move(offset)

    def _leave(self, lane: Lane) -> None:
        """Close a lane without waiting bodies, so that it reads no further ahead."""
        self._release(lane)
        del self._lanes[lane.partition]

    def _release(self, lane: Lane) -> None:
        self._tail.drop((_TOPIC, lane.partition))
        lane.move(None)

    def _read(self) -> None:
        try:
            messages = self._tail.read(_BATCH, _POLL_SECONDS)
        except Unreadable as error:
            self._stopped(error.fault)
            return
        for message in messages:
            lane = self._lanes[self._tail.place(message)[1]]
            lane.moved_at = self._clock()
            lane.hold(_or(message.offset(), -1), message.value())

    def _stopped(self, fault: Fault) -> None:
        """Fail the body of which a chunk cannot be read; seek past the fault for one behind it."""
        if not (fault.damaged or fault.gone):
            self._tail.again(fault)  # it may pass: the partition has its time to recover
            return
        lane = self._lanes[fault.place[1]]
        if lane.current and lane.current.next_offset == self._tail.next[fault.place]:
            if fault.damaged:
                self._fail(lane, TransientError(fault.text))
            else:
                self._gone(lane)
        self._release(lane)

    def _serve(self, lane: Lane) -> None:
        """Give the lane's bodies what was read for them."""
        self._begin(lane)
        while lane.current and lane.ahead:
            offset, value = lane.take()
            if offset == lane.current.next_offset:
                self._chunk(lane, lane.current, value)
            elif offset > lane.current.next_offset:
                self._gone(lane)
            self._begin(lane)

    def _chunk(self, lane: Lane, body: Body, value: object) -> None:
        if not isinstance(value, bytes):
            self._gone(lane)
            return
        body.chunks.append(value)
        if len(body.chunks) == len(body.ref.offsets):
            lane.current = None
            body.future.set_result(body.chunks)

    def _gone(self, lane: Lane) -> None:
        offset = lane.current.next_offset if lane.current else -1
        place = f"payloads:{lane.partition}:{offset}"
        text = f"{place} is gone: it is older than the topic's retention, which topology.yaml sets"
        self._fail(lane, PermanentError(text))

    def _give_up(self, lane: Lane) -> None:
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

    def _fail(self, lane: Lane, error: Exception) -> None:
        body, lane.current = lane.current, None
        lane.move(None)
        if body is not None:
            body.future.set_exception(error)


def _late(body: Body) -> TransientError:
    place = f"payloads:{body.ref.partition}:{body.next_offset}"
    return TransientError(f"{place} could not be read in time: see whether it has a leader")


def _or(number: int | None, default: int) -> int:
    return default if number is None else number
