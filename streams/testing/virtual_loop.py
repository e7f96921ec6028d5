"""An event loop whose timers follow a virtual clock, and that ends its run when it is idle."""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_LOOK_SECONDS = 0.02
"""How long one look for an answer from outside takes at most, in real seconds."""
_ALIKE_SECONDS = 1e-6
"""Moments that are nearer to each other are one: sums of seconds differ in their last digits."""
_OWN_FILES = 1
"""The loop itself always watches one file: the socket by which threads wake it."""


class _IdleSelector(selectors.DefaultSelector):
    """Tells the loop where an ordinary loop would sleep."""

    def __init__(self) -> None:
        super().__init__()
        self.idle: Callable[[float | None], None] = lambda _: None
        self.awaits_answer: Callable[[], bool] = lambda: False
        self.deadline = float("inf")

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if time.monotonic() > self.deadline:
            self.idle(0.0)
        if timeout is not None and timeout <= 0:
            return super().select(0)
        events = super().select(_LOOK_SECONDS if self.awaits_answer() else 0)
        if not events:
            self.idle(timeout)
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its time is `clock`, in seconds. It waits in real time for threads and sockets alone.

    `wakes_in` are the seconds to the next timer, as of the last run; None if there is none.
    `standing` is set while a run stands where the test wants it: then sockets are not waited for.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._now = clock
        self._idle_selector = _IdleSelector()
        super().__init__(self._idle_selector)
        self._clock_resolution = _ALIKE_SECONDS
        self._idle_selector.idle = self._went_idle
        self._idle_selector.awaits_answer = self.awaits_answer
        self._outside = 0
        self.wakes_in: float | None = None
        self.standing = False

    def time(self) -> float:
        return self._now()

    def run_until_idle(self, deadline: float) -> None:
        """Run what can run at this moment, until `deadline` of `time.monotonic` at the latest."""
        self._idle_selector.deadline = deadline
        self.run_forever()

    def awaits_answer(self) -> bool:
        """Whether a thread or an open socket may still have something to tell."""
        if self._outside > 0:
            return True
        return not self.standing and len(self._idle_selector.get_map()) > _OWN_FILES

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Let the code in this block wait for a thread."""
        self._outside += 1
        try:
            yield
        finally:
            self._outside -= 1

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Let a thread that is waited for wait for the code in this block."""
        self._outside -= 1
        try:
            yield
        finally:
            self._outside += 1

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """See the base class; `asyncio.to_thread` uses it, too."""
        found: asyncio.Future[T] = super().run_in_executor(executor, func, *args)
        self._outside += 1
        found.add_done_callback(self._came_back)
        return found

    def _came_back(self, _: asyncio.Future[Any]) -> None:
        self._outside -= 1

    def _went_idle(self, wakes_in: float | None) -> None:
        self.wakes_in = wakes_in
        self.stop()


@contextmanager
def waits_outside() -> Iterator[None]:
    """In here the running loop waits for a thread: time does not jump meanwhile."""
    loop = asyncio.get_running_loop()
    with loop.outside() if isinstance(loop, VirtualLoop) else nullcontext():
        yield


@contextmanager
def waits_inside() -> Iterator[None]:
    """In here a thread waits for the running loop: time may jump meanwhile."""
    loop = asyncio.get_running_loop()
    with loop.inside() if isinstance(loop, VirtualLoop) else nullcontext():
        yield
