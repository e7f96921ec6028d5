"""Points at which a job stands still because the test wants to do something there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A call of a tool, or of a step's function, in a run of a job; a step has no key."""

    job_id: str
    attempt: int
    name: str
    key: str | None = None

    @property
    def action(self) -> str:
        """As the ledger names an effect; a step has its name alone."""
        return self.name if self.key is None else f"{self.name}/{self.key}"


@dataclass(frozen=True, slots=True)
class Stop:
    """Where to stand: before a call is made, or when it is `done` and nobody was told yet.

    `name` is a tool, an action (`tool/key`), or with `of_step` a step.
    """

    job_id: str
    name: str
    of_step: bool
    done: bool

    def is_at(self, place: Place, *, done: bool) -> bool:
        """Whether a run that comes to this place stops."""
        same = self.name in (place.name, place.action) and self.of_step == (place.key is None)
        return same and (self.job_id, self.done) == (place.job_id, done)


class Stops:
    """The points that are set, and the runs that stand at one."""

    def __init__(self) -> None:
        self.changed: Callable[[bool], None] = lambda _: None
        self._set: Stop | None = None
        self._standing: list[asyncio.Future[None]] = []

    def set(self, stop: Stop) -> None:
        """Stop there once; it replaces a point that was not reached."""
        self._set = stop

    @property
    def was_reached(self) -> bool:
        """Whether the point that was set last has been reached, or none is set."""
        return self._set is None

    def drop(self) -> None:
        self._set = None

    async def reached(self, place: Place, *, done: bool) -> None:
        """Stand here if the test wants it, until it goes on."""
        if self._set is None or not self._set.is_at(place, done=done):
            return
        self._set = None
        here = asyncio.get_running_loop().create_future()
        self._standing.append(here)
        self.changed(True)
        try:
            await here
        finally:
            if here in self._standing:
                self._standing.remove(here)
            self.changed(bool(self._standing))

    def go_on(self) -> None:
        """Let every run that stands go on."""
        for here in self._standing:
            if not here.done():
                here.set_result(None)
        self._standing.clear()
        self.changed(False)

    def forget(self) -> None:
        """Their process is gone: nobody stands any more."""
        self._standing.clear()
        self.changed(False)
