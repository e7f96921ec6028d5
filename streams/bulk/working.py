"""One attempt to bring a bulk act to the state that is ordered.

It knows neither Kafka nor what an action does: it is given a function that deals with an item, and
one that writes records.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from threading import Event

import structlog

from streams.bulk.act import Act
from streams.bulk.ramp import Tally, room, too_many
from streams.process.wall_clock import wall_ms
from streams.serde.bulk_records import (
    DONE,
    ENDED,
    RUNNING,
    STOPPED,
    WAITING,
    BulkAsked,
    BulkBody,
    BulkItem,
    BulkProgress,
    BulkStatus,
)

log = structlog.get_logger(__name__)

AT_ONCE = 20
"""So many items are dealt with at the same time."""
_CLASH = "two requests with different bodies took this key at once: ask again, each with a new key"

Deal = Callable[[Act, BulkItem], Awaitable[BulkItem]]
"""Deals with an item and returns it with its outcome.

It raises an error for what is no fault of the item: then the same item is dealt with once more, and
must have the same effect as if that were done once.
"""
Write = Callable[[str, Sequence[BulkBody]], Awaitable[None]]
"""Returns once records about an act, whose id is given, are durable, in this order."""


class Interrupted(Exception):
    """Something else is ordered, or another process is to go on."""


@dataclass(frozen=True, slots=True)
class Hands:
    """What attempts in a process share: how to deal with an item, and where to write."""

    deal: Deal
    write: Write


class Working:
    """An attempt at one act; its `run` belongs to an event loop.

    The carrier's thread sets `act` to the newest orders, and `released` to True if another process
    is to go on. An act is `stuck` if its last attempt failed; `over` is set at last. `plan` is the
    digest of its items.
    """

    def __init__(self, hands: Hands, act: Act, items: Sequence[BulkItem], stuck: bool) -> None:
        self.act = act
        self.stuck = stuck
        self.released = self.lost = False
        self.over = Event()
        assert act.asked is not None  # noqa: S101  nothing else is carried
        self._asked: BulkAsked = act.asked
        self._overwritten = act.overwritten
        self._hands = hands
        self.plan = self._asked.items_digest
        self.progress = replace(act.progress or BulkProgress(RUNNING), plan=self.plan)
        mine = (item for item in items if item.digest == self.plan)
        self.items = {item.item: item for item in sorted(mine, key=lambda i: (i.number, i.item))}
        self._waiting = deque(item for item in self.items.values() if item.outcome == WAITING)
        self._tally = Tally().plus(self.items.values())

    async def run(self) -> None:
        """Go on until the ordered state is reached, orders change, or something fails."""
        try:
            await self._obey()
            self.stuck = False
        except Interrupted:
            pass
        except Exception as error:
            await self._report(error)
        finally:
            self.over.set()

    async def _obey(self) -> None:
        if self.progress.status in ENDED:
            await self._write(replace(self.progress, error=None))
        elif self.act.ordered == RUNNING:
            await self._work()
        elif self._overwritten or self.progress.status != self.act.ordered:
            await self._rest()

    async def _work(self) -> None:
        self._begin()
        while not await self._stop_at_failures():
            await self._save(RUNNING)
            if not self._waiting:
                await self._save(DONE)
                return
            await self._check()
            await self._deal(self._next())

    async def _stop_at_failures(self) -> bool:
        """Stop if too many items have failed, also before this attempt; return whether it stops."""
        why = too_many(self._tally, self.progress, self._asked.stop_at_failures)
        if why is not None:
            stops = self.progress.stops + 1
            self.progress = replace(self.progress, stops=stops, because=why)
            await self._save(STOPPED, why)
        return why is not None

    def _begin(self) -> None:
        """Forgive the failures so far if a person let a stopped act go on."""
        if self.progress.status == STOPPED or self.progress.because is not None:
            found = self._tally
            self.progress = replace(
                self.progress,
                forgiven_items=found.dealt_with,
                forgiven_failures=found.failed,
            )
        started = self.progress.started_at or wall_ms()
        self.progress = replace(self.progress, started_at=started)

    def _next(self) -> list[BulkItem]:
        here = room(self._asked.ramp, self._tally.answered) or AT_ONCE
        return [self._waiting.popleft() for _ in range(min(AT_ONCE, here, len(self._waiting)))]

    async def _deal(self, batch: Sequence[BulkItem]) -> None:
        """Deal with some items at once, and write what became of them.

        Raises:
            Exception: the first error that was no item's fault; the others' results are durable.
        """
        act = self.act
        found = await asyncio.gather(
            *(self._hands.deal(act, item) for item in batch), return_exceptions=True
        )
        results = [each for each in found if isinstance(each, BulkItem)]
        if not self.lost:
            await self._hands.write(act.bulk_id, results)
        self.items |= {each.item: each for each in results}
        self._tally = self._tally.plus(results)
        for each in found:
            if isinstance(each, BaseException):
                raise each

    async def _check(self) -> None:
        if self.released or self._is_planned_anew:
            raise Interrupted
        if self.act.ordered != RUNNING:
            await self._rest()
            raise Interrupted

    @property
    def _is_planned_anew(self) -> bool:
        """Whether another request with the same key and body has come, with a plan of its own."""
        asked = self.act.asked
        return not self.act.clash and asked is not None and asked.items_digest != self.plan

    async def _rest(self) -> None:
        """Save that the act stands still, also for a stop that an earlier owner has written."""
        act, because = self.act, None
        if act.is_stopped and act.progress is not None:
            because = act.progress.because
        if act.clash:
            because = _CLASH
        if act.cancelled is not None:
            because = act.cancelled.note
        self.progress = replace(self.progress, stops=max(self.progress.stops, act.stops))
        await self._save(act.ordered, because)

    async def _save(self, status: BulkStatus, because: str | None = None) -> None:
        """Return once the progress is durable, unless another process is at work already."""
        found = self._tally
        progress = replace(
            self.progress,
            status=status,
            done=found.done,
            asked=found.asked,
            failed=found.failed,
            because=because,
            error=None,
        )
        await self._write(progress)

    async def _write(self, progress: BulkProgress) -> None:
        if self.lost:
            raise Interrupted
        await self._hands.write(self.act.bulk_id, [progress])
        self.progress = progress

    async def _report(self, error: Exception) -> None:
        """Show why the act does not move, if that can be written and it is still ours."""
        self.stuck = True
        log.warning("a bulk act does not move", bulk_id=self.act.bulk_id, error=str(error))
        if self.progress.status in ENDED:
            return  # its items are not kept, so it cannot be counted again
        found = self._tally
        counted = replace(
            self.progress, done=found.done, asked=found.asked, failed=found.failed, error=str(error)
        )
        try:
            await self._write(counted)
        except Exception as again:
            log.warning("the reason was not written", bulk_id=self.act.bulk_id, error=str(again))
