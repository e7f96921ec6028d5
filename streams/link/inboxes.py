"""The commands of all connections, from their reading until they are committed or dropped."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator

from streams.link.peer import Peer, Waiting
from streams.runtime.dead_keys import NO_OFFSET
from streams.runtime.link import LINK
from streams.runtime.processor import Record

_MOST_TAKEN_BYTES = 4 * 1024 * 1024
"""About so much is given out at once, so that a step ends in time, whatever commands ask for."""


class Inboxes:
    """The waiting commands of each connection in their order, and those in flight. Not thread-safe.

    What is in flight is found by the record that was given out, which is one object all along.
    """

    def __init__(self) -> None:
        self._turns: deque[Peer] = deque()  # connections with waiting commands
        self._in_flight: dict[int, Waiting] = {}

    def __bool__(self) -> bool:
        return bool(self._turns)

    def add(self, waiting: Waiting) -> None:
        """Let a command wait behind those of its connection."""
        peer = waiting.peer
        if not peer.waiting:
            self._turns.append(peer)
        peer.waiting.append(waiting)
        peer.waiting_bytes += len(waiting.value)

    def take(self, limit: int, now: int) -> list[Record]:
        """Give out up to `limit` commands, with equal shares for the connections."""
        taken: list[Record] = []
        room_bytes = _MOST_TAKEN_BYTES
        while self._turns and len(taken) < limit and room_bytes > 0:
            share = max(1, (limit - len(taken)) // len(self._turns))
            share_bytes = max(1, room_bytes // len(self._turns))
            for _ in range(len(self._turns)):
                room = min(share, limit - len(taken))
                if not room or room_bytes <= 0:  # the others are the first of the next step
                    break
                peer = self._turns.popleft()
                for each in _first(peer, room, share_bytes):
                    room_bytes -= len(each.value)
                    taken.append(self._give_out(each, now))
                if peer.waiting:
                    self._turns.append(peer)
        return taken

    def committed(self, record: Record) -> Waiting | None:
        """Forget a command that was given out; None if it was dropped meanwhile."""
        return self._in_flight.pop(id(record), None)

    def again(self) -> None:
        """Let everything in flight wait again, before what came later."""
        in_flight, self._in_flight = self._in_flight, {}
        for waiting in reversed(in_flight.values()):
            peer = waiting.peer
            if peer.replaced:  # it sends its commands again over its new connection
                continue
            if not peer.waiting:
                self._turns.appendleft(peer)
            peer.waiting.appendleft(waiting)
            peer.waiting_bytes += len(waiting.value)

    def drop(self, partitions: Collection[int]) -> None:
        """Forget the commands of partitions."""
        in_flight = self._in_flight.items()
        self._in_flight = {key: w for key, w in in_flight if w.partition not in partitions}
        for peer in self._turns:
            peer.waiting = deque(w for w in peer.waiting if w.partition not in partitions)
            peer.waiting_bytes = sum(len(each.value) for each in peer.waiting)
        self._turns = deque(peer for peer in self._turns if peer.waiting)

    def forget(self, peer: Peer) -> None:
        """Drop what a connection left: its worker sends it again over a new one."""
        peer.replaced = True
        if peer.waiting:
            peer.waiting.clear()
            peer.waiting_bytes = 0
            self._turns.remove(peer)

    def _give_out(self, waiting: Waiting, now: int) -> Record:
        record = waiting.record
        if record is None:
            key, value = waiting.peer.worker_id.encode(), waiting.value
            record = Record(LINK, waiting.partition, NO_OFFSET, now, key, value, [])
            waiting.record = record
        self._in_flight[id(record)] = waiting
        return record


def _first(peer: Peer, number: int, size: int) -> Iterator[Waiting]:
    """Take the commands of a connection that wait longest: until they have so many bytes."""
    was_full = peer.full
    for _ in range(min(number, len(peer.waiting))):
        if size <= 0:
            break
        waiting = peer.waiting.popleft()
        size -= len(waiting.value)
        peer.waiting_bytes -= len(waiting.value)
        yield waiting
    if was_full and not peer.full:
        peer.wake()
