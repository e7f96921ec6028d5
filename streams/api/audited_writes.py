"""Writes what an operator changes, each change in one transaction with its entry of the audit.

Calls that wait at the same time share a transaction. After a transaction whose outcome is unknown,
a new producer is opened, which settles it, and the read model shows whether it was committed. A
producer is replaced, too, once one of its connections broke (`streams.kafka.connections` says why).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from streams.audit.chain import Head, head_of, linked
from streams.audit.entries import TOPIC, encoded
from streams.errors import KafkaUnavailable, RecordTooLarge
from streams.kafka.fenced_write import FencedWrite, FencedWrites, OutgoingRecord, Unsettled
from streams.serde.records import AuditEntry

_MOST_IN_ONE = 200
"""How many calls share a transaction at most."""

Heads = Callable[[str, Sequence[int]], Awaitable[dict[int, Head]]]
"""Finds the newest entry that a writer has in each of some partitions, once all that it wrote is
read."""
Shows = Callable[[Head], Awaitable[bool]]
"""Says whether the read model shows the entry that a head names, once `Heads` has returned."""


class _NotCommitted(KafkaUnavailable):
    """A transaction is known not to be committed."""


class Opened(Protocol):
    """What opens producers of one transactional id."""

    async def open(self) -> FencedWrite: ...


@dataclass(frozen=True, slots=True)
class _Waiting:
    entry: AuditEntry
    partition: int
    records: tuple[OutgoingRecord, ...]
    written: asyncio.Future[list[int] | None]


class AuditedWrites:
    """The writes of one operator; its chains are `operator/INSTANCE:PARTITION`."""

    def __init__(
        self, instance: str, writes: Opened | FencedWrites, heads: Heads, shows: Shows
    ) -> None:
        self._writer = f"operator/{instance}"
        self._writes, self._find, self._shows = writes, heads, shows
        self._write: FencedWrite | None = None
        self._heads: dict[int, Head] = {}
        self._waiting: list[_Waiting] = []
        self._task: asyncio.Task[None] | None = None

    async def write(
        self, entry: AuditEntry, partition: int, records: Sequence[OutgoingRecord] = ()
    ) -> list[int] | None:
        """Write records and their entry; return the records' offsets once all is committed.

        They are None if the broker did not tell them, but the read model shows the entry.

        Raises:
            KafkaUnavailable: it is not known to be committed; it may still be.
            RecordTooLarge: a record is larger than its topic takes; nothing is written.
        """
        made: asyncio.Future[list[int] | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(entry, partition, tuple(records), made))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return await made

    async def close(self) -> None:
        """Wait for the writes that are in progress."""
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting[:_MOST_IN_ONE], self._waiting[_MOST_IN_ONE:]
            await self._settle(group)

    async def _settle(self, group: Sequence[_Waiting], *, again: bool = True) -> None:
        """Write a group; if it is known not to be committed, once more each of its calls alone."""
        try:
            offsets = await self._written(group)
        except (_NotCommitted, RecordTooLarge) as error:
            for each in group:
                if again and len(group) + isinstance(error, _NotCommitted) > 1:
                    await self._settle([each], again=False)
                else:
                    _fail(each, error)
        except Exception as error:
            for each in group:
                _fail(each, error)
        else:
            _tell(group, offsets)

    async def _written(self, group: Sequence[_Waiting]) -> list[int] | None:
        """Write a group in one transaction; return the offsets, the entry's after each's records.

        Raises:
            _NotCommitted, RecordTooLarge: nothing of it is committed.
            KafkaUnavailable: it is not known whether it is committed.
        """
        write = await self._open(group)
        heads, outgoing = dict(self._heads), list[OutgoingRecord]()
        for each in group:
            entry = linked(each.entry, heads[each.partition])
            heads[each.partition] = head_of(entry)
            outgoing += (*each.records, OutgoingRecord(TOPIC, *encoded(entry), each.partition))
        self._write = None  # until its outcome is known
        try:
            offsets = await write.commit(*outgoing)
        except Unsettled as error:
            await self._open(group)
            if await self._shows(heads[group[0].partition]):  # and so all of the transaction
                return None
            raise _NotCommitted(f"{TOPIC}: {error}") from error
        self._write, self._heads = write, heads
        return offsets

    async def _open(self, group: Sequence[_Waiting]) -> FencedWrite:
        """Return a producer, once the heads of the group's partitions are known.

        A new one settles what an earlier one has left. Nobody else writes these chains, so a head
        that was read or written since then is the newest.
        """
        write = self._write
        if write is None or write.is_broken:
            self._write, self._heads = None, {}
            self._write = write = await self._writes.open()
        if unknown := _partitions(group) - self._heads.keys():
            self._heads |= await self._find(self._writer, sorted(unknown))
        return write


def _partitions(group: Sequence[_Waiting]) -> set[int]:
    return {each.partition for each in group}


def _tell(group: Sequence[_Waiting], offsets: list[int] | None) -> None:
    for each in group:
        count = len(each.records)
        if not each.written.done():
            each.written.set_result(None if offsets is None else offsets[:count])
        offsets = None if offsets is None else offsets[count + 1 :]


def _fail(waiting: _Waiting, error: Exception) -> None:
    with suppress(asyncio.InvalidStateError):
        waiting.written.set_exception(error)
