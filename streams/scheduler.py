"""The scheduler stage: keeps records until they are due, then sends them to their topic.

A schedule fires once and never early (G4): the timer leaves the store in the transaction that sends
its record. If the broker refuses a record, it becomes a dead letter, and holds up no other.

The store `timers` holds two kinds of keys. `t`, due time, id (in the order in which they fire) has
the schedule as it came. `i`, id has the due time, so that a second schedule of the same id replaces
the first.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import partial
from itertools import islice

from streams import dead_letter
from streams.errors import PoisonRecord
from streams.runtime.processor import REST_SECONDS, Context, Processor, Record
from streams.runtime.stage import Stage, declared_stage
from streams.serde.codec import SCHEDULE
from streams.serde.keys import join
from streams.topology.model import Topology

_TIMER, _INDEX = b"t", b"i"
_DUE = struct.Struct(">Q")
_NEVER = 2**63
_BATCH = 1_000
"""The most timers that one step fires: a backlog must not keep the transaction open for long."""
_HOLD_MS = 10_000
"""How long nothing is sent after a target was found missing."""


def stage(topology: Topology) -> Stage:
    """The stage, which reads `schedule` and writes its declared topics; `dlq` is not a target."""
    targets = frozenset(topology.stages["scheduler"].writes) - {dead_letter.TOPIC}
    return declared_stage(topology, "scheduler", partial(Scheduler, targets), 0.025)


class Scheduler(Processor):
    """One partition's timers; `_next_due` is derived, so that an idle punctuation costs nothing."""

    def __init__(self, targets: frozenset[str], partition: int) -> None:
        self._targets = targets
        self._next_due = _NEVER
        self._held_until = 0

    def restored(self, ctx: Context) -> None:
        self._next_due = _first_due(ctx, since=0)

    def process(self, record: Record, ctx: Context) -> None:
        """Set one timer or replace it; one without a target is forgotten.

        Raises:
            DecodeError: not a schedule.
            PoisonRecord: its target is not in the allow-list, or its id could clash with another.
        """
        schedule = SCHEDULE.decode(record.value)
        if schedule.topic and schedule.topic not in self._targets:
            allowed = ", ".join(sorted(self._targets))
            raise PoisonRecord("target_not_allowed", f"{schedule.topic!r} is none of: {allowed}")
        if "\0" in schedule.tenant_id + schedule.schedule_id:
            raise PoisonRecord("bad_id", "a NUL separates tenant and id in the store's keys")
        timers = ctx.store("timers")
        id_ = join(schedule.tenant_id, schedule.schedule_id)
        replaced = timers.get(_INDEX + id_)
        if replaced is not None:
            timers.delete(_TIMER + replaced + id_)
        if not schedule.topic:
            if replaced is not None:
                timers.delete(_INDEX + id_)
            return
        due_at = min(max(schedule.due_at, 0), _NEVER - 1)
        due = _DUE.pack(due_at)
        timers.put(_INDEX + id_, due)
        timers.put(_TIMER + due + id_, record.value or b"")
        self._next_due = min(self._next_due, due_at)

    def rests(self, ctx: Context) -> bool:
        """Whether no timer fires soon."""
        return max(self._next_due, self._held_until) > ctx.now + REST_SECONDS * 1000

    def initiate(self, ctx: Context, limit: int | None) -> None:
        """Send the due records, oldest first."""
        if ctx.now >= max(self._next_due, self._held_until):
            self._fire(ctx.now, _BATCH if limit is None else min(limit, _BATCH), ctx)

    def refused(
        self, topic: str, key: bytes | None, detail: str, missing: bool, ctx: Context
    ) -> None:
        """Dead-letter the oldest timer, whose record was tried; if the topic is missing, wait."""
        if missing:
            self._held_until = ctx.now + _HOLD_MS
            return
        timer, value = next(_timers(ctx, self._next_due, ctx.now))
        _drop(timer, ctx)
        schedule = SCHEDULE.decode(value)
        letter = dead_letter.of_record(
            "scheduler",
            "schedule",
            ctx.partition,
            -1,
            schedule.due_at,
            key,
            value,
            reason="output_refused",
            detail=detail,
            at=ctx.now,
            id_=f"scheduler:{schedule.tenant_id}:{schedule.schedule_id}:{schedule.due_at}",
        )
        ctx.forward(dead_letter.TOPIC, *dead_letter.encoded(letter))
        self._next_due = _first_due(ctx, since=self._next_due)

    def _fire(self, now: int, most: int, ctx: Context) -> None:
        for key, value in list(islice(_timers(ctx, self._next_due, now), most)):
            schedule = SCHEDULE.decode(value)
            ctx.forward(schedule.topic, schedule.key, schedule.value)
            _drop(key, ctx)
        # Search from the last due time on: before it are only tombstones of fired timers.
        self._next_due = _first_due(ctx, since=self._next_due)


def _drop(timer: bytes, ctx: Context) -> None:
    ctx.store("timers").delete(timer)
    ctx.store("timers").delete(_INDEX + timer[1 + _DUE.size :])


def _timers(ctx: Context, since: int, until: int) -> Iterator[tuple[bytes, bytes]]:
    """Timers due from `since` to `until` (milliseconds, both included), in firing order."""
    return ctx.store("timers").range(_TIMER + _DUE.pack(since), _TIMER + _DUE.pack(until + 1))


def _first_due(ctx: Context, since: int) -> int:
    for key, _ in _timers(ctx, since, _NEVER):
        due: int = _DUE.unpack_from(key, 1)[0]
        return due
    return _NEVER
