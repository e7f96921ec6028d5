"""The scheduler stage: keeps records until they are due, then sends them to their topic.

A schedule fires once and never early (G4): the timer leaves the store in the transaction that
sends its record. The store `timers` holds two kinds of keys: `t`, due time, id (in the order in
which they fire), with the schedule as it came; and `i`, id, with the due time, so that a second
schedule of the same id replaces the first.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import partial
from itertools import islice

from streams.errors import PoisonRecord
from streams.runtime.poison import TOPIC as DLQ
from streams.runtime.processor import Context, Record, Stage, declared_stage
from streams.serde.codec import SCHEDULE
from streams.serde.keys import join
from streams.topology.model import Topology

_TIMER, _INDEX = b"t", b"i"
_DUE = struct.Struct(">Q")
_NEVER = 2**63
_BATCH = 1_000
"""Timers fired by one punctuation: a backlog must not hold the transaction open for long."""


def stage(topology: Topology) -> Stage:
    """`schedule` to the topics that the stage is declared to write, `dlq` aside."""
    targets = frozenset(topology.stages["scheduler"].writes) - {DLQ}
    return declared_stage(topology, "scheduler", partial(Scheduler, targets), 0.025)


class Scheduler:
    """One partition's timers; `_next_due` is derived, so that an idle punctuation costs nothing."""

    def __init__(self, targets: frozenset[str], partition: int) -> None:
        self._targets = targets
        self._next_due = _NEVER

    def restored(self, ctx: Context) -> None:
        self._next_due = _first_due(ctx, since=0)

    def process(self, record: Record, ctx: Context) -> None:
        """Set, or set anew, one timer.

        Raises:
            DecodeError: not a schedule.
            PoisonRecord: its target is not in the allow-list.
        """
        schedule = SCHEDULE.decode(record.value)
        if schedule.topic not in self._targets:
            allowed = ", ".join(sorted(self._targets))
            raise PoisonRecord("target_not_allowed", f"{schedule.topic!r} is none of: {allowed}")
        timers = ctx.store("timers")
        id_ = join(schedule.tenant_id, schedule.schedule_id)
        replaced = timers.get(_INDEX + id_)
        if replaced is not None:
            timers.delete(_TIMER + replaced + id_)
        due_at = min(max(schedule.due_at, 0), _NEVER - 1)
        due = _DUE.pack(due_at)
        timers.put(_INDEX + id_, due)
        timers.put(_TIMER + due + id_, record.value or b"")
        self._next_due = min(self._next_due, due_at)

    def punctuate(self, now: int, ctx: Context) -> None:
        """Send what is due, oldest first."""
        if now < self._next_due:
            return
        timers = ctx.store("timers")
        for key, value in list(islice(_timers(ctx, self._next_due, now), _BATCH)):
            schedule = SCHEDULE.decode(value)
            ctx.forward(schedule.topic, schedule.key, schedule.value)
            timers.delete(key)
            timers.delete(_INDEX + key[1 + _DUE.size :])
        # From the last one on: before it lie only the tombstones of what was fired.
        self._next_due = _first_due(ctx, since=self._next_due)


def _timers(ctx: Context, since: int, until: int) -> Iterator[tuple[bytes, bytes]]:
    """Timers due from `since` to `until` (milliseconds, both included), in firing order."""
    return ctx.store("timers").range(_TIMER + _DUE.pack(since), _TIMER + _DUE.pack(until + 1))


def _first_due(ctx: Context, since: int) -> int:
    for key, _ in _timers(ctx, since, _NEVER):
        due: int = _DUE.unpack_from(key, 1)[0]
        return due
    return _NEVER
