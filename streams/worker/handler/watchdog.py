"""Detects and logs a handler that blocks the event loop, and ends the process if it must."""

from __future__ import annotations

import asyncio
import math
import os
import sys
import threading
import traceback
from collections.abc import Callable

import structlog

from streams.errors import StageFailed
from streams.worker import metrics
from streams.worker.handler.execution import task_name
from streams.worker.handler.invoke import LEFT
from streams.worker.lease.held_leases import GRACE_SECONDS, Held, HeldLeases
from streams.worker.link.link import Link

log = structlog.get_logger(__name__)

BLOCKED_SECONDS = 1.0
EXIT_CODE = 70
"""EX_SOFTWARE of sysexits.h: the supervisor starts the worker again."""

LEFT_BEHIND_SECONDS = 30.0
"""How long a handler's leftover tasks may block the loop while no run has a timeout ahead, and how
long ended runs may keep every slot."""

MOST_HANGING = 256
"""So many threads may hang in calls of runs that are over, each for `HANGS_SECONDS` at least. A
process that goes on until it can start no thread fails the jobs of everybody."""
HANGS_SECONDS = 60.0

_TICK_SECONDS = 0.25
_FULL = "runs that ignore their end have every slot of a pool for ever"


def _unheard(_: Exception) -> None:
    """Takes what nobody waits for."""


class Watchdog:
    """The loop ticks, and a thread checks that it still does.

    While the loop is blocked, heartbeats keep the leases but ask for no more. If the blocking run
    is past its timeout and grace, only the end of the process can stop it. The dispatcher hands
    the other leases on as soon as the instance boots again.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        held_leases: HeldLeases,
        link: Link,
        clock: Callable[[], float],
        exit_process: Callable[[int], object] = os._exit,
        failed: Callable[[Exception], object] = _unheard,
        worn: Callable[[Exception], object] = _unheard,
    ) -> None:
        self._loop = loop
        self._held_leases = held_leases
        self._link = link
        self._clock = clock
        self._exit = exit_process
        self._failed = failed
        self._worn = worn
        self._is_full = self._is_worn = False
        self._ticked = self._looked = clock()
        self._awake_since = self._looked
        self._forgiven: float | None = None
        self._thread_id = threading.get_ident()
        self._stopped = threading.Event()
        self._late = 0.0
        metrics.LOOP_LAG_SECONDS.set_function(self._lag)

    def tick(self) -> None:
        """Call once in the loop's thread; it repeats itself."""
        now = self._clock()
        self._late, self._ticked = self._overdue(now), now
        self._thread_id = threading.get_ident()
        if not self._stopped.is_set():
            self._loop.call_later(_TICK_SECONDS, self.tick)

    def run(self) -> None:
        """Look until `stop`; the body of the watchdog's thread."""
        while not self._stopped.wait(_TICK_SECONDS):
            try:
                self.look()
            except Exception:
                log.exception("the watchdog failed: it looks again")

    def stop(self) -> None:
        self._stopped.set()

    def look(self) -> None:
        """Compare the last tick with the clock, and act on it."""
        since = self._ticked
        if self._stood_still(since):
            return
        if self._clock() - since <= BLOCKED_SECONDS:
            if self._held_leases.blocked:
                log.info("the event loop runs again")
                self._tell(blocked=False)
            self._end_if_full_for_ever()
            self._end_if_worn()
            return
        culprit = self._culprit()
        if not self._held_leases.blocked:
            self._tell(blocked=True)
            if culprit is None or culprit in self._held_leases.running():
                self._log("a handler blocks the event loop", culprit)
        if self._is_overdue(culprit, since):
            self._log("the event loop is blocked past its handler's timeout: exiting", culprit)
            self._exit(EXIT_CODE)

    def _overdue(self, now: float) -> float:
        return max(0.0, now - self._ticked - _TICK_SECONDS)

    def _lag(self) -> float:
        """How late the last tick was, or the next one is already: a blocked loop cannot say it."""
        return max(self._late, self._overdue(self._clock()))

    def _stood_still(self, tick: float) -> bool:
        """Whether the whole process stood still, not only the loop. Each tick is excused once.

        After a suspension or a stop signal, this thread may run before the loop does.
        """
        gap, self._looked = self._clock() - self._looked, self._clock()
        if gap <= BLOCKED_SECONDS or self._forgiven == tick:
            return False
        self._forgiven, self._awake_since = tick, self._looked
        return True

    def _tell(self, *, blocked: bool) -> None:
        self._held_leases.blocked = blocked
        self._link.tell()

    def _culprit(self) -> Held | None:
        """The lease whose task is the loop's current one; None for a task of a handler's own."""
        task = asyncio.current_task(self._loop)
        names = {task_name(held.lease): held for held in self._held_leases.in_process()}
        return names.get(task.get_name()) if task else None

    def _end_if_full_for_ever(self) -> None:
        """End the process if runs that ignore their cancellation have every slot.

        If another pool of the process has runs, they get the time of a drain: the loop still runs.
        """
        stuck = list(filter(self._is_stuck, self._held_leases.running()))
        if self._is_full or sum(held.weight for held in stuck) < self._held_leases.slots:
            return
        self._log(f"{_FULL}: exiting", None)
        if all(map(self._is_stuck, self._held_leases.in_process())):
            self._exit(EXIT_CODE)
        else:
            self._is_full = True
            self._failed(StageFailed(_FULL))

    def _end_if_worn(self) -> None:
        """Have the process drain and end if calls of former runs hang in too many threads."""
        if self._is_worn or len(LEFT) <= MOST_HANGING:
            return
        if (number := LEFT.hanging(HANGS_SECONDS)) > MOST_HANGING:
            self._is_worn = True
            told = f"{number} functions hang after their runs are over: give them timeouts"
            log.error(f"{told}: the process drains and ends")
            self._worn(StageFailed(told))

    def _is_stuck(self, held: Held) -> bool:
        """Whether a run ignores its cancellation.

        Count from when the process last woke up: it could not cancel them while it stood still.
        """
        latest = self._clock() - GRACE_SECONDS - LEFT_BEHIND_SECONDS
        return latest > max(held.timeout_at, self._awake_since)

    def _is_overdue(self, culprit: Held | None, since: float) -> bool:
        """Whether only the end of the process can stop what has blocked the loop since then."""
        suspects = [culprit] if culprit else self._overtaken(since)
        if not suspects:
            return self._clock() - since > LEFT_BEHIND_SECONDS
        return any(self._clock() > held.timeout_at + GRACE_SECONDS for held in suspects)

    def _overtaken(self, since: float) -> list[Held]:
        """Runs that have begun and whose timeout did not pass before the loop was blocked: the
        others were cancelled at their timeout."""
        runs = self._held_leases.in_process()
        return [held for held in runs if since <= held.timeout_at < math.inf]

    def _log(self, what: str, culprit: Held | None) -> None:
        frame = sys._current_frames().get(self._thread_id)
        leases = [culprit] if culprit else self._held_leases.running()
        log.error(
            what,
            job_id=", ".join(held.lease.job_id for held in leases) or None,
            type=", ".join(sorted({held.lease.type for held in leases})) or None,
            blocked_seconds=round(self._clock() - self._ticked, 1),
            stack="".join(traceback.format_stack(frame)) if frame else "gone",
        )
