"""Room is shared out in turns: by tenant, then by connection, and never more than there is."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

from streams.link.fair_room import FairRoom


class Guests:
    """Requests that stay until they are told to go."""

    def __init__(self, in_all: int) -> None:
        self.room = FairRoom(in_all)
        self.inside: list[str] = []
        self._doors: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def ask(self, name: str, tenant: str, connection: str, size: int) -> None:
        self._doors[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._stay(name, tenant, connection, size))
        await settled()

    async def leave(self, name: str) -> None:
        self._doors[name].set()
        await settled()

    async def _stay(self, name: str, tenant: str, connection: str, size: int) -> None:
        async with self.room.room(tenant, connection, size):
            self.inside.append(name)
            await self._doors[name].wait()
            self.inside.remove(name)


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_tenant_has_half_of_the_room_and_a_connection_a_quarter() -> None:
    guests = Guests(80)
    for number in range(5):
        await guests.ask(f"a{number}", "acme", "one", 10)
    assert guests.inside == ["a0", "a1"]
    await guests.ask("b0", "acme", "two", 10)
    await guests.ask("c0", "acme", "three", 20)
    await guests.ask("d0", "beta", "four", 20)
    assert guests.inside == ["a0", "a1", "b0", "d0"]
    await guests.leave("b0")
    assert guests.inside == ["a0", "a1", "d0", "c0"]


async def test_tenants_and_the_connections_of_each_have_turns() -> None:
    guests = Guests(80)
    for number in range(4):
        await guests.ask(f"a{number}", "acme", f"one{number % 2}", 20)
    await guests.ask("b0", "beta", "two", 20)
    await guests.ask("b1", "beta", "three", 20)
    await guests.ask("c0", "corp", "four", 20)
    assert guests.inside == ["a0", "a1", "b0", "b1"]
    await guests.leave("a0")
    assert guests.inside == ["a1", "b0", "b1", "a2"]
    await guests.leave("a1")
    assert guests.inside == ["b0", "b1", "a2", "c0"], "acme has just had its turn"
    await guests.leave("b0")
    assert guests.inside == ["b1", "a2", "c0", "a3"]


async def test_what_is_larger_than_a_share_or_all_enters_when_nobody_else_is_there() -> None:
    guests = Guests(80)
    await guests.ask("large", "acme", "one", 100)
    assert guests.inside == ["large"]
    await guests.ask("next", "beta", "two", 1)
    assert guests.inside == ["large"]
    await guests.leave("large")
    assert guests.inside == ["next"]


async def test_a_large_one_whose_turn_it_is_does_not_wait_behind_small_ones_for_ever() -> None:
    guests = Guests(80)
    for number in range(4):
        await guests.ask(f"s{number}", f"t{number}", f"t{number}", 20)
    await guests.ask("large", "acme", "one", 20)
    for number in range(4, 8):
        await guests.ask(f"s{number}", f"t{number}", f"t{number}", 10)
    await guests.leave("s0")
    assert "large" in guests.inside


async def test_a_request_that_is_given_up_takes_and_keeps_nothing() -> None:
    guests = Guests(40)
    await guests.ask("a", "acme", "one", 40)
    await guests.ask("b", "acme", "one", 40)
    await guests.ask("c", "acme", "one", 40)
    guests.tasks["b"].cancel()
    await settled()
    guests.tasks["a"].cancel()
    await settled()
    assert guests.tasks["a"].cancelled()
    assert guests.room.taken == 40
    await guests.leave("c")
    assert guests.room.taken == 0


async def test_at_random_nothing_is_exceeded_and_all_get_in() -> None:
    dice, guests = random.Random(46), Guests(100)
    names, taken = Counter[str](), 0
    for number in range(300):
        tenant, connection = f"t{dice.randrange(4)}", f"c{dice.randrange(8)}"
        await guests.ask(str(number), tenant, connection, dice.randint(0, 30))
        taken = max(taken, guests.room.taken)
        if guests.inside and dice.random() < 0.5:
            name = dice.choice(guests.inside)
            names[name] += 1
            await guests.leave(name)
    while guests.inside:
        await guests.leave(guests.inside[0])
        taken = max(taken, guests.room.taken)
    assert all(task.done() for task in guests.tasks.values())
    assert (taken <= 100, guests.room.taken) == (True, 0)
