"""Room is given in turns of tenants, and whoever gives up costs nobody their turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from streams.process.shared_room import SharedRoom


class Visitors:
    """Callers that enter one after the other; `inside` has those that are in, in their order."""

    def __init__(self, room: SharedRoom) -> None:
        self.room = room
        self.inside: list[str] = []
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, *names: str, size: int = 1) -> None:
        """Visitors of tenants that the first letters name."""
        for name in names:
            self._tasks[name] = asyncio.create_task(self._enter(name, size))
            await asyncio.sleep(0)

    async def _enter(self, name: str, size: int) -> None:
        await self.room.enter(name[0], size)
        self.inside.append(name)

    async def give_up(self, name: str) -> None:
        self._tasks[name].cancel()
        await asyncio.wait([self._tasks[name]])
        await asyncio.sleep(0)

    async def leave(self, name: str, size: int = 1) -> None:
        self.room.leave(name[0], size)
        await asyncio.sleep(0)


async def done(awaitable: Awaitable[object]) -> None:
    async with asyncio.timeout(10):
        await awaitable


async def test_tenants_take_turns_and_each_keeps_its_order() -> None:
    visitors = Visitors(SharedRoom(1))
    await visitors.come("a1", "a2", "a3", "b1", "b2", "c1")
    for name in ("a1", "a2", "b1", "c1", "a3"):
        await visitors.leave(name)
    assert visitors.inside == ["a1", "a2", "b1", "c1", "a3", "b2"]


async def test_nobody_overtakes_one_that_needs_more_than_is_free() -> None:
    visitors = Visitors(SharedRoom(10))
    await visitors.come("a1", size=6)
    await visitors.come("b1", size=8)
    await visitors.come("c1", size=2)
    assert visitors.inside == ["a1"]
    await visitors.leave("a1", 6)
    assert visitors.inside == ["a1", "b1", "c1"]


async def test_one_that_gives_up_blocks_nobody_behind() -> None:
    visitors = Visitors(SharedRoom(10))
    await visitors.come("a1", size=6)
    await visitors.come("b1", size=8)
    await visitors.come("c1", "b2", size=2)
    await visitors.give_up("b1")
    assert visitors.inside == ["a1", "b2", "c1"]
    for name, size in (("a1", 6), ("c1", 2), ("b2", 2)):
        await visitors.leave(name, size)
    assert visitors.room.try_enter("a", 10)


async def test_one_that_is_let_in_and_cancelled_at_once_gives_its_room_back() -> None:
    room = SharedRoom(10)
    await room.enter("a", 10)
    waiting = asyncio.create_task(room.enter("b", 4))
    await asyncio.sleep(0)
    room.leave("a", 10)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert room.try_enter("a", 10)


async def test_one_that_is_cancelled_in_the_moment_of_its_turn_leaves_it_to_the_next() -> None:
    visitors = Visitors(SharedRoom(1))
    await visitors.come("a1", "b1", "b2")
    visitors._tasks["b1"].cancel()
    await visitors.leave("a1")
    await asyncio.sleep(0)
    assert visitors.inside == ["a1", "b2"]
    await visitors.leave("b2")
    assert visitors.room.try_enter("a", 1)


async def test_with_a_share_a_tenant_leaves_room_for_the_next_and_those_for_further_ones() -> None:
    room = SharedRoom(256, share=3)
    held = []
    for tenant_id in "abc":
        count = 0
        while room.try_enter(tenant_id, 1):
            count += 1
        held.append(count)
    assert held == [192, 48, 12]


async def test_one_that_waits_for_its_own_share_holds_up_nobody() -> None:
    visitors = Visitors(SharedRoom(4, share=1))
    await visitors.come("a1", "a2", "a3", "b1")
    assert visitors.inside == ["a1", "a2", "b1"]
    await visitors.leave("b1")
    await visitors.leave("a1")
    assert visitors.inside == ["a1", "a2", "b1", "a3"]


async def test_a_tenant_without_room_gets_any_that_is_free() -> None:
    room = SharedRoom(10, share=3)
    await done(room.enter("a", 10))
    waiting = asyncio.create_task(room.enter("a", 10))
    await asyncio.sleep(0)
    room.leave("a", 10)
    await done(waiting)
