"""Keeps a connection to each place where an owner may listen, for as long as it is listed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import structlog

from streams.worker.link.addresses import Address, Target, targets
from streams.worker.link.link import Link

log = structlog.get_logger(__name__)

LOOK_SECONDS = 10.0
"""Names are looked up again so often, and whenever a connection breaks."""
_TICK_SECONDS = 0.25
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 5.0

Dial = Callable[[Target], Awaitable[str]]
"""Serves a connection to its end, and returns why it ended or could not be made."""


class Dialing:
    """A task for each target, in the present event loop, which the link's clock ticks in, too."""

    def __init__(self, link: Link, addresses: Sequence[Address], dial: Dial) -> None:
        self._link = link
        self._addresses = addresses
        self._dial = dial
        self._found: dict[Address, frozenset[Target]] = {}
        self._tasks: dict[Target, asyncio.Task[None]] = {}
        self._broke = {address: asyncio.Event() for address in addresses}
        self._said: dict[str, str] = {}

    async def run(self, closed: threading.Event) -> None:
        """Dial until closed."""
        looking = [asyncio.create_task(self._look(address)) for address in self._addresses]
        try:
            while not closed.is_set():
                for each in looking:
                    if each.done():
                        each.result()
                try:
                    self._link.tick()
                except Exception:
                    log.exception("the link failed at its tick: it goes on")
                await asyncio.sleep(_TICK_SECONDS)
        finally:
            tasks = [*looking, *self._tasks.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _look(self, address: Address) -> None:
        """Look an address up again and again; a name server that hangs holds up no other one."""
        broke = self._broke[address]
        while True:
            await self._look_up(address)
            self._link.dials(self._places())
            for target in self._found.get(address, frozenset()) - self._tasks.keys():
                self._tasks[target] = asyncio.create_task(self._keep(target))
            broke.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await broke.wait()

    async def _look_up(self, address: Address) -> None:
        """Look a name up; if that fails, its former targets stay."""
        try:
            self._found[address] = frozenset(await targets(address))
        except OSError as error:
            self._lost(f"{address.host}:{address.port}", f"its name has no address ({error})")

    def _places(self) -> int:
        """How many places are dialed; a name counts as one until it was looked up."""
        return sum(map(len, self._found.values())) + len(self._addresses) - len(self._found)

    async def _keep(self, target: Target) -> None:
        """Connect again and again, until the target is no longer listed."""
        loop, pause = asyncio.get_running_loop(), _FIRST_PAUSE_SECONDS
        try:
            while target in self._found[target.address]:
                began = loop.time()
                why = await self._dial(target)
                lasted = loop.time() - began > _LONGEST_PAUSE_SECONDS
                self._lost(target.name, why, lasted or pause >= _LONGEST_PAUSE_SECONDS)
                pause = _FIRST_PAUSE_SECONDS if lasted else pause
                self._broke[target.address].set()
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        finally:
            del self._tasks[target]

    def _lost(self, name: str, why: str, is_news: bool = True) -> None:
        """Say once why an owner cannot be reached, and again when the reason is another one.

        An owner that starts beside the worker is no news until the pauses are the longest.
        """
        self._link.unreached(name, why)
        if is_news and self._said.get(name) != why:
            self._said[name] = why
            log.warning("no connection to an owner: trying on", owner=name, why=why)
